"""Hosts are killed with work in their hands: in the end everything was done, and by one."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paddock.core.events.system import QueueGivenUp
from paddock.core.ids import DEFAULT_TENANT
from paddock.ledger.read.entries import list_entries
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
@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.slow)])
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


POISONED = """
import asyncio, os, signal, sys
from pathlib import Path
from paddock.core.clock import SystemClock, SystemRandom
from paddock.ledger.write.append import TransactionLedger
from paddock.queue.lifespan import open_worker
from paddock.queue.node import open_node
from paddock.queue.schedule import RetryPolicy
from paddock.queue.worker import JobType, Worker
from paddock.store.database import open_database

async def main():
    clock, random = SystemClock(), SystemRandom()

    async def poison(work):
        print("tried", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def publish_in(tx, tenant, call):
        return TransactionLedger(tx, clock, random, tenant, call)

    kinds = {"poison": JobType(poison, RetryPolicy(max_tries=3))}
    async with (
        open_database(sys.argv[1]) as database,
        open_node(database, clock, random, state=Path(sys.argv[2]), daemon=True) as node,
        open_worker(Worker(database, node, clock, random, kinds, publish_in), node),
        asyncio.timeout(60),
    ):
        while await database.read(lambda tx: tx.one("SELECT 1 AS found FROM queue")):
            await asyncio.sleep(0.02)

asyncio.run(main())
"""


@pytest.mark.slow
def test_work_that_kills_every_host_ends_after_its_tries_once_and_on_record(
    database_address: str, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    with open_direct(database_address) as database:
        database.write(lambda tx: queue.enqueue(tx, "default", "poison", "letter", due=now, now=now))
    state = tmp_path / "state"
    state.mkdir()
    command = [sys.executable, "-c", POISONED, database_address, str(state)]

    runs = [subprocess.run(command, capture_output=True, text=True, check=False, timeout=90) for _ in range(5)]

    assert [run.returncode for run in runs] == [-signal.SIGKILL] * 3 + [0] * 2, runs[-1].stderr
    assert [run.stdout for run in runs] == ["tried\n"] * 3 + [""] * 2
    with open_direct(database_address) as database:
        (given_up,) = [
            row for row in database.read(lambda tx: list_entries(tx, DEFAULT_TENANT)) if row.type == QueueGivenUp.type
        ]
    assert (given_up.data["work"], given_up.data["times"]) == ("letter", 4)


def test_what_a_killed_command_held_is_done_by_the_daemon_of_its_home(database_address: str, tmp_path: Path) -> None:
    """By itself: it looks at the locks of its home each second."""
    now, state = datetime.now(UTC), tmp_path / "state"
    state.mkdir()
    with open_direct(database_address) as database:
        database.write(lambda tx: queue.enqueue(tx, "default", "count", "held", due=now, now=now))
        database.write(lambda tx: tx.execute("INSERT INTO quota_use VALUES ('', '', 'held', '', 0)"))
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, database_address, str(state)], stdout=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "held\n"
        daemon = subprocess.Popen(
            [sys.executable, "-c", HOST, database_address, str(state)], stdout=subprocess.PIPE, text=True
        )
        with daemon:
            assert daemon.stdout is not None
            assert daemon.stdout.readline() == "open\n"
            command.kill()
            assert daemon.wait(30) == 0
    with open_direct(database_address) as database:
        assert database.read(lambda tx: tx.all("SELECT used FROM quota_use")) == [{"used": 1}]


HOLDER = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from paddock.core.clock import SystemClock, SystemRandom
from paddock.queue import queue
from paddock.queue.node import open_node
from paddock.store.database import open_database

async def main():
    clock = SystemClock()
    async with (
        open_database(sys.argv[1], role="command") as database,
        open_node(database, clock, SystemRandom(), state=Path(sys.argv[2]), daemon=False) as node,
    ):
        here, now = await node.current_run(), datetime.now(UTC)
        assert await database.write(lambda tx: queue.claim_one(tx, here, "default", "count", "held", now=now))
        print("held", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.slow
def test_what_a_killed_node_held_is_done_by_another_home_within_35_seconds(
    postgres_address: str, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    with open_direct(postgres_address) as database:
        database.write(lambda tx: queue.enqueue(tx, "default", "count", "held", due=now, now=now))
        database.write(lambda tx: tx.execute("INSERT INTO quota_use VALUES ('', '', 'held', '', 0)"))
    for home in ("one", "other"):
        (tmp_path / home).mkdir()
    holder = [sys.executable, "-c", HOLDER, postgres_address, str(tmp_path / "one")]
    other = [sys.executable, "-c", HOST, postgres_address, str(tmp_path / "other")]
    with (
        subprocess.Popen(holder, stdout=subprocess.PIPE, text=True) as dying,
        subprocess.Popen(other, stdout=subprocess.PIPE, text=True) as daemon,
    ):
        assert dying.stdout is not None and daemon.stdout is not None
        assert (dying.stdout.readline(), daemon.stdout.readline()) == ("held\n", "open\n")
        time.sleep(leases.LEASE_S)  # until the daemon has seen a whole lease go by
        dying.kill()
        assert daemon.wait(35) == 0
