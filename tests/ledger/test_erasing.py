"""A person's data goes for good, and the chain stays what it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ledger.chains import Chain, called

from paddock.core.errors import NotFound
from paddock.core.events_host import PluginStdoutNoise
from paddock.ledger.erase import joined
from paddock.ledger.feed import Wanted, page, recent
from paddock.store.database import open_direct

pytestmark = pytest.mark.req("B-06")


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
        entries = database.read(recent)
        assert not database.read(lambda tx: page(tx, wanted=Wanted(principal="alice%_\\")))
        assert len(database.read(lambda tx: page(tx, wanted=Wanted(principal="alice%_x")))) == 5
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


async def test_nothing_of_them_is_left_in_the_file(sqlite_address: str, tmp_path: Path) -> None:
    chain = Chain(sqlite_address, tmp_path / "state")
    chain.add(*(called(number, f"{who}-of-the-hill") for number in range(200) for who in ("carol", "dave")))
    chain.erase("carol-of-the-hill")
    left = b"".join(file.read_bytes() for file in Path(sqlite_address.removeprefix("sqlite://")).parent.iterdir())
    assert b"dave-of-the-hill" in left
    assert b"carol-of-the-hill" not in left


def test_numbers_become_ranges() -> None:
    assert joined([]) == []
    assert joined([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 7), (9, 10)]
