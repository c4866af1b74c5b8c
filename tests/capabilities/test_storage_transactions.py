"""Transactions over several calls: one at a time, bounded in time, and the property of the process that began them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from paddock.capabilities.sql.limits import StorageLimits
from paddock.core.errors import Busy, Conflict, NotFound
from paddock.core.ids import DEFAULT_TENANT

from .stage import SQL, Stage, open_stage, plugin

NOTES = plugin("notes", SQL, instance="first")
PATIENCE = 10
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT -n FROM r"


async def found(stage: Stage, **more: Any) -> dict[str, Any]:
    (row,) = (await stage.ask(NOTES, "storage.query", sql="SELECT * FROM t", **more))["rows"]
    return row


async def count(stage: Stage, **more: Any) -> int:
    ((found,),) = await stage.rows(NOTES, "SELECT count(*) FROM t", **more)
    return found


@pytest.mark.req("G-32", "transactions")
async def test_what_is_done_in_a_transaction_is_seen_inside_at_once_and_outside_after_its_commit(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        begun = await stage.ask(NOTES, "storage.begin")
        await stage.exec(NOTES, "INSERT INTO t VALUES (1)", **begun)
        await stage.exec(NOTES, "CREATE TABLE u (x)", **begun)
        assert await count(stage, **begun) == 1
        outside = asyncio.ensure_future(count(stage))
        await asyncio.sleep(0)
        assert not outside.done(), "others wait for the end"

        assert await stage.ask(NOTES, "storage.commit", **begun) == {}

        assert await asyncio.wait_for(outside, PATIENCE) == 1
        assert await stage.ask(NOTES, "storage.schema") == {"tables": ["t", "u"]}


@pytest.mark.req("G-32", "transactions")
async def test_a_rollback_takes_everything_back(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        begun = await stage.ask(NOTES, "storage.begin")
        await stage.exec(NOTES, "INSERT INTO t VALUES (1)", **begun)
        await stage.exec(NOTES, "ALTER TABLE t ADD COLUMN y", **begun)

        await stage.ask(NOTES, "storage.rollback", **begun)

        assert await stage.rows(NOTES, "SELECT count(*) FROM t") == [(0,)]
        assert (await stage.ask(NOTES, "storage.query", sql="SELECT * FROM t"))["columns"] == ["x"]
        again = await stage.refused(NOTES, "storage.commit", **begun)
        assert isinstance(again, Conflict)
        assert "rolled back" in again.message


async def test_a_statement_that_fails_leaves_the_transaction_as_it_was_before_it(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x UNIQUE)")
        begun = await stage.ask(NOTES, "storage.begin")
        await stage.exec(NOTES, "INSERT INTO t VALUES (1)", **begun)

        for wrong in (
            "INSERT INTO t VALUES (2), (1)",
            "INSERT OR ABORT INTO t VALUES (3), (1)",
            "SELEC",
            "BEGIN",
            "COMMIT",
        ):
            await stage.refused(NOTES, "storage.exec", sql=wrong, **begun)

        assert await count(stage, **begun) == 1
        await stage.ask(NOTES, "storage.commit", **begun)
        assert await count(stage) == 1


async def test_a_statement_that_ends_the_transaction_says_so_to_the_next(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x UNIQUE)")
        await stage.exec(NOTES, "INSERT INTO t VALUES (1)")
        begun = await stage.ask(NOTES, "storage.begin")

        await stage.refused(NOTES, "storage.exec", sql="INSERT OR ROLLBACK INTO t VALUES (2), (1)", **begun)

        over = await stage.refused(NOTES, "storage.commit", **begun)
        assert (type(over), over.error_code) == (Conflict, "storage.transaction_over")
        assert await count(stage) == 1


async def test_a_query_asked_before_is_answered_with_the_columns_of_now(tmp_path: Path) -> None:
    async with open_stage(tmp_path, limits=StorageLimits(statement_seconds=0.5)) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x UNIQUE)")
        await stage.exec(NOTES, "INSERT INTO t VALUES (1)")
        assert await found(stage) == {"x": 1}
        await stage.exec(NOTES, "ALTER TABLE t ADD COLUMN y DEFAULT 2")
        assert await found(stage) == {"x": 1, "y": 2}

        begun = await stage.ask(NOTES, "storage.begin")
        await stage.exec(NOTES, "ALTER TABLE t ADD COLUMN z DEFAULT 3", **begun)
        assert await found(stage, **begun) == {"x": 1, "y": 2, "z": 3}
        await stage.ask(NOTES, "storage.rollback", **begun)
        assert await found(stage) == {"x": 1, "y": 2}

        for ends_it in ("INSERT OR ROLLBACK INTO t (x) VALUES (1)", f"INSERT INTO t (x) {ENDLESS}"):
            begun = await stage.ask(NOTES, "storage.begin")
            await stage.exec(NOTES, "ALTER TABLE t RENAME COLUMN y TO renamed", **begun)
            assert await found(stage, **begun) == {"x": 1, "renamed": 2}
            await stage.refused(NOTES, "storage.exec", sql=ends_it, **begun)
            assert await found(stage) == {"x": 1, "y": 2}


async def test_a_commit_that_a_constraint_forbids_says_so_whatever_failed_before_it(tmp_path: Path) -> None:
    async with open_stage(tmp_path, limits=StorageLimits(statement_seconds=0.2)) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x PRIMARY KEY)")
        await stage.exec(NOTES, "CREATE TABLE u (x REFERENCES t DEFERRABLE INITIALLY DEFERRED)")
        begun = await stage.ask(NOTES, "storage.begin")
        await stage.exec(NOTES, "INSERT INTO u VALUES (1)", **begun)
        slow = await stage.refused(NOTES, "storage.query", sql=f"SELECT count(*) FROM ({ENDLESS})", **begun)
        assert slow.error_code == "storage.too_slow"

        error = await stage.refused(NOTES, "storage.commit", **begun)

        assert (type(error), error.error_code) == (Conflict, "storage.constraint")


@pytest.mark.parametrize("limits", [StorageLimits(transaction_idle=0.1), StorageLimits(transaction_total=0.1)])
async def test_a_transaction_left_open_is_rolled_back_and_later_use_says_so(
    limits: StorageLimits, tmp_path: Path
) -> None:
    async with open_stage(tmp_path, limits=limits) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        begun = await stage.ask(NOTES, "storage.begin")
        await stage.exec(NOTES, "INSERT INTO t VALUES (1)", **begun)

        # Not in the transaction: waits for its end, which nobody brings about.
        assert await asyncio.wait_for(count(stage), PATIENCE) == 0

        over = await stage.refused(NOTES, "storage.exec", sql="INSERT INTO t VALUES (2)", **begun)
        assert (type(over), over.error_code) == (Conflict, "storage.transaction_over")
        assert "0.1 s" in over.message


async def test_who_waits_too_long_for_a_transaction_is_told_to_come_back(tmp_path: Path) -> None:
    async with open_stage(tmp_path, limits=StorageLimits(wait_seconds=0.1, waiting_calls=2)) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        begun = await stage.ask(NOTES, "storage.begin")

        errors = await asyncio.gather(*(stage.refused(NOTES, "storage.begin") for _ in range(5)))

        assert all(isinstance(error, Busy) for error in errors)
        assert sum("2 calls wait" in error.message for error in errors) == 3
        await stage.ask(NOTES, "storage.commit", **begun)
        assert await count(stage) == 0


async def test_a_transaction_ends_with_its_process_and_is_nobody_elses(tmp_path: Path) -> None:
    other = plugin("notes", SQL, instance="second")
    async with open_stage(tmp_path) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        begun = await stage.ask(NOTES, "storage.begin")
        await stage.exec(NOTES, "INSERT INTO t VALUES (1)", **begun)

        assert isinstance(await stage.refused(other, "storage.commit", **begun), NotFound)
        await stage.storage.rollback_of_instance(DEFAULT_TENANT, NOTES.plugin, "second")
        assert await count(stage, **begun) == 1, "another process ended"
        await stage.storage.rollback_of_instance(DEFAULT_TENANT, NOTES.plugin, "first")

        assert await asyncio.wait_for(count(stage), PATIENCE) == 0
        assert "ended" in (await stage.refused(NOTES, "storage.commit", **begun)).message
        assert isinstance(await stage.refused(NOTES, "storage.commit", transaction="tx_made_up"), NotFound)


async def test_a_caller_that_goes_away_leaves_neither_its_turn_nor_a_lost_transaction(tmp_path: Path) -> None:
    async with open_stage(tmp_path, limits=StorageLimits(statement_seconds=0.3, transaction_idle=0.2)) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
        running = asyncio.ensure_future(stage.rows(NOTES, endless))
        beginning = asyncio.ensure_future(stage.ask(NOTES, "storage.begin"))
        await asyncio.sleep(0.05)
        running.cancel()
        beginning.cancel()

        assert await asyncio.wait_for(count(stage), PATIENCE) == 0


async def test_a_hundred_calls_at_once_all_get_their_turn_and_one_slow_plugin_holds_up_no_other(tmp_path: Path) -> None:
    slow = plugin("slow", SQL)
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
    async with open_stage(tmp_path, limits=StorageLimits(statement_seconds=5)) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        burning = asyncio.ensure_future(stage.refused(slow, "storage.query", sql=endless))

        await asyncio.gather(*(stage.exec(NOTES, "INSERT INTO t VALUES (?)", n) for n in range(100)))

        assert await count(stage) == 100
        assert not burning.done()
        assert (await burning).error_code == "storage.too_slow"


async def test_more_plugins_than_files_may_be_open_still_all_find_their_tables(tmp_path: Path) -> None:
    many = [plugin(f"p{n}", SQL) for n in range(8)]
    async with open_stage(tmp_path, limits=StorageLimits(open_files=3)) as stage:
        await asyncio.gather(*(stage.exec(one, f"CREATE TABLE t{n} (x)") for n, one in enumerate(many)))
        for n, one in enumerate(many):
            assert await stage.ask(one, "storage.schema") == {"tables": [f"t{n}"]}
