"""Events that are published without waiting and written a moment later."""

from __future__ import annotations

import asyncio

import pytest

from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import StoreUnavailable
from paddock.core.event import Event
from paddock.core.events_host import PluginMethodCalled
from paddock.core.ids import DEFAULT_TENANT
from paddock.ledger.feed import recent
from paddock.ledger.opening import open_ledger
from paddock.ledger.writer import CROWDED, TOO_CROWDED, LedgerWriter
from paddock.store.database import Database, Transaction, open_database


def called(number: int) -> PluginMethodCalled:
    return PluginMethodCalled(
        name="notes", method="notes.add", request_id=f"req_{number}", operator_id=None, project_id=None
    )


class Counted:
    """A database that counts its units of work."""

    engine = "sqlite"

    def __init__(self, real: Database) -> None:
        self._real = real
        self.writes = 0

    async def write(self, fn):
        self.writes += 1
        return await self._real.write(fn)


class Doubtful:
    """A database whose connection breaks once, after the commit and before the answer."""

    engine = "sqlite"

    def __init__(self, real: Database) -> None:
        self._real = real
        self.broke = False

    async def write(self, fn):
        await self._real.write(fn)
        if not self.broke:
            self.broke = True
            raise StoreUnavailable("the connection broke", code="store.outcome_unknown")


class Broken:
    """A database that cannot write until it is mended."""

    engine = "sqlite"

    def __init__(self, real: Database) -> None:
        self._real = real
        self.error: StoreUnavailable | None = StoreUnavailable("no room left", code="store.full")

    async def write(self, fn):
        if self.error is not None:
            raise self.error
        return await self._real.write(fn)


async def test_what_was_published_is_in_the_table_once_the_writer_is_closed(database_address: str) -> None:
    async with open_database(database_address) as database:
        async with open_ledger(database, SystemClock(), SystemRandom()) as writer:
            for number in range(50):
                writer.publisher(DEFAULT_TENANT).publish(called(number))
        found = await database.read(recent)
    assert [event.data["request_id"] for event in reversed(found)] == [f"req_{number}" for number in range(50)]
    assert {(event.type, event.plugin, event.tenant) for event in found} == {
        ("plugin.method_called", "notes", "default")
    }


async def test_events_of_one_moment_are_one_unit_of_work(sqlite_address: str) -> None:
    async with open_database(sqlite_address) as real:
        counted = Counted(real)
        async with open_ledger(counted, SystemClock(), SystemRandom()) as writer:  # pyright: ignore[reportArgumentType]
            for number in range(20):
                writer.take(called(number), "default")
                await asyncio.sleep(0)  # as calls that come one after another
        assert len(await real.read(recent)) == 20
    assert counted.writes == 1


async def test_a_store_that_is_full_is_told_and_nothing_is_lost_when_there_is_room_again(sqlite_address: str) -> None:
    async with open_database(sqlite_address) as real:
        broken = Broken(real)
        async with open_ledger(broken, SystemClock(), SystemRandom()) as writer:  # pyright: ignore[reportArgumentType]
            writer.take(called(1), "default")
            with pytest.raises(StoreUnavailable):
                await writer.flushed()
            assert writer.failing is broken.error
            broken.error = None  # the writer tries again by itself, and once more before it closes
        assert writer.failing is None
        assert [event.data["request_id"] for event in await real.read(recent)] == ["req_1"]


async def test_whoever_makes_events_faster_than_they_are_written_is_asked_to_wait(sqlite_address: str) -> None:
    async with open_database(sqlite_address) as database:
        writer = LedgerWriter(database, SystemClock(), SystemRandom())
        await asyncio.wait_for(writer.room("default"), 1)
        for number in range(CROWDED):
            writer.take(called(number), "default")
        waiting = asyncio.ensure_future(writer.room("default"))
        await asyncio.sleep(0)
        assert not waiting.done()
        await asyncio.wait_for(writer.room("another"), 1)  # who has no share in it
        writing = asyncio.ensure_future(writer.write_forever())
        await asyncio.wait_for(waiting, 60)
        writing.cancel()

        def count(tx: Transaction) -> int:
            return len(recent(tx, limit=1))

        assert await database.read(count) == 1


async def test_where_far_too_much_waits_everybody_is_asked_to_wait(sqlite_address: str) -> None:
    async with open_database(sqlite_address) as database:
        writer = LedgerWriter(database, SystemClock(), SystemRandom())
        for number in range(TOO_CROWDED - 1):
            writer.take(called(number), "default")
        assert not writer.crowded("another")
        writer.take(called(0), "default")
        assert writer.crowded("another")


async def test_a_writer_that_nobody_asks_sees_by_itself_that_there_is_room_again(sqlite_address: str) -> None:
    async with open_database(sqlite_address) as real:
        broken = Broken(real)
        async with open_ledger(broken, SystemClock(), SystemRandom()) as writer:  # pyright: ignore[reportArgumentType]
            writer.take(called(1), "default")
            with pytest.raises(StoreUnavailable):
                await writer.flushed()
            broken.error = None
            await asyncio.wait_for(writer.landed(), 10)
            assert writer.failing is None


async def test_a_batch_that_may_have_been_kept_is_not_kept_twice(database_address: str) -> None:
    async with open_database(database_address) as real:
        doubtful = Doubtful(real)
        async with open_ledger(doubtful, SystemClock(), SystemRandom()) as writer:  # pyright: ignore[reportArgumentType]
            writer.take(called(1), "default")
            with pytest.raises(StoreUnavailable):
                await writer.flushed()
            writer.take(called(2), "default")
        assert [event.data["request_id"] for event in await real.read(recent)] == ["req_2", "req_1"]


async def test_what_cannot_be_described_keeps_no_other_entry_out(sqlite_address: str) -> None:
    def odd() -> Event:
        raise LookupError("nobody knows")

    async with (
        open_database(sqlite_address) as database,
        open_ledger(database, SystemClock(), SystemRandom()) as writer,
    ):
        for event in (called(1), odd, called(2)):
            writer.take(event, "default", call="call_1")
        await writer.flushed()
        entries = await database.read(recent)
    assert [entry.type for entry in entries] == ["plugin.method_called", "ledger.undescribed", "plugin.method_called"]
    assert entries[1].data["reason"] == "LookupError"
