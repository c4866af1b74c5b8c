"""Several connections of one process to the embedded store, and other processes that come and go beside them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from paddock.store.database import open_database, open_direct

LOOK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
sys.stdout.write(",".join(row[0] for row in connection.execute("SELECT key FROM kept ORDER BY key")))
connection.close()
"""
KEPT = "CREATE TABLE kept (key {text} PRIMARY KEY) {strict};"


def seen_by_another(path: Path) -> str:
    """What a process that opens the file by itself finds there; whoever is last to close it removes its log."""
    return subprocess.run([sys.executable, "-c", LOOK, path], check=True, capture_output=True, text=True).stdout


async def test_another_process_that_looks_leaves_the_log_to_whoever_writes_it(tmp_path: Path) -> None:
    path, migrations = tmp_path / "data" / "paddock.db", tmp_path / "migrations"
    migrations.mkdir()
    (migrations / "0001_kept.sql").write_text(KEPT)
    async with open_database(path, migrations=migrations) as database:

        async def keep(key: str) -> None:
            await database.write(lambda tx: tx.execute("INSERT INTO kept VALUES (?)", (key,)))

        await keep("a")
        with open_direct(path, migrations=migrations) as beside:  # as a daemon's plugin store does
            assert beside.read(lambda tx: tx.one("SELECT key FROM kept")) == {"key": "a"}
        assert seen_by_another(path) == "a"
        await keep("b")
        assert seen_by_another(path) == "a,b"
        assert path.with_name("paddock.db-wal").exists()
