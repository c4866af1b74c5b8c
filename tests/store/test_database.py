"""Units of work behave alike on both engines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from paddock.core.errors import Conflict, HostError, OperatorError, PaddockError, StoreUnavailable
from paddock.core.tasks import DeferredCancellation
from paddock.store.database import Database, Transaction, open_database, open_direct
from paddock.store.group_commit import GroupCommit

pytestmark = pytest.mark.anyio


def add_alias(tx: Transaction, alias: str, plugin: str = "notes") -> int:
    return tx.execute("INSERT INTO aliases (alias, plugin, callable) VALUES (?, ?, ?)", (alias, plugin, "search"))


def aliases(tx: Transaction) -> list[str]:
    return [row["alias"] for row in tx.all("SELECT alias FROM aliases ORDER BY alias")]


async def test_a_read_sees_every_write_answered_before_it(database_address: str) -> None:
    async with open_database(database_address) as database:
        for number in range(20):
            await database.write(lambda tx, n=number: add_alias(tx, f"a{n:02}"))
            assert len(await database.read(aliases)) == number + 1


async def test_what_was_written_is_there_after_reopening(database_address: str) -> None:
    async with open_database(database_address) as database:
        await database.write(lambda tx: add_alias(tx, "kept"))
    async with open_database(database_address) as database:
        assert await database.read(aliases) == ["kept"]
    with open_direct(database_address) as direct:
        assert direct.read(aliases) == ["kept"]


async def test_a_unit_that_raises_leaves_no_trace_and_only_its_caller_hears_of_it(database_address: str) -> None:
    class Mine(Exception):
        pass

    def write_then_fail(tx: Transaction) -> None:
        add_alias(tx, "bad")
        raise Mine

    async with open_database(database_address) as database:
        units = [
            database.write(write_then_fail if n % 3 == 0 else lambda tx, n=n: add_alias(tx, f"good{n:02}"))
            for n in range(30)
        ]
        outcomes = await asyncio.gather(*units, return_exceptions=True)

        assert [isinstance(outcome, Mine) for outcome in outcomes] == [n % 3 == 0 for n in range(30)]
        assert [outcome for outcome in outcomes if not isinstance(outcome, Mine)] == [1] * 20
        assert await database.read(aliases) == [f"good{n:02}" for n in range(30) if n % 3]


async def test_sixty_four_writers_get_a_gapless_order_and_every_row_is_durable(database_address: str) -> None:
    def take_the_next_number(tx: Transaction) -> int:
        row = tx.one("SELECT coalesce(max(size), 0) + 1 AS next FROM blobs")
        assert row is not None
        tx.execute(
            "INSERT INTO blobs (digest, size, data) VALUES (?, ?, ?)", (f"b{row['next']:04}", row["next"], b"\x00x")
        )
        return row["next"]

    async def writer(database: Database) -> list[int]:
        return [await database.write(take_the_next_number) for _ in range(4)]

    async with open_database(database_address) as database:
        taken = await asyncio.gather(*(writer(database) for _ in range(64)))

    assert all(numbers == sorted(numbers) for numbers in taken)
    assert sorted(number for numbers in taken for number in numbers) == list(range(1, 257))
    with open_direct(database_address) as direct:
        rows = direct.read(lambda tx: tx.all("SELECT digest, size, data FROM blobs ORDER BY digest"))
    assert rows == [{"digest": f"b{n:04}", "size": n, "data": b"\x00x"} for n in range(1, 257)]


async def test_what_units_leave_to_the_end_is_done_last_and_not_for_those_that_raise(database_address: str) -> None:
    class Mine(Exception):
        pass

    def add_all(tx: Transaction, names: list[str]) -> None:
        for name in names:
            add_alias(tx, name)

    def unit(tx: Transaction, number: int) -> None:
        tx.before_commit(add_all, f"late{number:02}")
        assert f"late{number:02}" not in aliases(tx)
        if number % 3 == 0:
            raise Mine

    async with open_database(database_address) as database:
        units = [database.write(lambda tx, n=n: unit(tx, n)) for n in range(30)]
        outcomes = await asyncio.gather(*units, return_exceptions=True)
        assert [isinstance(outcome, Mine) for outcome in outcomes] == [n % 3 == 0 for n in range(30)]
        assert await database.read(aliases) == [f"late{n:02}" for n in range(30) if n % 3]


async def test_a_unit_whose_end_fails_is_not_kept(database_address: str) -> None:
    def add_twice(tx: Transaction, names: list[str]) -> None:
        add_alias(tx, names[0])
        add_alias(tx, names[0])

    def unit(tx: Transaction) -> None:
        add_alias(tx, "early")
        tx.before_commit(add_twice, "late")

    async with open_database(database_address) as database:
        with pytest.raises(PaddockError) as failed:
            await database.write(unit)
        assert failed.value.error_code == "store.constraint"
        assert await database.read(aliases) == []
        await database.write(lambda tx: add_alias(tx, "next"))
        assert await database.read(aliases) == ["next"]


async def test_an_end_that_cannot_be_done_spoils_nothing_for_the_units_beside_it(database_address: str) -> None:
    def add_all(tx: Transaction, names: list[str]) -> None:
        for name in names:
            add_alias(tx, name)

    async with open_database(database_address) as database:
        await database.write(lambda tx: add_alias(tx, "late05"))
        units = [database.write(lambda tx, n=n: tx.before_commit(add_all, f"late{n:02}")) for n in range(10)]
        outcomes = await asyncio.gather(*units, return_exceptions=True)

        assert [isinstance(outcome, Conflict) for outcome in outcomes] == [n == 5 for n in range(10)]
        assert await database.read(aliases) == [f"late{n:02}" for n in range(10)]


async def test_a_clash_is_a_conflict_and_the_store_works_on(database_address: str) -> None:
    async with open_database(database_address) as database:
        await database.write(lambda tx: add_alias(tx, "one"))
        with pytest.raises(Conflict) as clash:
            await database.write(lambda tx: add_alias(tx, "one"))
        assert clash.value.error_code == "store.constraint"
        await database.write(lambda tx: add_alias(tx, "two"))
        assert await database.read(aliases) == ["one", "two"]


async def test_a_unit_that_swallows_a_failed_statement_still_fails_as_a_whole(database_address: str) -> None:
    def carry_on(tx: Transaction) -> str:
        add_alias(tx, "first")
        try:
            add_alias(tx, "first")
        except Conflict:
            with pytest.raises(Conflict):
                add_alias(tx, "second")
        return "fine"

    async with open_database(database_address) as database:
        with pytest.raises(Conflict):
            await database.write(carry_on)
        assert await database.read(aliases) == []


async def test_a_reading_unit_cannot_write(database_address: str) -> None:
    async with open_database(database_address) as database:
        with pytest.raises(HostError) as refused:
            await database.read(lambda tx: add_alias(tx, "sly"))
        assert refused.value.error_code == "store.read_only"
        assert await database.read(aliases) == []
    with open_direct(database_address) as direct:
        with pytest.raises(HostError) as refused:
            direct.read(lambda tx: add_alias(tx, "sly"))
        assert refused.value.error_code == "store.read_only"
        assert direct.write(lambda tx: add_alias(tx, "open")) == 1


async def test_a_transaction_cannot_be_used_after_its_unit(database_address: str) -> None:
    async with open_database(database_address) as database:
        kept = await database.read(lambda tx: tx)
        with pytest.raises(HostError):
            kept.all("SELECT alias FROM aliases")


async def test_foreign_keys_hold_and_deleting_a_plugin_deletes_its_grants(database_address: str) -> None:
    def grant(tx: Transaction) -> int:
        return tx.execute(
            "INSERT INTO grants (tenant, plugin, enabled, capabilities, digest, changed_at) VALUES (?, ?, ?, ?, ?, ?)",
            ("default", "notes", True, "[]", "sha256:0", "2030-01-01T00:00:00Z"),
        )

    def install(tx: Transaction) -> int:
        return tx.execute(
            "INSERT INTO plugins (name, title, default_version, pinned_version, local, installed_at) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            ("notes", "Notes", "1.0.0", None, False, "2030-01-01T00:00:00Z"),
        )

    with open_direct(database_address) as database:
        with pytest.raises(Conflict):
            database.write(grant)
        database.write(lambda tx: install(tx) + grant(tx))
        assert database.read(lambda tx: tx.one("SELECT enabled FROM grants")) == {"enabled": 1}
        assert database.write(lambda tx: tx.execute("DELETE FROM plugins WHERE name = ?", ("notes",))) == 1
        assert database.read(lambda tx: tx.one("SELECT enabled FROM grants")) is None
        assert database.write(lambda tx: tx.execute("DELETE FROM plugins WHERE name = ?", ("notes",))) == 0


async def test_numbers_sums_and_the_order_of_text_are_the_same_on_both_engines(database_address: str) -> None:
    with open_direct(database_address) as database:
        for alias in ("b", "a", "B", "_", "é"):
            database.write(lambda tx, alias=alias: add_alias(tx, alias))
        database.write(
            lambda tx: tx.execute(
                "INSERT INTO blobs (digest, size, data) VALUES (?, ?, ?), (?, ?, ?)",
                ("x", 2**40, b"", "y", 2**40 + 1, b"\xff"),
            )
        )
        assert database.read(aliases) == ["B", "_", "a", "b", "é"]
        total = database.read(lambda tx: tx.one("SELECT sum(size) AS total, count(*) AS n FROM blobs"))
        assert total == {"total": 2**41 + 1, "n": 2}
        assert total is not None
        assert type(total["total"]) is int


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT alias FROM aliases WHERE alias = '?'", ()),
        ("SELECT alias FROM aliases WHERE alias LIKE 'a%'", ()),
        ("SELECT alias FROM aliases WHERE alias = ?1", ("a",)),
        ("SELECT 5 % 2 AS odd", ()),
        ("SELECT alias FROM aliases; DELETE FROM aliases", ()),
        ("SELECT alias FROM aliases -- all of them", ()),
        ("SELECT alias FROM aliases WHERE alias = 'a", ()),
        ("COMMIT", ()),
        ("CREATE TABLE mine (x TEXT)", ()),
        ("PRAGMA foreign_keys = OFF", ()),
        ("SELECT alias FROM aliases WHERE alias = ?", ()),
        ("SELECT alias FROM aliases WHERE alias = ?", ("a\0b",)),
        ("SELECT alias FROM aliases WHERE alias = ?", ("\ud800",)),
        ("SELECT size FROM blobs WHERE size = ?", (2**63,)),
        ("SELECT alias FROM aliases WHERE alias = ?", (["a"],)),
        ("SELECT nothing FROM nowhere", ()),
    ],
)
async def test_a_statement_only_one_engine_would_take_is_refused_by_both(
    database_address: str, sql: str, params: tuple[str, ...]
) -> None:
    with open_direct(database_address) as database:
        with pytest.raises(HostError) as refused:
            database.write(lambda tx: tx.all(sql, params))
        assert refused.value.error_code == "store.statement"
        assert database.read(aliases) == []


async def test_marks_in_quotes_and_percent_signs_in_values_arrive_as_they_are(database_address: str) -> None:
    with open_direct(database_address) as database:
        database.write(lambda tx: add_alias(tx, "100%? 'really' %s", 'its "?"'))
        row = database.read(
            lambda tx: tx.one("SELECT plugin, 'it''s' AS \"a b\" FROM aliases WHERE alias LIKE ? ;", ("100%",))
        )
        assert row == {"plugin": 'its "?"', "a b": "it's"}


async def test_a_unit_that_raises_stop_iteration_is_answered_too(database_address: str) -> None:
    async with open_database(database_address) as database:
        with pytest.raises(RuntimeError):
            await database.write(lambda tx: next(iter(tx.all("SELECT alias FROM aliases"))))


async def test_a_caller_who_defers_its_cancellation_hears_first_what_was_written(database_address: str) -> None:
    begun, go_on, heard = threading.Event(), threading.Event(), list[int]()

    def slow(tx: Transaction) -> int:
        begun.set()
        assert go_on.wait(30)
        return add_alias(tx, "kept")

    async with open_database(database_address) as database:

        async def write() -> None:
            with DeferredCancellation() as deferral:
                heard.append(await database.write(slow, deferral))

        writing = asyncio.ensure_future(write())
        assert await asyncio.to_thread(begun.wait, 30)
        for _ in range(3):
            writing.cancel()
            await asyncio.sleep(0)
        assert not writing.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert heard == [1]
        assert await database.read(aliases) == ["kept"]


async def test_one_who_defers_its_cancellation_and_is_cancelled_as_the_answer_arrives_hears_it(
    sqlite_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, answered, heard = threading.Event(), threading.Event(), threading.Event(), list[int]()
    notify = GroupCommit._notify_callers  # pyright: ignore[reportPrivateUsage]

    def notify_and_tell(database: GroupCommit, outcomes: Any) -> None:
        notify(database, outcomes)
        if begun.is_set():
            answered.set()

    def slow(tx: Transaction) -> int:
        begun.set()
        assert go_on.wait(30)
        return add_alias(tx, "kept")

    monkeypatch.setattr(GroupCommit, "_notify_callers", notify_and_tell)
    async with open_database(sqlite_address) as database:

        async def write() -> None:
            with DeferredCancellation() as deferral:
                heard.append(await database.write(slow, deferral))

        def cancel_as_the_answer_arrives() -> None:
            loop.call_soon(writing.cancel)
            go_on.set()
            assert answered.wait(30)  # the loop is busy here, so that the answer comes right behind the cancellation

        loop, writing = asyncio.get_running_loop(), asyncio.ensure_future(write())
        assert await asyncio.to_thread(begun.wait, 30)
        loop.call_soon(cancel_as_the_answer_arrives)
        ended, _ = await asyncio.wait({writing}, timeout=30)
        assert ended and writing.cancelled()
        assert heard == [1]


async def test_one_who_defers_its_cancellation_is_heard_though_none_of_the_slots_was_free(
    database_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.store.group_commit._MAX_PENDING_UNITS", 1)
    monkeypatch.setattr("paddock.store.postgres_pool._MAX_PENDING_UNITS", 1)
    begun, go_on = threading.Event(), threading.Event()

    def slow(_tx: Transaction) -> None:
        begun.set()
        assert go_on.wait(30)

    async with open_database(database_address) as database:

        async def write() -> None:
            with DeferredCancellation() as deferral:
                await database.write(lambda tx: add_alias(tx, "kept"), deferral)

        first = asyncio.ensure_future(database.write(slow))
        assert await asyncio.to_thread(begun.wait, 30)
        second = asyncio.ensure_future(write())
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        go_on.set()
        await first
        with pytest.raises(asyncio.CancelledError):
            await second
        assert await database.read(aliases) == ["kept"]


async def test_what_many_callers_write_in_one_iteration_of_the_loop_is_committed_together(sqlite_address: str) -> None:
    groups = list[int]()

    def finish(_tx: Transaction, items: Sequence[int]) -> None:
        groups.append(len(items))

    async with open_database(sqlite_address) as database:
        await asyncio.gather(*(database.write(lambda tx, n=n: tx.before_commit(finish, n)) for n in range(100)))
    assert groups == [100]


async def test_a_cancelled_caller_leaves_the_store_working(database_address: str) -> None:
    async with open_database(database_address) as database:
        waiting = [asyncio.ensure_future(database.write(lambda tx, n=n: add_alias(tx, f"{n:04}"))) for n in range(40)]
        await asyncio.sleep(0)
        for task in waiting[::2]:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await database.write(lambda tx: add_alias(tx, "after"))
        kept = await database.read(aliases)
    assert {f"{n:04}" for n in range(1, 40, 2)} | {"after"} <= set(kept)


async def test_a_closed_database_says_so(database_address: str) -> None:
    async with open_database(database_address) as database:
        pass
    for unit in (database.write(aliases), database.read(aliases)):
        with pytest.raises(StoreUnavailable) as closed:
            await unit
        assert closed.value.error_code == "store.closed"
    await database.aclose()


async def test_the_daemon_goes_on_after_the_server_dropped_every_connection(
    postgres_address: str, postgres_server: str
) -> None:
    async with open_database(postgres_address) as database:
        await database.write(lambda tx: add_alias(tx, "before"))
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s",
                (conninfo_to_dict(postgres_address)["dbname"],),
            )
        await database.write(lambda tx: add_alias(tx, "after"))
        assert await database.read(aliases) == ["after", "before"]


async def test_a_server_that_is_not_there_is_reported_without_the_password(tmp_path: Path) -> None:
    address = f"postgresql://me:hunter2@/none?host={tmp_path}"
    with pytest.raises(StoreUnavailable) as gone, open_direct(address):
        pass
    assert gone.value.hint
    assert "hunter2" not in f"{gone.value} {gone.value.hint} {dict(gone.value.details)}"
    with pytest.raises(StoreUnavailable):
        async with open_database(address):
            pass


@pytest.mark.parametrize("address", ["mysql://u:hunter2@h/x", "sqlite://relative.db", "sqlite:///"])
async def test_an_address_without_an_engine_is_refused_without_showing_it(address: str) -> None:
    with pytest.raises(OperatorError) as refused, open_direct(address):
        pass
    assert refused.value.error_code == "store.url"
    assert "hunter2" not in str(refused.value)


def test_an_address_that_cannot_be_read_is_refused_without_repeating_its_password() -> None:
    with (
        pytest.raises(StoreUnavailable) as refused,
        open_direct("postgresql://ada:hunter2@[oops/paddock?nonsense=hunter2"),
    ):
        pass
    assert "hunter2" not in f"{refused.value.message} {refused.value.hint} {refused.value.details}"
