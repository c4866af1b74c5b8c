"""A node that was stopped for longer than its lease, and goes on: nothing of what it still does is accepted."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from tests.queue.conftest import Yard

from fixtures.commands import PATIENCE
from paddock.core.errors import PaddockError
from paddock.queue import leases, queue
from paddock.queue.leases import LEASE_S
from paddock.queue.node import Node, NodeRun

POSTGRESQL = pytest.mark.parametrize("database_address", ["postgresql"], indirect=True)

NODE = """
import asyncio, sys
from pathlib import Path
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import PaddockError
from paddock.queue import node as nodes, queue, worker
from paddock.queue.lifespan import open_worker
from paddock.queue.node import open_node
from paddock.queue.worker import JobType, Worker
from paddock.store.database import open_database

nodes.HEARTBEAT_INTERVAL_S = worker.POLL_INTERVAL_S = 0.2

async def main():
    clock, random = SystemClock(), SystemRandom()

    async def hold(work):
        print("held", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

        def unit(tx):
            queue.complete(tx, work)
            tx.execute("UPDATE quota_use SET used = used + 1 WHERE name = ?", (work.key,))

        try:
            await database.write(unit)
        except PaddockError as error:
            print(error.error_code, flush=True)
        else:
            print("accepted", flush=True)

    async with (
        open_database(sys.argv[1]) as database,
        open_node(database, clock, random, state=Path(sys.argv[2]), daemon=False) as node,
        open_worker(Worker(database, node, clock, random, {"post": JobType(hold)}, None), node),
    ):
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def taken_over(yard: Yard, watcher: Node) -> list[NodeRun]:
    """Who the watcher finds to be silent, after a whole lease of it."""
    while True:
        await yard.pass_time(LEASE_S / 4)
        try:
            if ended := await watcher.renew():
                return ended
        except PaddockError:
            pass  # what the stopped node had locked; the server ends its session


async def back_under_another_epoch(yard: Yard, ended: NodeRun) -> None:
    """Wait until a node goes on that was taken for dead; what it did in its old name it has tried by then."""
    while ended.node not in {run.node for run in await yard.database.read(leases.list_runs)}:  # noqa: ASYNC110 - rows
        await asyncio.sleep(0.02)


@POSTGRESQL
@pytest.mark.req("B-07", "durable work")
@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.slow)])
async def test_a_node_that_was_stopped_beyond_its_lease_has_no_write_accepted_when_it_goes_on(
    yard: Yard, database_address: str, tmp_path: Path, times: int
) -> None:
    watcher = yard.node("node_b")
    here = await watcher.current_run()
    command = [sys.executable, "-c", NODE, database_address, str(tmp_path)]
    stopped = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert stopped.stdin is not None and stopped.stdout is not None
    heard: list[bytes] = []
    try:
        async with asyncio.timeout(PATIENCE * times):
            for number in range(times):
                key = f"letter-{number}"
                await yard.database.write(
                    lambda tx, key=key: tx.execute("INSERT INTO quota_use VALUES ('', '', ?, '', 0)", (key,))
                )
                await yard.put(key)
                assert await stopped.stdout.readline() == b"held\n"
                stopped.send_signal(signal.SIGSTOP)
                (ended,) = await taken_over(yard, watcher)
                assert ended != here
                work = await yard.claim(here, key)
                assert work is not None

                stopped.send_signal(signal.SIGCONT)
                stopped.stdin.write(b"\n")
                heard.append(await stopped.stdout.readline())
                await back_under_another_epoch(yard, ended)

                def unit(tx: queue.Transaction, work: queue.Job = work) -> None:
                    queue.complete(tx, work)
                    tx.execute("UPDATE quota_use SET used = used + 1 WHERE name = ?", (work.key,))

                await yard.database.write(unit)
    finally:
        stopped.kill()
        await stopped.wait()

    assert heard == [b"queue.stale\n"] * times
    assert await yard.left() == []
    used = await yard.database.read(lambda tx: tx.all("SELECT used FROM quota_use"))
    assert [row["used"] for row in used] == [1] * times
