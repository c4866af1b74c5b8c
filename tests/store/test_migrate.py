"""Databases go forward whole steps at a time, on both engines, or not at all."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from paddock.core.errors import HostError
from paddock.store.database import Transaction, open_database, open_direct
from paddock.store.migrate import MIGRATIONS_DIR, load_migrations

FIRST = "CREATE TABLE pets (name {text} PRIMARY KEY, photo {blob}, size {bigint}) {strict};"
SECOND = "ALTER TABLE pets ADD COLUMN age INTEGER; CREATE TABLE owners (name {text} PRIMARY KEY) {strict};"

OPEN = """
import sys
from pathlib import Path
from paddock.store.database import open_direct
print("starting", flush=True)
with open_direct(sys.argv[1], migrations=Path(sys.argv[2])):
    print("open", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one migration."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_pets.sql").write_text(FIRST)
    return folder


def versions(tx: Transaction) -> list[int]:
    return [row["number"] for row in tx.all("SELECT number FROM migrations ORDER BY number")]


def test_a_database_is_brought_forward_when_it_is_opened_and_keeps_its_rows(
    database_address: str, folder: Path
) -> None:
    with open_direct(database_address, migrations=folder) as database:
        assert database.read(versions) == [1]
        database.write(lambda tx: tx.execute("INSERT INTO pets (name, size) VALUES (?, ?)", ("rex", 2**40)))
    (folder / "0002_owners.sql").write_text(SECOND)
    for _ in range(2):
        with open_direct(database_address, migrations=folder) as database:
            assert database.read(versions) == [1, 2]
            assert database.read(lambda tx: tx.one("SELECT name, size, age FROM pets")) == {
                "name": "rex",
                "size": 2**40,
                "age": None,
            }


def test_a_newer_database_is_refused_with_the_versions_and_left_alone(database_address: str, folder: Path) -> None:
    (folder / "0002_owners.sql").write_text(SECOND)
    with open_direct(database_address, migrations=folder):
        pass
    (folder / "0002_owners.sql").unlink()
    with pytest.raises(HostError) as refused, open_direct(database_address, migrations=folder):
        pass
    assert refused.value.error_code == "store.newer"
    assert "version 2" in refused.value.message
    assert refused.value.hint
    (folder / "0002_owners.sql").write_text(SECOND)
    with open_direct(database_address, migrations=folder, wait=0) as database:
        assert database.read(versions) == [1, 2]


def test_a_migration_that_was_edited_after_it_ran_is_refused(database_address: str, folder: Path) -> None:
    with open_direct(database_address, migrations=folder):
        pass
    (folder / "0001_pets.sql").write_text(FIRST + "\n-- a thought that came later")
    with pytest.raises(HostError) as refused, open_direct(database_address, migrations=folder):
        pass
    assert refused.value.error_code == "store.migration_changed"
    assert "0001_pets" in refused.value.message


def test_a_migration_that_fails_half_way_leaves_the_version_before_it(database_address: str, folder: Path) -> None:
    with open_direct(database_address, migrations=folder) as database:
        database.write(lambda tx: tx.execute("INSERT INTO pets (name) VALUES (?)", ("rex",)))
    broken = folder / "0002_broken.sql"
    broken.write_text(SECOND + "DELETE FROM pets; INSERT INTO nowhere (x) VALUES (1);")
    with pytest.raises(HostError), open_direct(database_address, migrations=folder):
        pass
    broken.unlink()
    (folder / "0002_owners.sql").write_text(SECOND)
    with open_direct(database_address, migrations=folder, wait=0) as database:
        assert database.read(versions) == [1, 2]
        assert database.read(lambda tx: tx.all("SELECT name, age FROM pets")) == [{"name": "rex", "age": None}]


# A join that has changed half the schema before it and would go on for hours.
ENDLESS = """
DELETE FROM pets;
INSERT INTO owners (name)
WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 100000000000)
SELECT 'nobody' FROM n WHERE x < 0;
"""
STANDING_IN_IT = "FROM pg_stat_activity WHERE query LIKE '%RECURSIVE n%' AND pid <> pg_backend_pid()"


def test_a_process_killed_in_the_middle_of_a_migration_leaves_the_version_before_it(
    database_address: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    with open_direct(database_address, migrations=folder) as database:
        database.write(lambda tx: tx.execute("INSERT INTO pets (name) VALUES (?)", ("rex",)))
    endless = folder / "0002_endless.sql"
    endless.write_text(SECOND + ENDLESS)

    command = [sys.executable, "-c", OPEN, database_address, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        _wait_until_migrating(database_address, process.pid, request)
        process.kill()
        assert process.stdout.readline() == ""

    if database_address.startswith("postgresql:"):
        # The server goes on with the statement of a client that died until it looks up.
        with psycopg.connect(request.getfixturevalue("postgres_server"), autocommit=True) as connection:
            connection.execute(f"SELECT pg_terminate_backend(pid) {STANDING_IN_IT}")
    endless.unlink()
    (folder / "0002_owners.sql").write_text(SECOND)
    with open_direct(database_address, migrations=folder) as database:
        assert database.read(versions) == [1, 2]
        assert database.read(lambda tx: tx.all("SELECT name, age FROM pets")) == [{"name": "rex", "age": None}]


def _wait_until_migrating(address: str, pid: int, request: pytest.FixtureRequest) -> None:
    """Until the other process stands inside the endless statement; seen from outside, and for a minute at most."""
    deadline = time.monotonic() + 60
    if address.startswith("postgresql:"):
        with psycopg.connect(request.getfixturevalue("postgres_server"), autocommit=True) as connection:
            while not connection.execute(f"SELECT 1 {STANDING_IN_IT}").fetchone():
                assert time.monotonic() < deadline
    else:
        # It computes and does nothing else: starting takes it far less than a second of its own time.
        clock = Path(f"/proc/{pid}/stat")
        ticks = os.sysconf("SC_CLK_TCK")
        while int(clock.read_text().rpartition(")")[2].split()[11]) < 1.0 * ticks:
            assert time.monotonic() < deadline


def test_processes_that_open_a_new_database_at_once_migrate_it_once(database_address: str, folder: Path) -> None:
    for number in range(2, 12):
        (folder / f"{number:04}_table.sql").write_text(f"CREATE TABLE t{number} (x {{text}}) {{strict}};")
    command = [sys.executable, "-c", OPEN, database_address, str(folder)]
    with ThreadPoolExecutor(10) as pool:
        runs = list(pool.map(lambda _: subprocess.run(command, capture_output=True, text=True, check=False), range(10)))
    assert [run.stdout for run in runs] == ["starting\nopen\n"] * 10, [run.stderr for run in runs]
    with open_direct(database_address, migrations=folder) as database:
        assert database.read(versions) == list(range(1, 12))


@pytest.mark.parametrize("name", ["0003_gap.sql", "first.sql", "0001_again.sql"])
def test_a_misplaced_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_text(SECOND)
    with pytest.raises(HostError) as refused:
        load_migrations(folder)
    assert refused.value.error_code == "store.migrations"


def test_a_word_in_braces_that_means_nothing_is_refused(sqlite_address: str, folder: Path) -> None:
    (folder / "0002_typo.sql").write_text("CREATE TABLE x (y {txet});")
    with pytest.raises(HostError) as refused, open_direct(sqlite_address, migrations=folder):
        pass
    assert refused.value.error_code == "store.migrations"


@pytest.mark.anyio
async def test_opening_that_is_cancelled_lets_go_of_the_store(sqlite_address: str) -> None:
    async def open_it() -> None:
        async with open_database(sqlite_address, role="daemon"):
            pass

    opening = asyncio.ensure_future(open_it())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    # It closes as soon as it is open, so a command that waits gets in.
    await asyncio.to_thread(lambda: open_direct(sqlite_address).__enter__().close())


def test_the_shipped_migrations_are_in_order() -> None:
    assert [step.number for step in load_migrations(MIGRATIONS_DIR)] == list(
        range(1, len(load_migrations(MIGRATIONS_DIR)) + 1)
    )
