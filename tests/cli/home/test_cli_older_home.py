"""A home that an older release wrote is opened by this one: nothing in it is lost, and what it allowed still holds."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.older_homes import older_home


def tables(home: Path) -> dict[str, int]:
    """How many rows each table has."""
    with sqlite3.connect(home / "data" / "paddock.db") as database:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}


@pytest.mark.req("B-20", "upgrade")
def test_everything_in_an_older_home_is_there_after_the_upgrade_and_the_ledger_goes_on(tmp_path: Path) -> None:
    paddock = Paddock(older_home(tmp_path / "home"))
    before = tables(paddock.home)

    assert {name: one["state"] for name, one in paddock.listed().items()} == dict.fromkeys(
        ("mcp-units", "native-notes", "outbox"), "enabled"
    )
    after = tables(paddock.home)
    gone = {name: rows for name, rows in before.items() if after.get(name, 0) < rows and name != "queue"}
    assert gone == {} and after["migrations"] > before["migrations"]
    assert paddock.quickly("ledger", "verify", "--json").json["verdict"] == "sound"
    assert [one["name"] for one in paddock.quickly("secret", "list", "--json").json["secrets"]] == ["TOKEN"]
    (standing,) = paddock.quickly("approval", "standing", "list", "--json").json["standing"]
    assert (standing["plugin"], standing["callable"]) == ("outbox", "letters")
    assert [one["name"] for one in paddock.quickly("user", "list", "--json").json["people"]] == ["ann", "bob"]
    paddock.quickly("policy", "check")

    backup = tmp_path / "backup.tar"
    paddock.quickly("backup", backup)
    assert paddock.quickly("restore", backup, "--replace", "--json").json["ledger"][0]["verdict"] == "sound"


@pytest.mark.slow
@pytest.mark.req("B-20", "upgrade")
def test_plugins_of_an_older_home_answer_with_their_data_and_a_standing_approval_still_holds(tmp_path: Path) -> None:
    paddock = Paddock(older_home(tmp_path / "home"))
    assert "written by an older Paddock" in paddock("call", "native-notes.list_notes").out
    assert "0.621371" in paddock("call", "mcp-units.convert", "--params", '{"from":"km","to":"mi","value":1}').out
    if os.geteuid() == 0:  # whose standing approval it is
        assert "letters" in paddock("call", "outbox.letters").out
    assert paddock("call", "outbox.send", "--params", '{"to":"x","subject":"y","text":"z"}', code=4)
    assert paddock("ledger", "verify", "--json").json["verdict"] == "sound"


def test_an_older_database_in_a_backup_is_brought_up_to_date_by_the_restore(tmp_path: Path) -> None:
    paddock = Paddock(older_home(tmp_path / "home"))
    rows = tables(paddock.home)["ledger"]
    paddock.quickly("backup", tmp_path / "backup.tar")
    assert tables(paddock.home)["migrations"] == 25, "a backup changes nothing"

    other = Paddock(tmp_path / "other")
    said = other.quickly("restore", tmp_path / "backup.tar", "--json").json
    assert said["ledger"][0]["rows"] == rows
    assert tables(other.home)["migrations"] > 25
    assert list(other.listed()) == ["mcp-units", "native-notes", "outbox"]
