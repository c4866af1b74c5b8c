"""Processes die at the worst moment; what was acknowledged is there, and nothing is half done."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys

import pytest

from paddock.core.errors import StoreUnavailable
from paddock.store.database import Transaction, open_database, open_direct

STREAM = """
import asyncio, sys
from paddock.store.database import open_database

async def writer(database, name):
    for number in range(1_000_000):
        row = (f"{name}-{number}", "notes", "search")
        await database.write(
            lambda tx: tx.execute("INSERT INTO aliases (alias, plugin, callable) VALUES (?, ?, ?)", row)
        )
        print(row[0], flush=True)

async def main():
    async with open_database(sys.argv[1]) as database:
        await asyncio.gather(*(writer(database, name) for name in "abcdefgh"))

asyncio.run(main())
"""


def test_every_acknowledged_row_survives_kill_9_in_a_stream_of_writes(database_address: str) -> None:
    command = [sys.executable, "-c", STREAM, database_address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().strip() for _ in range(500)]
        process.kill()
        # What was said before the kill counts as well; the last line may have been cut off.
        acknowledged += [line.strip() for line in process.stdout if line.endswith("\n")]

    with open_direct(database_address, wait=0) as database:
        kept = {row["alias"] for row in database.read(lambda tx: tx.all("SELECT alias FROM aliases"))}
        assert set(acknowledged) <= kept
        # Nothing out of order: each writer's rows are the first so many of its own.
        for name in "abcdefgh":
            numbers = sorted(int(alias[2:]) for alias in kept if alias.startswith(name))
            assert numbers == list(range(len(numbers)))
        database.write(lambda tx: tx.execute("DELETE FROM aliases"))


def test_a_full_disk_is_reported_as_such_and_the_store_works_afterwards(sqlite_address: str) -> None:
    program = """
import asyncio, resource, sys
from paddock.store.database import open_database
from paddock.core.errors import StoreUnavailable

def put(tx, digest, size):
    tx.execute("INSERT INTO blobs (digest, size, data) VALUES (?, ?, ?)", (digest, size, bytes(size)))

async def main():
    async with open_database(sys.argv[1]) as database:
        await database.write(lambda tx: put(tx, "before", 10))
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
        for _ in range(3):
            try:
                await database.write(lambda tx: put(tx, "huge", 8_000_000))
            except StoreUnavailable as error:
                print(error.error_code, bool(error.hint))
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await database.write(lambda tx: put(tx, "after", 8_000_000))
        rows = await database.read(lambda tx: tx.all("SELECT digest FROM blobs ORDER BY size"))
        print([row["digest"] for row in rows])

asyncio.run(main())
"""
    said = subprocess.run([sys.executable, "-c", program, sqlite_address], capture_output=True, text=True, check=False)
    assert said.stdout.splitlines() == ["store.full True"] * 3 + ["['before', 'after']"], said.stderr


@pytest.mark.anyio
async def test_a_group_whose_commit_fails_fails_every_unit_in_it(sqlite_address: str) -> None:
    """The limit is on this whole process, so the files are small and the limit is lifted in the end."""

    def put(tx: Transaction, number: int) -> None:
        tx.execute("INSERT INTO blobs (digest, size, data) VALUES (?, ?, ?)", (f"{number}", 0, bytes(300_000)))

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with open_database(sqlite_address) as database:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
        try:
            units = (database.write(lambda tx, n=n: put(tx, n)) for n in range(12))
            outcomes = await asyncio.gather(*units, return_exceptions=True)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        kept = await database.read(lambda tx: tx.all("SELECT digest FROM blobs"))
        failed = [outcome for outcome in outcomes if outcome is not None]
        assert failed
        assert {type(error) for error in failed} == {StoreUnavailable}
        # Exactly those that were answered without an error are there.
        assert {row["digest"] for row in kept} == {str(n) for n, outcome in enumerate(outcomes) if outcome is None}
        await database.write(lambda tx: put(tx, 99))
