"""What `paddock doctor` says of the ledger: whether its newest entries are the ones that were recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock
from paddock.store.database import open_direct


@pytest.fixture
def paddock(tmp_path: Path) -> Paddock:
    return Paddock(tmp_path / "home")


def looked(paddock: Paddock, code: int = 0) -> dict[str, Any]:
    (found,) = [one for one in paddock.quickly("doctor", "--json", code=code).json["checks"] if one["name"] == "ledger"]
    return found


def test_newest_entries_that_were_taken_out_are_a_failure_that_leads_to_the_whole_verification(
    paddock: Paddock,
) -> None:
    assert looked(paddock)["found"] == "nothing was recorded yet"
    paddock.quickly("user", "add", "ann")
    assert looked(paddock)["status"] == "ok"

    with open_direct(paddock.home / "data" / "paddock.db") as database:
        database.write(lambda tx: tx.execute("DELETE FROM ledger WHERE seq = (SELECT max(seq) FROM ledger)"))

    found = looked(paddock, code=1)
    assert (found["status"], found["code"], found["fix"]) == (
        "fail",
        "ledger.broken",
        "calls are rejected until the ledger is intact again; paddock ledger verify",
    )
