"""After a daemon that was not stopped but ended, the next one looks whether the embedded file is whole."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

import apsw
import pytest

from paddock.core.errors import HostError
from paddock.store.database import Transaction, open_direct
from paddock.store.migrate import MIGRATIONS_DIR
from paddock.store.sqlite import SqliteDirect
from paddock.store.sqlite_integrity import check_integrity

KILLED = """
import os, signal, sys
from paddock.store.database import open_direct

with open_direct(sys.argv[1], role="daemon"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    def fill(tx: Transaction) -> None:
        for number in range(3_000):
            tx.execute("INSERT INTO aliases (alias, plugin, callable) VALUES (?, 'notes', 'add')", (f"a-{number:05}",))

    path = tmp_path / "store" / "paddock.db"
    with open_direct(path) as database:
        database.write(fill)
    return path


def killed(path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False).returncode == -9


def damage(path: Path) -> None:
    """Write over the inside of a page that nobody reads when a store is opened."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    found = connection.execute("SELECT max(pageno) FROM dbstat WHERE name = 'aliases' AND pagetype = 'leaf'")
    page = int(cast("int", found.get))
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(bytes(4096))


def test_a_daemon_does_not_open_a_damaged_store_however_often_it_is_tried(store: Path) -> None:
    killed(store)
    damage(store)

    for _ in range(2):
        with pytest.raises(HostError) as refused, open_direct(store, role="daemon"):
            pass
        assert refused.value.error_code == "store.corrupt", refused.value.details


def test_a_whole_store_opens_after_a_kill_and_is_not_looked_through_after_a_farewell(store: Path) -> None:
    killed(store)
    with open_direct(store, role="daemon") as database:
        found = database.read(lambda tx: tx.one("SELECT count(*) AS count FROM aliases"))
    assert found == {"count": 3_000}

    damage(store)
    # Stopped in order: what is damaged shows when it is read.
    with open_direct(store, role="daemon") as database, pytest.raises(HostError) as refused:
        database.read(lambda tx: tx.all("SELECT * FROM aliases"))
    assert refused.value.error_code == "store.corrupt"


def test_a_look_that_takes_too_long_is_given_up_and_the_store_can_be_used(store: Path) -> None:
    database = SqliteDirect.open(store, migrations=MIGRATIONS_DIR, role="command", wait=0)
    try:
        assert check_integrity(database.connection, store) is True
        assert check_integrity(database.connection, store, max_seconds=-1) is False
        assert database.read(lambda tx: tx.one("SELECT count(*) AS count FROM aliases")) == {"count": 3_000}
    finally:
        database.close()
