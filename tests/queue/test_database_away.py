"""The database goes away under load and comes back: nothing acknowledged is lost, and nothing is done twice."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from fixtures.commands import PATIENCE
from fixtures.databases import OwnServer
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import PaddockError
from paddock.core.events.event import EventSink
from paddock.queue import queue, worker
from paddock.queue.job import Job
from paddock.queue.lifespan import open_worker
from paddock.queue.node import open_node
from paddock.queue.schedule import RetryPolicy
from paddock.queue.worker import JobType, Worker
from paddock.store.database import Database, Transaction, open_database

CLOCK, RANDOM = SystemClock(), SystemRandom()


class Load:
    """Puts work all the time, and notes what it was told is kept."""

    def __init__(self, database: Database) -> None:
        self.acknowledged: list[str] = []
        self._database = database

    async def run(self, caller: int) -> None:
        for number in itertools.count():
            key = f"count-{caller}-{number}"
            try:
                await self._database.write(lambda tx, key=key: self._put(tx, key))
            except PaddockError:
                await asyncio.sleep(0.05)
            else:
                self.acknowledged.append(key)

    async def grows(self, count: int) -> None:
        """Wait until so much more is acknowledged."""
        until = len(self.acknowledged) + count
        while len(self.acknowledged) < until:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)

    def _put(self, tx: Transaction, key: str) -> None:
        now = CLOCK.now()
        tx.execute("INSERT INTO quota_use VALUES ('', '', ?, '', 0)", (key,))
        queue.enqueue(tx, "default", "count", key, due=now, now=now)


@pytest.mark.req("B-07", "durable work")
@pytest.mark.parametrize("seconds", [1, pytest.param(60, marks=pytest.mark.slow)])
async def test_nothing_acknowledged_is_lost_or_done_twice_when_the_database_goes_away_under_load(
    own_server: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    monkeypatch.setattr(worker, "POLL_INTERVAL_S", 0.5)

    async def count(work: Job) -> None:
        def unit(tx: Transaction) -> None:
            queue.complete(tx, work)
            tx.execute("UPDATE quota_use SET used = used + 1 WHERE name = ?", (work.key,))

        await database.write(unit)

    def left(tx: Transaction) -> bool:
        return tx.one("SELECT 1 AS found FROM queue") is not None

    async with (
        asyncio.timeout(PATIENCE * 2 + 2 * seconds),
        open_database(own_server.address) as database,
        open_node(database, CLOCK, RANDOM, state=tmp_path, daemon=True) as node,
    ):
        kinds = {"count": JobType(count, RetryPolicy(first_delay_s=0.1, max_delay_s=1, max_tries=1_000))}
        load = Load(database)
        async with open_worker(Worker(database, node, CLOCK, RANDOM, kinds, _nobody), node):
            putting = [asyncio.create_task(load.run(caller)) for caller in range(4)]
            await load.grows(30)
            own_server.kill()
            await asyncio.sleep(seconds)
            own_server.start()
            await load.grows(30)
            for caller in putting:
                caller.cancel()
            await asyncio.gather(*putting, return_exceptions=True)
            while await database.read(left):  # noqa: ASYNC110 - rows tell nobody
                await asyncio.sleep(0.05)
        rows = await database.read(lambda tx: tx.all("SELECT name, used FROM quota_use"))

    assert {row["used"] for row in rows} == {1}
    assert set(load.acknowledged) <= {row["name"] for row in rows}


def _nobody(*_: object) -> EventSink:
    raise AssertionError("nothing is given up")


@pytest.mark.parametrize("is_busy", [False, True])
async def test_a_worker_ends_within_two_seconds_while_the_database_is_away(
    own_server: OwnServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_busy: bool,
) -> None:
    monkeypatch.setattr(worker, "POLL_INTERVAL_S", 0.1)
    began = asyncio.Event()

    async def hold(_work: Job) -> None:
        began.set()
        await asyncio.Event().wait()

    def put(tx: Transaction) -> None:
        now = CLOCK.now()
        queue.enqueue(tx, "default", "hold", "letter", due=now, now=now)

    async with (
        asyncio.timeout(PATIENCE),
        open_database(own_server.address) as database,
        open_node(database, CLOCK, RANDOM, state=tmp_path, daemon=True) as node,
    ):
        working = open_worker(Worker(database, node, CLOCK, RANDOM, {"hold": JobType(hold)}, _nobody), node)
        await working.__aenter__()
        if is_busy:
            await database.write(put)
            await began.wait()
        own_server.kill()
        while not any("could not be looked at" in record.message for record in caplog.records):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)  # into the next fetch

        async with asyncio.timeout(2):
            await working.__aexit__(None, None, None)
        own_server.start()
