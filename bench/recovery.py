"""How long a daemon needs until it takes calls after its last run was killed over 10,000 rows, against an idle one."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from _side_by_side import Report, alternate, options

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from paddock.config.directories import create_directories, find_directories
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.ids import CallId, Tenant
from paddock.gate.idempotency import records
from paddock.host.wiring.open_host import Config, open_host
from paddock.queue import leases, queue
from paddock.queue.leases import NodeRun
from paddock.queue.node import load_or_create_node_id
from paddock.store.database import Transaction, open_direct

ROWS = 10_000
GOAL = 5.0
Fill = Callable[[Transaction, NodeRun, int], None]


def main() -> None:
    given = options(__doc__)
    rows = ROWS // 10 if given.quick else ROWS
    subjects: dict[str, Fill] = {
        "nothing was left": lambda *_: None,
        f"{rows:,} due soon, held by the run that was killed": _held,
        f"{rows:,} effects under way": partial(_effects, "none"),
        f"{rows:,} of which a plugin knows what became of them": partial(_effects, "probe"),
    }
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        numbered = enumerate(subjects.items())
        runs = {name: _start(Path(folder) / str(place), fill, rows) for place, (name, fill) in numbered}
        times = alternate(runs, rounds=2 if given.quick else 7)
    report = Report(
        "recovery",
        given,
        "From the first line of open_host until it takes calls, with the warden, the ledger and the policy, in a home "
        "without plugins; what was left is written anew before each run. Embedded store, synced.",
        ["what the killed run left", "fastest", "median", "slowest"],
    )
    for name, measured in times.items():
        shown = [f"{seconds:.2f} s" for seconds in (measured.best, measured.median, max(measured.runs))]
        report.row(name, *shown)
    for name, measured in times.items():
        report.at_most(name, max(measured.runs), GOAL, " s")
    report.finish()


def _start(home: Path, fill: Fill, rows: int) -> Callable[[], float]:
    home.mkdir()
    environ = {"PADDOCK_HOME": str(home)}
    directories = find_directories(environ, home)
    create_directories(directories)
    node = load_or_create_node_id(directories.state, SystemClock(), SystemRandom())

    def kill_one_run(tx: Transaction) -> None:
        """Leave the rows as a daemon does that is killed at its work."""
        for table in ("queue", "effects", "node_leases"):
            tx.execute(f"DELETE FROM {table}")
        fill(tx, leases.open_lease(tx, node, daemon=True), rows)

    async def ready() -> float:
        begun = time.perf_counter()
        async with open_host(Config(home=home, environ=environ)):
            return time.perf_counter() - begun

    def run() -> float:
        with open_direct(directories.database_file) as database:
            database.write(kill_one_run)
        return asyncio.run(ready())

    return run


def _held(tx: Transaction, here: NodeRun, rows: int) -> None:
    now = datetime.now(UTC)
    for number in range(rows):
        key = f"apr_{number:026}"
        queue.enqueue(tx, f"tenant-{number % 20}", "approval.expire", key, due=now + timedelta(hours=1), now=now)
    tx.execute("UPDATE queue SET node = ?, epoch = ?, tries = 1", here)


def _effects(recovery: str, tx: Transaction, here: NodeRun, rows: int) -> None:
    now = datetime.now(UTC).isoformat()
    for number in range(rows):
        effect = records.claim(
            tx,
            records.EffectKey(Tenant(f"tenant-{number % 20}"), "mail", "send", f"key-{number}"),
            call=CallId(f"call_{number:026}"),
            payload_hash="sha256:0",
            holder=here,
            recovery=recovery,
            now=now,
            principal=None,
        )
        assert effect is not None
        records.mark_started(tx, effect, holder=here, now=now, payload={"to": "ann"}, context={})


if __name__ == "__main__":
    main()
