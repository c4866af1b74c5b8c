"""A person's data goes for good, and the chain stays what it was."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.ledger.chains import Chain, called

from fixtures.ledger_entries import list_recent
from paddock.core.errors import NotFound
from paddock.core.events.approvals import ApprovalConsumed, ApprovalEnded
from paddock.core.events.plugin_runtime import PluginStdoutNoise
from paddock.ledger.erase import to_ranges
from paddock.ledger.read.entries import EntryFilter, list_entries
from paddock.store import sqlite
from paddock.store.database import open_database, open_direct


@pytest.mark.req("B-06", "erasure")
async def test_what_was_said_of_a_person_is_gone_and_the_chain_still_verifies(
    database_address: str, tmp_path: Path
) -> None:
    chain = Chain(database_address, tmp_path / "state")
    chain.add(*(called(number, "alice%_\\" if number % 2 else "alice%_x") for number in range(10)))
    chain.add(PluginStdoutNoise("notes", 'about "alice%_\\" and others'))
    await chain.checkpoint()
    before = chain.verify()
    assert chain.erase("alice%_\\") == 5
    with pytest.raises(NotFound):
        chain.erase("alice%_\\")
    with open_direct(database_address) as database:
        entries = database.read(list_recent)
        assert not database.read(lambda tx: list_entries(tx, entry_filter=EntryFilter(principal="alice%_\\")))
        assert len(database.read(lambda tx: list_entries(tx, entry_filter=EntryFilter(principal="alice%_x")))) == 5
    assert entries[0].type == "ledger.erased"
    assert entries[0].data["entries"] == 5
    assert entries[0].data["rows"] == [[2, 2], [4, 4], [6, 6], [8, 8], [10, 10]]
    assert entries[0].personal == {"principal": "local:root", "explanation": "asked"}
    assert [entry.seq for entry in entries if entry.erased] == [10, 8, 6, 4, 2]
    assert {entry.data["operator_id"] for entry in entries if entry.erased} == {None}
    after = chain.verify()
    assert (before.verdict, after.verdict) == ("sound", "sound")
    assert (after.rows, after.erased) == (12, 5)
    await chain.checkpoint()
    assert chain.example() == 0


@pytest.mark.req("B-06", "erasure")
async def test_nothing_of_them_is_left_in_the_file(sqlite_address: str, tmp_path: Path) -> None:
    chain = Chain(sqlite_address, tmp_path / "state")
    chain.add(*(called(number, f"{who}-of-the-hill") for number in range(200) for who in ("carol", "dave")))
    chain.erase("carol-of-the-hill")
    left = b"".join(file.read_bytes() for file in Path(sqlite_address.removeprefix("sqlite://")).parent.iterdir())
    assert b"dave-of-the-hill" in left
    assert b"carol-of-the-hill" not in left


def test_numbers_become_ranges() -> None:
    assert to_ranges([]) == []
    assert to_ranges([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 7), (9, 10)]


async def test_nothing_of_them_is_left_in_the_log_while_a_daemon_has_the_database_open(
    sqlite_address: str, tmp_path: Path
) -> None:
    chain = Chain(sqlite_address, tmp_path / "state")
    async with open_database(sqlite_address, role="daemon") as daemon:
        chain.add(*(called(number, "carol-of-the-hill") for number in range(200)))
        assert await daemon.read(list_recent)
        chain.erase("carol-of-the-hill")
        with open_direct(sqlite_address) as command:
            assert command.truncate_log() is None
        assert b"carol-of-the-hill" not in _all_bytes(chain.file)


def test_where_somebody_reads_meanwhile_the_log_that_still_holds_it_is_named(
    sqlite_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_MS", 50)
    chain = Chain(sqlite_address, tmp_path / "state")
    chain.add(called(1, "carol-of-the-hill"))
    with closing(sqlite.connect(chain.file)) as reader, open_direct(sqlite_address) as command:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM ledger").fetchone()
        chain.erase("carol-of-the-hill")
        assert command.truncate_log() == chain.file.with_name(f"{chain.file.name}-wal")
        reader.execute("COMMIT")
        assert command.truncate_log() is None
        assert b"carol-of-the-hill" not in _all_bytes(chain.file)


def test_who_is_named_in_the_words_of_the_host_is_erased_and_nobody_whose_name_begins_alike(
    database_address: str, tmp_path: Path
) -> None:
    chain = Chain(database_address, tmp_path / "state")
    for who in ("user:ann", "user:ann.lee", "user:anne"):
        chain.add(ApprovalEnded("apr_1", "mail", "send", "voided", f"{who} changed the parameters; see apr_2"))
    assert chain.erase("user:ann") == 1
    assert chain.erase("user:ann.lee") == 1


def test_whoever_made_a_call_in_anothers_name_is_erased_from_it(database_address: str, tmp_path: Path) -> None:
    chain = Chain(database_address, tmp_path / "state")
    chain.add(called(1, "root"), called(2, "rooted"))
    assert chain.erase("local:root") == 1


@pytest.mark.req("B-06", "erasure")
def test_a_person_is_erased_from_what_was_done_with_their_tokens(database_address: str, tmp_path: Path) -> None:
    chain = Chain(database_address, tmp_path / "state")
    chain.add(called(1, "token:ann"), called(2, "token:anna"))
    assert chain.erase("user:ann") == 1
    assert chain.verify().verdict == "sound"


def test_each_of_those_who_said_yes_together_is_erased_from_the_list_of_them(
    database_address: str, tmp_path: Path
) -> None:
    chain = Chain(database_address, tmp_path / "state")
    for others in (("user:ann", "user:bob"), ("user:ann", "user:bobby")):
        chain.add(ApprovalConsumed("apr_1", "mail", "send", "sha256:0", others))
    assert chain.erase("user:bob") == 1
    with open_direct(database_address) as database:
        left = [entry.data["approved_by"] for entry in database.read(list_recent) if entry.type == "approval.consumed"]
    assert left == [["user:ann", "user:bobby"], None]


def _all_bytes(file: Path) -> bytes:
    return b"".join(one.read_bytes() for one in file.parent.iterdir() if one.is_file())
