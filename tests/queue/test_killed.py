"""A host is killed while it takes over what the one before it left: in the end everything was done, and by one."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paddock.queue import leases, queue
from paddock.store.database import open_direct

HOST = """
import asyncio, sys
from pathlib import Path
from paddock.core.clock import SystemClock, SystemRandom
from paddock.queue import queue
from paddock.queue.node import open_node
from paddock.queue.lifespan import open_worker
from paddock.queue.worker import JobType, Worker
from paddock.queue.schedule import RetryPolicy
from paddock.store.database import open_database

class Nobody:
    def publish(self, event):
        raise AssertionError(event)

def nothing_left(tx):
    return tx.one("SELECT 1 AS found FROM queue") is None

async def main():
    clock, random, ended = SystemClock(), SystemRandom(), asyncio.Event()
    async with (
        open_database(sys.argv[1]) as database,
        open_node(database, clock, random, state=Path(sys.argv[2]), daemon=True) as node,
    ):
        async def count(work):
            def unit(tx):
                queue.complete(tx, work)
                tx.execute("UPDATE quota_use SET used = used + 1 WHERE name = ?", (work.key,))
                return nothing_left(tx)
            if await database.write(unit):
                ended.set()

        print("open", flush=True)
        await node.current_run()
        if await database.read(nothing_left):
            ended.set()  # those before it were quick
        kinds = {"count": JobType(count, RetryPolicy(max_tries=1_000))}
        async with open_worker(Worker(database, node, clock, random, kinds, lambda *_: Nobody()), node):
            await asyncio.wait_for(ended.wait(), 60)

asyncio.run(main())
"""


@pytest.mark.req("B-07", "durable work")
@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_a_host_killed_again_and_again_while_it_takes_over_ends_in_the_same_state(
    database_address: str, tmp_path: Path, kills: int
) -> None:
    rows, chance, now = kills * 40, random.Random(kills), datetime.now(UTC)
    with open_direct(database_address) as database:

        def filled(tx: queue.Transaction) -> None:
            for number in range(rows):
                key = f"count-{number}"
                queue.enqueue(tx, "default", "count", key, due=now, now=now)
                tx.execute("INSERT INTO quota_use (tenant, whose, name, day, used) VALUES ('', '', ?, '', 0)", (key,))

        database.write(filled)
    state = tmp_path / "state"
    state.mkdir()
    command = [sys.executable, "-c", HOST, database_address, str(state)]

    for _ in range(kills):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
            assert host.stdout is not None
            assert host.stdout.readline() == "open\n"
            time.sleep(chance.uniform(0, 0.03))  # dies anywhere between its epoch and the middle of its work
            host.kill()
    last = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)

    assert last.returncode == 0, last.stderr
    with open_direct(database_address) as database:
        assert database.read(lambda tx: tx.all("SELECT key FROM queue")) == []
        used = database.read(lambda tx: tx.all("SELECT used FROM quota_use"))
        assert [row["used"] for row in used] == [1] * rows
        assert database.read(leases.list_runs) == set()
