"""What is called how is kept: one's own changes count at once, and those of another process within a second."""

from __future__ import annotations

import asyncio

from fixtures.shelves import TurnedClock
from paddock.principals.display_name_cache import DisplayNameCache
from paddock.store.database import Database, Transaction, open_database


async def rename(database: Database, name: str) -> None:
    def write(tx: Transaction) -> None:
        tx.execute("DELETE FROM people WHERE tenant = 'default' AND name = 'ann'")
        tx.execute(
            "INSERT INTO people (tenant, name, display_name, disabled, created_at) VALUES ('default', 'ann', ?, 0, '')",
            (name,),
        )

    await database.write(write)


async def test_a_change_counts_at_once_and_one_of_another_process_within_a_second(
    database_address: str,
) -> None:
    revision, clock = 0, TurnedClock()
    async with open_database(database_address) as database:
        names = DisplayNameCache(database, clock, lambda: revision)
        await rename(database, "Ann Lee")
        assert await names.read("default") == {"user:ann": "Ann Lee"}

        await rename(database, "Ann Ray")
        revision += 1
        assert await names.read("default") == {"user:ann": "Ann Ray"}

        await rename(database, "Ann Roe")
        clock.turn(seconds=1)
        assert await names.read("default") == {"user:ann": "Ann Roe"}
        assert await names.read("acme") == {}


async def test_names_are_computed_again_only_after_a_change(database_address: str) -> None:
    clock = TurnedClock()
    async with open_database(database_address) as database:
        await rename(database, "Ann Lee")
        names = DisplayNameCache(database, clock, lambda: 0)
        first = await names.read("default")
        assert await names.read("default") is first
        clock.turn(seconds=1)
        assert await names.read("default") is first


async def test_what_was_read_less_than_a_second_ago_is_not_read_again(database_address: str) -> None:
    clock = TurnedClock()
    async with open_database(database_address) as database:
        await rename(database, "Ann Lee")
        names = DisplayNameCache(database, clock, lambda: 0)
        first = await names.read("default")
        await rename(database, "Ann Ray")
        clock.turn(seconds=0.9)
        assert await names.read("default") is first


async def test_tenants_that_ask_at_once_are_told_their_own_names(database_address: str) -> None:
    async with open_database(database_address) as database:
        await rename(database, "Ann Lee")
        names = DisplayNameCache(database, TurnedClock(), lambda: 0)
        ours, theirs = await asyncio.gather(names.read("default"), names.read("acme"))
        assert (ours, theirs) == ({"user:ann": "Ann Lee"}, {})


async def test_a_change_while_names_are_read_counts_for_whoever_asks_after_it(database_address: str) -> None:
    revision = 0
    async with open_database(database_address) as database:
        await rename(database, "Ann Lee")
        names = DisplayNameCache(database, TurnedClock(), lambda: revision)
        reading = asyncio.ensure_future(names.read("default"))
        await asyncio.sleep(0)
        revision += 1  # before what was read is kept
        await reading
        await rename(database, "Ann Ray")
        assert await names.read("default") == {"user:ann": "Ann Ray"}
