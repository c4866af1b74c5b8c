"""Work that waits in a database of before the engine is there afterwards, as it was."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

import pytest

from paddock.queue import leases, queue
from paddock.queue.claimants import Claimant
from paddock.queue.engine_jobs import queue_name
from paddock.store.database import Transaction, open_direct
from paddock.store.migrate import MIGRATIONS_DIR

BEFORE = 34
PUT = "INSERT INTO queue VALUES ('acme', ?, ?, ?, '2026-01-01T00:00:00+00:00', ?, ?, ?, ?, ?)"
JOBS = [
    ("post", "due", '{"to":"ann"}', "2026-01-01T00:00:05+00:00", 2, "pen.empty", None, None),
    ("post", "held", "{}", "2026-01-01T00:00:06+00:00", 1, None, "node_a", 7),
    (
        "late",
        "later",
        '{"large":18446744073709551615,"nul":"\\u0000"}',
        "2999-01-01T00:00:00+00:00",
        0,
        None,
        None,
        None,
    ),
]


@pytest.fixture(params=["sqlite_address", "empty_postgres_address"])
def address(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(request.param)


def test_what_waits_and_what_was_held_is_moved_with_its_tries_and_new_runs_have_higher_epochs(
    address: str, tmp_path: Path
) -> None:
    before = tmp_path / "before"
    before.mkdir()
    for file in MIGRATIONS_DIR.glob("*.sql"):
        if int(file.name[:4]) <= BEFORE:
            shutil.copy(file, before)
    with open_direct(address, migrations=before) as database:

        def fill(tx: Transaction) -> None:
            tx.execute("INSERT INTO nodes (node, epoch) VALUES ('node_a', 7)")
            tx.execute("INSERT INTO node_leases (node, epoch, lasting, beat) VALUES ('node_a', 7, 1, 3)")
            for job in JOBS:
                tx.execute(PUT, job)

        database.write(fill)

    with open_direct(address) as database:
        rows = database.read(lambda tx: tx.all("SELECT * FROM queue ORDER BY due_at"))
        assert [(row["tenant"], row["kind"], row["key"], row["payload"], row["due_at"]) for row in rows] == [
            ("acme", *job[:4]) for job in JOBS
        ]
        assert [(row["tries"], row["reason"]) for row in rows] == [job[4:6] for job in JOBS]

        def go_on(tx: Transaction) -> list[queue.Job | None]:
            old = leases.NodeRun("node_a", 7)
            here = leases.open_lease(tx, "node_a", daemon=True)
            assert here.epoch > old.epoch
            assert leases.former_daemons(tx, here) == [old]
            assert leases.end_lease(tx, old)
            queue.release_held_by(tx, old)
            now = datetime.fromisoformat("2026-01-02T00:00:00+00:00")
            return [queue.claim_one(tx, here, "acme", kind, key, now=now) for kind, key, *_ in JOBS]

        due, held, later = database.write(go_on)
        assert due is not None and held is not None
        assert (due.payload, due.tries, held.tries, later) == ({"to": "ann"}, 3, 2, None)
        if address.startswith("postgresql:"):
            queues = database.read(lambda tx: tx.all("SELECT task_name, queue_name FROM procrastinate_jobs"))
            assert {row["queue_name"] for row in queues} == {
                queue_name(Claimant("acme", row["task_name"])) for row in queues
            }
