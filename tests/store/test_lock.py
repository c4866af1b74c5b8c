"""One daemon, and any number of commands beside it, have the embedded store; the lock dies with its holder."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.core.errors import StoreUnavailable
from paddock.store.database import Transaction, open_database, open_direct
from paddock.store.lock import StoreLock

HOLD = """
import sys
from paddock.store.database import open_direct
with open_direct(sys.argv[1], role=sys.argv[2]):
    print("open", flush=True)
    sys.stdin.read()
"""


def note(tx: Transaction, alias: str) -> None:
    tx.execute("INSERT INTO aliases (alias, plugin, callable) VALUES (?, 'notes', 'add')", (alias,))


def noted(tx: Transaction) -> list[str]:
    return [row["alias"] for row in tx.all("SELECT alias FROM aliases ORDER BY alias")]


# Longer than any wait of these tests could last: only an answer without waiting comes back in time.
FOR_EVER = 3600.0


@contextmanager
def holding(address: str, role: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the store open for as long as the block runs."""
    command = [sys.executable, "-c", HOLD, address, role]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


def test_a_second_daemon_is_refused_at_once_with_the_pid_that_holds_the_store(sqlite_address: str) -> None:
    with holding(sqlite_address, "daemon") as first:
        with pytest.raises(StoreUnavailable) as refused, open_direct(sqlite_address, role="daemon", wait=FOR_EVER):
            pass
        assert refused.value.error_code == "store.locked"
        assert refused.value.details["pid"] == first.pid
        assert refused.value.details["role"] == "daemon"
        assert str(first.pid) in refused.value.message
        assert "stop it" in refused.value.hint


@pytest.mark.anyio
async def test_a_second_daemon_in_the_same_process_is_refused_too(sqlite_address: str) -> None:
    async with open_database(sqlite_address, role="daemon"):
        with pytest.raises(StoreUnavailable) as refused:
            async with open_database(sqlite_address, role="daemon", wait=FOR_EVER):
                pass
        assert refused.value.details["pid"] == os.getpid()
    async with open_database(sqlite_address, role="daemon"):
        pass


def test_commands_write_beside_a_daemon_and_beside_each_other(sqlite_address: str) -> None:
    with (
        holding(sqlite_address, "daemon"),
        holding(sqlite_address, "command"),
        open_direct(sqlite_address, wait=0) as first,
        open_direct(sqlite_address, wait=0) as second,
    ):
        first.write(lambda tx: note(tx, "one"))
        second.write(lambda tx: note(tx, "two"))
        assert first.read(noted) == ["one", "two"]


@pytest.mark.anyio
async def test_a_daemon_sees_what_a_command_committed(sqlite_address: str) -> None:
    async with open_database(sqlite_address, role="daemon") as daemon:
        with open_direct(sqlite_address, wait=0) as command:
            command.write(lambda tx: note(tx, "one"))
        assert await daemon.read(noted) == ["one"]


def test_a_command_that_would_have_to_migrate_under_a_daemon_names_it(tmp_path: Path) -> None:
    path = tmp_path / "paddock.db"
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, count in ((one, 1), (two, 2)):
        folder.mkdir()
        for number in range(1, count + 1):
            (folder / f"{number:04}_step.sql").write_text(f"CREATE TABLE step_{number} (id {{text}}) {{strict}};")
    with (
        open_direct(path, migrations=one, role="daemon"),
        pytest.raises(StoreUnavailable) as refused,
        open_direct(path, migrations=two, wait=0.1),
    ):
        pass
    assert refused.value.error_code == "store.locked"
    assert refused.value.details["pid"] == os.getpid()
    with open_direct(path, migrations=two, wait=0) as database:
        assert database.read(lambda tx: tx.all("SELECT id FROM step_2")) == []


def test_the_lock_is_free_after_kill_9(sqlite_address: str) -> None:
    with holding(sqlite_address, "daemon") as daemon:
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        with open_direct(sqlite_address, role="daemon", wait=0) as database:
            assert database.read(lambda tx: tx.all("SELECT 1 AS one")) == [{"one": 1}]


def test_a_note_that_makes_no_sense_is_not_repeated(tmp_path: Path) -> None:
    lock = StoreLock.take(tmp_path, "daemon")
    (tmp_path / "paddock.lock").write_text('{"pid": "\\u001b[31m1"}')
    with pytest.raises(StoreUnavailable) as refused:
        StoreLock.take(tmp_path, "daemon", wait=FOR_EVER)
    assert "\x1b" not in refused.value.message + refused.value.hint
    assert refused.value.details["pid"] is None
    lock.release()
    lock.release()
    StoreLock.take(tmp_path, "daemon", wait=0).release()


def test_nobody_else_may_read_the_store(tmp_path: Path) -> None:
    path = tmp_path / "home" / "data" / "paddock.db"
    with open_direct(path) as database:
        database.write(lambda tx: tx.execute("DELETE FROM aliases"))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert set(modes) == {"paddock.db", "paddock.db-wal", "paddock.db-shm", "paddock.lock"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_one_shot_command_starts_without_the_event_loop(sqlite_address: str) -> None:
    program = """
import sys, threading
from paddock.store.database import open_direct
with open_direct(sys.argv[1]) as database:
    database.write(lambda tx: tx.execute("DELETE FROM aliases"))
print(sorted({"asyncio", "anyio", "psycopg", "concurrent.futures"} & set(sys.modules)), threading.active_count())
"""
    said = subprocess.run([sys.executable, "-c", program, sqlite_address], capture_output=True, text=True, check=True)
    assert said.stdout == "[] 1\n"


def test_a_lock_that_is_no_file_of_ours_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "paddock.lock").mkdir()
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        StoreLock.take(tmp_path, "command")
