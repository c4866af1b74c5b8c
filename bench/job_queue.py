"""How many jobs a second one and two nodes run on PostgreSQL, against procrastinate as it comes.

It is not named for the queue alone: a script of that name would hide the standard library's from all others here.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from _postgres import postgres
from _queue_node import KIND, WAIT_S
from _side_by_side import Report, alternate, milliseconds, options

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))

from paddock.queue import queue  # noqa: E402 - found by the line above
from paddock.store.database import Transaction, open_direct  # noqa: E402

JOBS = 4_000
TENANTS = 8
PINGS = 60
GOAL_A_SECOND = 400
GOAL_TWO_NODES = 1.5
GOAL_WAKE_UP_MS = 100
SUBJECTS = (
    ("bare procrastinate", "bare", "job"),
    ("ours", "ours", "job"),
    ("bare procrastinate, jobs that wait", "bare", "wait"),
    ("ours, jobs that wait", "ours", "wait"),
)
NODE = Path(__file__).with_name("_queue_node.py")


def main() -> None:
    given = options(__doc__)
    jobs = JOBS // 10 if given.quick else JOBS
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder, postgres(Path(folder)) as address:
        with open_direct(address):
            pass  # migrated: the bare engine works on the same schema
        runs = {
            f"{name}, {count} node{'' if count == 1 else 's'}": _run(way, work, count, address, Path(folder), jobs)
            for name, way, work in SUBJECTS
            for count in (1, 2)
        }
        times = alternate(runs, rounds=2 if given.quick else 5)
        waits = _wake_ups(address, Path(folder), PINGS // 4 if given.quick else PINGS)
    report = Report(
        "job_queue",
        given,
        f"{jobs:,} jobs of {TENANTS} tenants, put in one transaction while the nodes wait; from its commit until none "
        f"is left. Jobs do nothing, or wait for {milliseconds(WAIT_S)} as one does that asks a plugin. A node is a "
        "process with 16 slots. Server on the same machine. Jobs are put with a synced commit; ours does not wait for "
        "that when it fetches and ends them.",
        ["what", "fastest", "median", "jobs a second"],
    )
    for name, measured in times.items():
        report.row(name, f"{measured.best:.2f} s", f"{measured.median:.2f} s", f"{jobs / measured.best:,.0f}")
    report.at_least("one node, jobs a second", jobs / times["ours, 1 node"].best, GOAL_A_SECOND)
    for name in ("ours", "ours, jobs that wait"):
        gain = times[f"{name}, 1 node"].best / times[f"{name}, 2 nodes"].best
        verdict = "PASS" if gain >= GOAL_TWO_NODES else "FAIL"
        report.says(f"{verdict}  {name}: two nodes against one: {gain:.2f}× (goal: at least {GOAL_TWO_NODES}×)")
    waits.sort()
    p99 = waits[min(len(waits) - 1, int(len(waits) * 0.99))]
    report.says(f"a job put by one process ran in another after {milliseconds(statistics.median(waits))} (median)")
    report.at_most("the same, 99th percentile", p99 * 1000, GOAL_WAKE_UP_MS, " ms")
    report.finish()


@contextmanager
def _node(way: str, address: str, state: Path) -> Generator[subprocess.Popen[str], None, None]:
    command = [sys.executable, str(NODE), way, address, str(state)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        if process.stdout.readline() != "open\n":
            raise RuntimeError("the node did not start")
        yield process
        process.stdin.close()


def _run(way: str, work: str, nodes: int, address: str, folder: Path, jobs: int) -> Callable[[], float]:
    def run() -> float:
        with ExitStack() as stack:
            for number in range(nodes):
                stack.enter_context(_node(way, address, folder / f"state-{time.monotonic_ns()}-{number}"))
            server = stack.enter_context(psycopg.connect(address, autocommit=True))
            server.execute("VACUUM (ANALYZE) procrastinate_jobs, procrastinate_events")
            if way == "bare":
                server.execute(
                    "SELECT procrastinate_defer_jobs_v1(ARRAY(SELECT ROW('default', %s, 0, NULL, NULL,"
                    " jsonb_build_object('key', %s::text), NULL)::procrastinate_job_to_defer_v1"
                    " FROM generate_series(1, %s)))",
                    (KIND, work, jobs),
                )
            else:
                with open_direct(address) as database:
                    database.write(lambda tx: _put(tx, work, jobs))
            begun = time.perf_counter()
            while server.execute("SELECT EXISTS (SELECT FROM procrastinate_jobs)").fetchone() != (False,):
                time.sleep(0.005)
            return time.perf_counter() - begun

    return run


def _put(tx: Transaction, work: str, jobs: int) -> None:
    now = datetime.now(UTC)
    for tenant in range(TENANTS):
        names = [(KIND, f"{work}-{number}") for number in range(jobs // TENANTS)]
        queue.enqueue_many(tx, f"tenant-{tenant}", names, due=now, now=now)


def _wake_ups(address: str, folder: Path, pings: int) -> list[float]:
    """How long after its commit each of some jobs ran in another process."""
    waits: list[float] = []
    with _node("ours", address, folder / "pinged") as node, open_direct(address) as database:
        assert node.stdout is not None
        for number in range(pings):
            now = datetime.now(UTC)
            key = f"ping-{number}"
            database.write(lambda tx, key=key, now=now: queue.enqueue(tx, "default", KIND, key, due=now, now=now))
            put = time.monotonic()
            waits.append(max(float(node.stdout.readline()) - put, 0.0))
    return waits


if __name__ == "__main__":
    main()
