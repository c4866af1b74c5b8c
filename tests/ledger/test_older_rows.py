"""A ledger of an older release is moved into the smaller tables as it is, whatever happens meanwhile."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from tests.ledger.chains import CLOCK, RANDOM, Chain, called

from fixtures.commands import SOURCE
from fixtures.ledger_rows import all_rows
from fixtures.older_homes import older_home
from fixtures.small_disks import small_disk
from paddock.core.errors import StoreUnavailable
from paddock.core.events.event import Event
from paddock.core.events.plugin_runtime import PluginCrashed
from paddock.core.events.system import LedgerErased
from paddock.ledger.entry import EntryDraft, prepare_entry
from paddock.ledger.entry_hash import GENESIS_HASH, SealedEntry, entry_hash
from paddock.ledger.read.entries import EntryFilter, list_entries
from paddock.ledger.read.failures import is_failure
from paddock.store.database import Transaction, open_direct
from paddock.store.migrate import MIGRATIONS_DIR

LAST_BEFORE = 32
OLD_COLUMNS = SealedEntry._fields[:14]
INSERT = f"INSERT INTO ledger ({', '.join(OLD_COLUMNS)}) VALUES ({', '.join('?' * len(OLD_COLUMNS))})"
OPEN = "import sys; from paddock.store.database import open_direct\nwith open_direct(sys.argv[1]): print('open')"


@pytest.fixture
def postgres_address(empty_postgres_address: str) -> str:
    return empty_postgres_address


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The migrations up to the last one with the older tables."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    for file in MIGRATIONS_DIR.glob("*.sql"):
        if int(file.name[:4]) <= LAST_BEFORE:
            shutil.copy(file, folder)
    return folder


def chained(tenant: str, events: Sequence[Event]) -> list[SealedEntry]:
    rows: list[SealedEntry] = []
    prev = GENESIS_HASH
    for seq, event in enumerate(events, 1):
        draft = EntryDraft(event, tenant, CLOCK.now(), f"call_{seq}", principal=None if seq % 3 else "user:ann")
        one = prepare_entry(f"evt_{tenant}_{seq}", draft, RANDOM)
        prev = entry_hash(prev, tenant, seq, one, one.facts)
        personal = one.personal.decode() if one.personal else None
        rows.append(SealedEntry(tenant, seq, *one[:7], one.facts.decode(), personal, one.salt, one.commitment, prev))
    return rows


def events(count: int) -> list[Event]:
    kinds: list[Event] = [
        called(1),
        called(2, None),
        PluginCrashed("notes", 1, None, ("no", "☃ 𝄞", "no \u2028 line")),
        PluginCrashed("an odd \x01 name \x02", -1, None, ()),
    ]
    return [kinds[number % len(kinds)] for number in range(count)]


def write_older(address: str, migrations: Path, chains: Sequence[list[SealedEntry]], *changes: str) -> None:
    """Write a ledger as the release before did."""

    def unit(tx: Transaction) -> None:
        for rows in chains:
            for row in rows:
                tx.execute(INSERT, row[:14])
            tx.execute(
                "INSERT INTO ledger_heads (tenant, seq, hash) VALUES (?, ?, ?)",
                (rows[0].tenant, len(rows), rows[-1].hash),
            )
        for change in changes:
            tx.execute(change)

    with open_direct(address, migrations=migrations) as database:
        database.write(unit)


def as_hashed(rows: Sequence[SealedEntry]) -> list[tuple[object, ...]]:
    return [row[:14] for row in rows]


def test_every_row_is_moved_as_it_was_verifies_and_is_found_by_every_filter(
    database_address: str, tmp_path: Path, before: Path
) -> None:
    erased = LedgerErased(entries=1, rows=((3, 3),), principal="local:root", explanation="asked")
    ours, other = chained("default", [*events(4_500), erased]), chained("acme", events(30))
    gone = "UPDATE ledger SET personal = NULL, salt = NULL, principal = NULL WHERE tenant = 'default' AND seq = 3"
    write_older(database_address, before, [ours, other], gone)
    ours[2] = ours[2]._replace(personal=None, salt=None, principal=None)

    chain = Chain(database_address, tmp_path / "state")
    assert (chain.verify().verdict, chain.verify().rows, chain.verify().erased) == ("sound", 4_501, 1)
    assert chain.verify("acme").verdict == "sound"
    with open_direct(database_address) as database:
        assert as_hashed(database.read(all_rows)) == as_hashed(ours)
        assert as_hashed(database.read(lambda tx: all_rows(tx, "acme"))) == as_hashed(other)
        wanted = {
            EntryFilter(type="plugin.crashed"): [row.seq for row in ours if row.type == "plugin.crashed"],
            EntryFilter(wrong=True): [row.seq for row in ours if is_failure(row.type, orjson.loads(row.facts))],
            EntryFilter(principal="user:ann"): [row.seq for row in ours if row.principal == "user:ann"],
            EntryFilter(plugin="notes"): [row.seq for row in ours if row.plugin == "notes"],
            EntryFilter(call="call_77"): [77],
            EntryFilter(until=ours[2_222].at): [row.seq for row in ours if row.at < ours[2_222].at],
        }
        for entry_filter, seqs in wanted.items():
            page = database.read(lambda tx, one=entry_filter: list_entries(tx, entry_filter=one))
            assert [entry.seq for entry in page] == seqs[::-1][:50], entry_filter
        left = database.read(lambda tx: tx.all("SELECT count(*) AS n FROM ledger_templates"))
        assert left[0]["n"] < 10, "what rows share is stored once"
    chain.add(*(called(number) for number in range(10)))
    assert (chain.verify().verdict, chain.verify().rows) == ("sound", 4_511)


def test_what_was_tampered_with_before_is_found_after_in_the_same_row(
    database_address: str, tmp_path: Path, before: Path
) -> None:
    changes = {
        "beta": ("UPDATE ledger SET facts = replace(facts, 'notes', 'other') WHERE tenant = 'beta' AND seq = 6", 6),
        "corp": ("UPDATE ledger SET type = 'plugin.spawned' WHERE tenant = 'corp' AND seq = 5", 5),
        "data": ("UPDATE ledger SET facts = 'nonsense' WHERE tenant = 'data' AND seq = 4", 4),
        "each": ("DELETE FROM ledger WHERE tenant = 'each' AND seq = 6", 6),
        "fire": ("UPDATE ledger SET seq = 9000000000 WHERE tenant = 'fire' AND seq = 10", 10),
        "gift": (
            "UPDATE ledger SET personal = NULL, salt = NULL, principal = NULL WHERE tenant = 'gift' AND seq = 9",
            9,
        ),
    }
    write_older(
        database_address, before, [chained(name, events(10)) for name in changes], *(sql for sql, _ in changes.values())
    )
    chain = Chain(database_address, tmp_path / "state")
    found = {name: (chain.verify(name).verdict, chain.verify(name).seq) for name in changes}
    assert found == {name: ("tampered", seq) for name, (_, seq) in changes.items()}


def test_rows_that_hold_no_text_and_rows_before_the_first_are_moved_for_verification_to_name(
    sqlite_address: str, tmp_path: Path, before: Path
) -> None:
    write_older(sqlite_address, before, [chained("default", events(50)), chained("acme", events(3))])
    chain = Chain(sqlite_address, tmp_path / "state")
    with sqlite3.connect(chain.file) as raw:
        raw.execute("DROP TRIGGER ledger_updates_from_row_1")
        raw.execute("UPDATE ledger SET facts = CAST(x'7b22ff227d' AS TEXT) WHERE tenant = 'default' AND seq = 7")
        raw.execute("UPDATE ledger SET type = CAST(x'ff' AS TEXT) WHERE tenant = 'default' AND seq = 20")
        raw.execute("UPDATE ledger SET seq = 0 WHERE tenant = 'acme' AND seq = 2")
    raw.close()
    assert (chain.verify().verdict, chain.verify().seq) == ("tampered", 7)
    assert (chain.verify("acme").verdict, chain.verify("acme").seq) == ("tampered", 0)
    with sqlite3.connect(chain.file) as raw:
        assert raw.execute("SELECT count(*) FROM ledger").fetchone() == (53,)
        assert raw.execute("SELECT CAST(facts AS BLOB) FROM ledger WHERE chain = 2 AND seq = 7").fetchone() == (
            b'{"\xff"}',
        )
    raw.close()


def test_a_process_that_is_killed_again_and_again_while_rows_are_moved_loses_none(
    sqlite_address: str, tmp_path: Path, before: Path
) -> None:
    rows = chained("default", events(24_000))
    write_older(sqlite_address, before, [rows])
    chain, chance, killed = Chain(sqlite_address, tmp_path / "state"), random.Random(7), 0
    for _ in range(40):
        with subprocess.Popen(
            [sys.executable, "-c", OPEN, sqlite_address],
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
            stdout=subprocess.PIPE,
        ) as process:
            seen = _moved(chain.file)
            deadline = time.monotonic() + 60
            while process.poll() is None and _moved(chain.file) == seen and time.monotonic() < deadline:
                time.sleep(chance.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        if _moved(chain.file) == len(rows):
            break
    assert killed > 3
    assert (chain.verify().verdict, chain.verify().rows) == ("sound", len(rows))
    with open_direct(sqlite_address) as database:
        assert as_hashed(database.read(all_rows)) == as_hashed(rows)


def _moved(file: Path) -> int:
    """How many rows are in the new table; seen from outside."""
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as raw:
        try:
            (count,) = raw.execute(
                "SELECT count(*) FROM ledger_times JOIN ledger USING (chain) WHERE block = 0"
            ).fetchone()
        except sqlite3.OperationalError:
            count = 0
    raw.close()
    return count


def test_moving_takes_little_room_beside_the_file_and_a_full_disk_stops_it_where_it_is(
    tmp_path: Path, before: Path
) -> None:
    rows = chained("default", events(12_000))
    with small_disk(tmp_path / "disk", "24m") as disk:
        file = disk / "paddock.db"
        write_older(str(file), before, [rows])
        size = file.stat().st_size
        room = disk / "room"
        room.write_bytes(b"x" * (shutil.disk_usage(disk).free - 1_500_000))
        with pytest.raises(StoreUnavailable) as full, open_direct(file):
            pass
        assert full.value.error_code == "store.full"
        room.unlink()
        room.write_bytes(b"x" * (shutil.disk_usage(disk).free - int(size * 0.9)))
        with open_direct(file) as database:
            assert as_hashed(database.read(all_rows)) == as_hashed(rows)
        assert file.stat().st_size < size * 1.3


def test_a_store_without_the_room_is_refused_with_what_it_needs_and_nothing_is_changed(
    tmp_path: Path, before: Path
) -> None:
    rows = chained("default", events(10))
    with small_disk(tmp_path / "disk", "150m") as disk:
        file = disk / "paddock.db"
        write_older(str(file), before, [rows])
        with sqlite3.connect(file) as raw:  # another large table is enough
            raw.execute("CREATE TABLE large (content BLOB)")
            raw.executemany("INSERT INTO large VALUES (zeroblob(1000000))", [()] * 70)
        raw.close()
        with pytest.raises(StoreUnavailable, match=r"needs \d+ MiB .* \d+ MiB are free") as refused, open_direct(file):
            pass
        assert (refused.value.error_code, bool(refused.value.hint)) == ("store.full", True)
        with open_direct(file, migrations=before) as database:
            assert database.read(lambda tx: tx.all("SELECT count(*) AS n FROM ledger")) == [{"n": 10}]


def test_the_ledger_of_a_real_older_home_is_sound_before_and_after_with_its_own_checkpoints(tmp_path: Path) -> None:
    home = older_home(tmp_path / "home")
    file = home / "data" / "paddock.db"
    with sqlite3.connect(file) as raw:
        columns = ", ".join(OLD_COLUMNS)
        rows = [SealedEntry(*row) for row in raw.execute(f"SELECT {columns} FROM ledger ORDER BY seq")]
    raw.close()
    prev = GENESIS_HASH
    for row in rows:
        assert row.hash == entry_hash(prev, row.tenant, row.seq, row, row.facts.encode()), "it was sound before"
        prev = row.hash

    chain = Chain(f"sqlite://{file}", home / "state")
    finding = chain.verify()
    assert (finding.verdict, finding.rows) == ("sound", len(rows))
    assert finding.signed_to > 0
    assert chain.example() == chain.example_on_file() == 0
    with open_direct(file) as database:
        assert as_hashed(database.read(all_rows)) == as_hashed(rows)
