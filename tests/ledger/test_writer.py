"""Events that are published without waiting and written a moment later."""

from __future__ import annotations

import asyncio

import pytest

from fixtures.ledger_entries import list_recent
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import StoreUnavailable
from paddock.core.events.event import Event
from paddock.core.events.plugin_runtime import PluginMethodCalled
from paddock.core.ids import DEFAULT_TENANT
from paddock.ledger.write.lifespan import open_ledger
from paddock.ledger.write.writer import HARD_LIMIT_ENTRIES, SOFT_LIMIT_ENTRIES, LedgerWriter
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
        found = await database.read(list_recent)
    assert [event.data["request_id"] for event in reversed(found)] == [f"req_{number}" for number in range(50)]
    assert {(event.type, event.plugin, event.tenant) for event in found} == {
        ("plugin.method_called", "notes", "default")
    }


async def test_events_of_one_moment_are_one_unit_of_work(sqlite_address: str) -> None:
    async with open_database(sqlite_address) as real:
        counted = Counted(real)
        async with open_ledger(counted, SystemClock(), SystemRandom()) as writer:  # pyright: ignore[reportArgumentType]
            for number in range(20):
                writer.enqueue(called(number), "default")
                await asyncio.sleep(0)  # as calls that come one after another
        assert len(await real.read(list_recent)) == 20
    assert counted.writes == 1


async def test_a_store_that_is_full_is_told_and_nothing_is_lost_when_there_is_room_again(sqlite_address: str) -> None:
    async with open_database(sqlite_address) as real:
        broken = Broken(real)
        async with open_ledger(broken, SystemClock(), SystemRandom()) as writer:  # pyright: ignore[reportArgumentType]
            writer.enqueue(called(1), "default")
            with pytest.raises(StoreUnavailable):
                await writer.flush()
            assert writer.failing is broken.error
            broken.error = None  # the writer tries again by itself, and once more before it closes
        assert writer.failing is None
        assert [event.data["request_id"] for event in await real.read(list_recent)] == ["req_1"]


async def test_whoever_makes_events_faster_than_they_are_written_is_asked_to_wait(sqlite_address: str) -> None:
    async with open_database(sqlite_address) as database:
        writer = LedgerWriter(database, SystemClock(), SystemRandom())
        await asyncio.wait_for(writer.wait_for_room("default"), 1)
        for number in range(SOFT_LIMIT_ENTRIES):
            writer.enqueue(called(number), "default")
        waiting = asyncio.ensure_future(writer.wait_for_room("default"))
        await asyncio.sleep(0)
        assert not waiting.done()
        await asyncio.wait_for(writer.wait_for_room("another"), 1)  # who has no share in it
        writing = asyncio.ensure_future(writer.write_forever())
        await asyncio.wait_for(waiting, 60)
        writing.cancel()

        def count(tx: Transaction) -> int:
            return len(list_recent(tx, limit=1))

        assert await database.read(count) == 1


async def test_where_far_too_much_waits_everybody_is_asked_to_wait(sqlite_address: str) -> None:
    async with open_database(sqlite_address) as database:
        writer = LedgerWriter(database, SystemClock(), SystemRandom())
        for number in range(HARD_LIMIT_ENTRIES - 1):
            writer.enqueue(called(number), "default")
        assert not writer.overloaded("another")
        writer.enqueue(called(0), "default")
        assert writer.overloaded("another")


async def test_a_writer_that_nobody_asks_sees_by_itself_that_there_is_room_again(sqlite_address: str) -> None:
    async with open_database(sqlite_address) as real:
        broken = Broken(real)
        async with open_ledger(broken, SystemClock(), SystemRandom()) as writer:  # pyright: ignore[reportArgumentType]
            writer.enqueue(called(1), "default")
            with pytest.raises(StoreUnavailable):
                await writer.flush()
            broken.error = None
            await asyncio.wait_for(writer.wait_for_write(), 10)
            assert writer.failing is None


async def test_a_batch_that_may_have_been_kept_is_not_kept_twice(database_address: str) -> None:
    async with open_database(database_address) as real:
        doubtful = Doubtful(real)
        async with open_ledger(doubtful, SystemClock(), SystemRandom()) as writer:  # pyright: ignore[reportArgumentType]
            writer.enqueue(called(1), "default")
            with pytest.raises(StoreUnavailable):
                await writer.flush()
            writer.enqueue(called(2), "default")
        assert [event.data["request_id"] for event in await real.read(list_recent)] == ["req_2", "req_1"]


async def test_what_cannot_be_described_keeps_no_other_entry_out(sqlite_address: str) -> None:
    def odd() -> Event:
        raise LookupError("nobody knows")

    async with (
        open_database(sqlite_address) as database,
        open_ledger(database, SystemClock(), SystemRandom()) as writer,
    ):
        for event in (called(1), odd, called(2)):
            writer.enqueue(event, "default", call="call_1")
        await writer.flush()
        entries = await database.read(list_recent)
    assert [entry.type for entry in entries] == ["plugin.method_called", "ledger.undescribed", "plugin.method_called"]
    assert entries[1].data["reason"] == "LookupError"
