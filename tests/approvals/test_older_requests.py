"""What waits in a database of the version before is found by the indexes of this one, and is no job any more."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.approvals.conftest import ANN, Heard, Office, StoppedClock, person

from paddock.approvals.access import PERSONAL_KINDS
from paddock.approvals.model import OPEN_STATES, Approval, ApprovalRequestKind
from paddock.approvals.request import PendingLimits
from paddock.approvals.service import Approvals
from paddock.core.clock import SystemRandom
from paddock.store.database import Row, Transaction, open_database, open_direct
from paddock.store.migrate import MIGRATIONS_DIR

LAST_BEFORE = 34
PARTIES = "SELECT * FROM approval_parties ORDER BY approval, who, part"
VIEWERS = "SELECT * FROM approval_viewers ORDER BY approval, who"


@pytest.fixture
def postgres_address(empty_postgres_address: str) -> str:
    return empty_postgres_address


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The migrations of the version before."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    for file in MIGRATIONS_DIR.glob("*.sql"):
        if int(file.name[:4]) <= LAST_BEFORE:
            shutil.copy(file, folder)
    return folder


@pytest.fixture
async def present(tmp_path: Path) -> AsyncGenerator[Office, None]:
    """An office of this version."""
    clock, heard = StoppedClock(), Heard()
    async with open_database(tmp_path / "present.db") as database:
        limits = PendingLimits(per_principal=1_000)
        desk = Approvals(database, clock, SystemRandom(), lambda *_: heard, limits=limits)
        yield Office(desk, database, clock, heard)


async def test_requests_of_the_version_before_concern_whom_they_would_concern_now(
    present: Office, database_address: str, before: Path
) -> None:
    made: list[str] = []
    for kind, four_eyes, approvers, (requester, for_person) in product(
        ApprovalRequestKind,
        (False, True),
        (("role:approver",), ("group:night", "user:\u00e4nn'")),
        (("user:bob", "user:bob"), ("key:k1", "user:bob"), ("plugin:mail", "")),
    ):
        present.clock.pass_time(seconds=1)
        asked = await present.asked(
            kind, four_eyes=four_eyes, approvers=approvers, requester=requester, for_person=for_person, quorum=2
        )
        made.append(asked.id)
    for each in made[::4]:
        await present.desk.void("default", each, "it is gone")
    gate = next(each for each in reversed(made) if each not in made[::4])
    await present.desk.approve("default", gate, person("chief", "operator"))  # one of two
    used = await present.asked(kind=ApprovalRequestKind.ACTION)
    await present.desk.approve("default", used.id, ANN)
    requests = [await present.desk.find("default", each) for each in (*made, used.id)]

    rows: dict[str, list[Row]] = await present.database.read(
        lambda tx: {table: tx.all(f"SELECT * FROM {table}") for table in ("approvals", "approval_answers")}
    )
    with open_direct(database_address, migrations=before) as older:
        older.write(lambda tx: _write_older(tx, rows, requests))
    with open_direct(database_address) as database:
        assert database.read(lambda tx: tx.all("SELECT kind FROM queue")) == [{"kind": "effect.forget"}]
        for query in (PARTIES, VIEWERS):
            expected = await present.database.read(lambda tx, query=query: tx.all(query))
            assert database.read(lambda tx, query=query: tx.all(query)) == expected
        assert database.read(lambda tx: tx.all("SELECT * FROM approvals ORDER BY id")) == sorted(
            rows["approvals"], key=lambda row: row["id"]
        )


def _write_older(tx: Transaction, rows: dict[str, list[Row]], requests: list[Approval]) -> None:
    """Write requests as the version before did."""
    for table, kept in rows.items():
        for row in kept:
            _insert(tx, table, row)
    waiting = {"payload": "{}", "put_at": "2026-03-01", "due_at": "2026-03-02", "tries": 0}
    for one in requests:
        if one.state not in OPEN_STATES:
            continue
        parties = {(who, "approver") for who in one.answerable_by if who}
        if one.binding.four_eyes and one.kind not in PERSONAL_KINDS:
            parties |= {(who, "requester") for who in one.requesters if who}
        for who, part in parties:
            _insert(tx, "approval_parties", {"approval": one.id, "who": who, "part": part})
        _insert(tx, "queue", {"tenant": "default", "kind": "approval.expire", "key": one.id, **waiting})
    _insert(tx, "queue", {"tenant": "default", "kind": "effect.forget", "key": "old", **waiting})


def _insert(tx: Transaction, table: str, row: dict[str, Any]) -> None:
    tx.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
