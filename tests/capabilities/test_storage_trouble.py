"""A full file, a full disk, a damaged file, another process: told in words, and nothing that was kept is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from fixtures import small_disks
from paddock.capabilities.sql.connection import GuardedConnection
from paddock.capabilities.sql.limits import StorageLimits
from paddock.capabilities.sql.paths import database_file
from paddock.core.errors import Busy, CallerError, HostError, PaddockError, StoreUnavailable

from .stage import SQL, SetClock, Stage, open_stage, plugin

NOTES = plugin("notes", SQL)
PUT = "INSERT INTO t VALUES (randomblob(100000))"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MiB."""
    with small_disks.small_disk(tmp_path / "disk", "3m") as place:
        yield place


async def test_a_file_that_is_full_takes_no_more_and_keeps_what_it_has(tmp_path: Path) -> None:
    async with open_stage(tmp_path, limits=StorageLimits(file_bytes=1 << 20)) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        kept = 0
        while (error := await _failure(stage, PUT)) is None:
            kept += 1

        assert (type(error), error.error_code) == (CallerError, "storage.full")
        assert await stage.rows(NOTES, "SELECT count(*) FROM t") == [(kept,)]
        await stage.exec(NOTES, "DELETE FROM t")
        await stage.exec(NOTES, PUT)
        size = sum(file.stat().st_size for file in (tmp_path / "storage/default").iterdir())
        assert size < 8 << 20


async def test_a_disk_that_is_full_is_told_as_such_and_loses_nothing(small_disk: Path) -> None:
    async with open_stage(small_disk) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        kept = 0
        while (error := await _failure(stage, PUT)) is None:
            kept += 1

        assert (type(error), error.error_code) == (StoreUnavailable, "storage.disk_full")
        assert await stage.rows(NOTES, "SELECT count(*) FROM t") == [(kept,)]
        begun = await stage.ask(NOTES, "storage.begin")
        await stage.exec(NOTES, PUT, **begun)  # still in memory
        assert (await stage.refused(NOTES, "storage.commit", **begun)).error_code == "storage.disk_full"
        assert await stage.rows(NOTES, "SELECT count(*) FROM t") == [(kept,)]


async def test_a_damaged_file_is_told_as_such_and_one_that_was_restored_is_seen(tmp_path: Path) -> None:
    file = database_file(tmp_path / "storage", "default", "notes")
    async with open_stage(tmp_path) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
    backup = file.read_bytes()
    file.write_bytes(b"this is no database " * 1_000)
    async with open_stage(tmp_path) as stage:
        error = await stage.refused(NOTES, "storage.query", sql="SELECT * FROM t")
        assert (type(error), error.error_code) == (HostError, "storage.corrupt")
        assert str(tmp_path) not in error.message
        assert file.read_bytes().startswith(b"this is no database"), "nothing is made anew in its place"

        file.write_bytes(backup)
        assert await stage.rows(NOTES, "SELECT * FROM t") == []


async def test_a_file_damaged_inside_is_told_as_such(tmp_path: Path) -> None:
    file = database_file(tmp_path / "storage", "default", "notes")
    async with open_stage(tmp_path) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        for _ in range(5):
            await stage.exec(NOTES, "INSERT INTO t VALUES (hex(zeroblob(5000)))")
    good = file.read_bytes()
    file.write_bytes(good[:4096] + b"\xff" * (len(good) - 4096))
    async with open_stage(tmp_path) as stage:
        error = await stage.refused(NOTES, "storage.query", sql="SELECT sum(length(x)) FROM t")
        assert error.error_code == "storage.corrupt"
        assert await stage.ask(plugin("other", SQL), "storage.schema") == {"tables": []}


async def test_a_full_text_index_that_does_not_fit_is_the_plugins_own_matter(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (id INTEGER PRIMARY KEY, x)")
        await stage.exec(NOTES, "CREATE VIRTUAL TABLE ft USING fts5(x, content='t', content_rowid='id')")
        await stage.exec(NOTES, "INSERT INTO ft (rowid, x) VALUES (7, 'word')")

        error = await stage.refused(NOTES, "storage.exec", sql="INSERT INTO ft(ft, rank) VALUES ('integrity-check', 1)")

        assert error.error_code == "storage.sql"
        assert "rebuild" in error.hint


async def test_a_file_that_another_process_keeps_is_busy_and_then_is_not(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        other = apsw.Connection(str(database_file(tmp_path / "storage", "default", "notes")))
        other.execute("BEGIN IMMEDIATE")

        error = await stage.refused(NOTES, "storage.exec", sql="INSERT INTO t VALUES (1)")

        assert (type(error), error.error_code) == (Busy, "storage.busy")
        other.execute("ROLLBACK")
        other.close()
        assert await stage.exec(NOTES, "INSERT INTO t VALUES (1)") == {"rows_affected": 1}


async def test_a_file_that_another_process_keeps_is_not_told_with_the_reason_of_the_statement_before(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path, limits=StorageLimits(statement_seconds=0.2)) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        await stage.exec(NOTES, "INSERT INTO t VALUES (1)")  # known from now on
        endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
        slow = await stage.refused(NOTES, "storage.query", sql=endless)
        assert slow.error_code == "storage.too_slow"
        other = apsw.Connection(str(database_file(tmp_path / "storage", "default", "notes")))
        other.execute("BEGIN IMMEDIATE")

        error = await stage.refused(NOTES, "storage.exec", sql="INSERT INTO t VALUES (1)")

        other.close()
        assert (type(error), error.error_code) == (Busy, "storage.busy")


async def test_a_transaction_that_writes_the_same_pages_over_and_over_takes_no_more_disk_than_a_full_file(
    tmp_path: Path,
) -> None:
    limit = 4 << 20
    async with open_stage(tmp_path, limits=StorageLimits(file_bytes=limit)) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        for _ in range(30):
            await stage.exec(NOTES, PUT)
        begun = await stage.ask(NOTES, "storage.begin")

        for _ in range(40):  # 120 MB in all
            await stage.exec(NOTES, "UPDATE t SET x = randomblob(100000)", **begun)

        size = sum(file.stat().st_size for file in (tmp_path / "storage/default").iterdir())
        assert size < 3 * limit


async def test_a_plugin_that_often_comes_back_after_a_pause_is_never_interrupted(tmp_path: Path) -> None:
    clock = SetClock()
    file = GuardedConnection(tmp_path / "notes.sqlite", StorageLimits(), clock.monotonic)
    file.run("CREATE TABLE t (x)", (), may_write=True, seconds=5)

    for _ in range(400):  # SQLite asks whether to go on every thousand steps, its own small ones counted together
        clock.seconds += 60
        file.run("INSERT INTO t VALUES (1)", (), may_write=True, seconds=5)

    ((rows,),) = [row.values() for row in file.run("SELECT count(*) FROM t", (), may_write=False, seconds=5).rows]
    file.close()
    assert rows == 400


async def test_a_call_that_finds_no_thread_is_told_to_come_back_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    async with open_stage(tmp_path, limits=StorageLimits(wait_seconds=1)) as stage:
        usual = threading.stack_size(1 << 46)  # no system has room for such a thread
        try:
            written = await stage.refused(NOTES, "storage.exec", sql="CREATE TABLE t (x)")
            begun = await stage.refused(NOTES, "storage.begin")
        finally:
            threading.stack_size(usual)

        assert {type(error) for error in (written, begun)} == {Busy}
        await stage.exec(NOTES, "CREATE TABLE t (x)")


async def test_when_there_are_no_more_threads_those_that_are_there_do_the_work(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        await stage.exec(NOTES, "CREATE TABLE t (x)")
        usual = threading.stack_size(1 << 46)
        try:
            many = (stage.rows(plugin(f"p{n}", SQL), "SELECT 1") for n in range(8))
            assert await asyncio.gather(*many) == [[(1,)]] * 8
        finally:
            threading.stack_size(usual)


async def _failure(stage: Stage, sql: str) -> PaddockError | None:
    try:
        await stage.exec(NOTES, sql)
    except (CallerError, HostError) as error:
        return error
    return None


LOOK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
sys.stdout.write(str(connection.execute("SELECT count(*) FROM t").fetchone()[0]))
connection.close()
"""


def test_what_is_written_while_others_come_and_go_is_where_they_look(tmp_path: Path) -> None:
    def seen_by_another() -> str:
        return subprocess.run([sys.executable, "-c", LOOK, path], check=True, capture_output=True, text=True).stdout

    clock, path = SetClock(), tmp_path / "notes.sqlite"
    file = GuardedConnection(path, StorageLimits(), clock.monotonic)
    file.run("CREATE TABLE t (x)", (), may_write=True, seconds=5)
    second = GuardedConnection(path, StorageLimits(), clock.monotonic)
    assert seen_by_another() == "0"
    file.run("INSERT INTO t VALUES (1)", (), may_write=True, seconds=5)
    assert seen_by_another() == "1"
    second.close()
    file.close()
