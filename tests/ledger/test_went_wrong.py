"""What went wrong is found first: by the same table in a query and in Python, and without a look at all the rest."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, cast

from tests.ledger.chains import RANDOM, drafts

from paddock.core.events.approvals import ApprovalAnswered, ApprovalEnded
from paddock.core.events.calls import CallEnded
from paddock.core.events.event import Event, field_names
from paddock.core.events.index import EVENT_TYPES
from paddock.core.events.plugin_runtime import PluginCrashed, PluginSpawned
from paddock.ledger.read.entries import EntryFilter, find_entries, list_entries
from paddock.ledger.read.failures import CONDITIONAL_FAILURES, FAILURE_TYPES, failure_queries, is_failure
from paddock.ledger.write.append import append_entries
from paddock.store.database import Transaction, open_direct


def ended(status: str, plugin: str = "notes") -> Event:
    facts: dict[str, Any] = dict.fromkeys(field_names(CallEnded))
    facts |= {"name": plugin, "method": "say", "status": status, "success": status == "succeeded", "effects": ()}
    return CallEnded(**facts)


EVENTS: list[Event] = [
    ended("succeeded"),
    ended("failed"),
    ended("pending_approval"),
    ended("denied", "other"),
    ended("cancelled"),
    PluginSpawned("notes", "1.0.0", 7, "cage"),
    PluginCrashed("notes", 3, None, ()),
    ApprovalAnswered("apr_1", "notes", "say", True, "user:ann", "", "approved"),
    ApprovalAnswered("apr_2", "notes", "say", False, "user:ann", "", "denied"),
    ApprovalEnded("apr_3", "notes", "say", "withdrawn", "x"),
    ApprovalEnded("apr_4", "notes", "say", "expired", "x"),
]
WRONG = [11, 9, 7, 4, 2]


def test_what_went_wrong_is_found_across_all_types_newest_first(database_address: str) -> None:
    with open_direct(database_address) as database:
        database.write(lambda tx: append_entries(tx, drafts(EVENTS), RANDOM))

        def found(wanted: EntryFilter, **more: Any) -> list[int]:
            return [entry.seq for entry in database.read(lambda tx: list_entries(tx, entry_filter=wanted, **more))]

        assert found(EntryFilter(wrong=True)) == WRONG
        assert found(EntryFilter(wrong=True), limit=2) == [11, 9]
        assert found(EntryFilter(wrong=True), limit=2, before=9) == [7, 4]
        assert found(EntryFilter(wrong=True, plugin="other")) == [4]
        assert found(EntryFilter(wrong=True, types=("call.*", "plugin.crashed"))) == [7, 4, 2]
        assert found(EntryFilter(types=("plugin.crashed", "plugin.spawned"), plugin="notes")) == [7, 6]
        marked = [entry for entry in database.read(list_entries) if is_failure(entry.type, entry.facts)]
        assert [entry.seq for entry in marked] == WRONG  # what is marked is what is found


def test_failed_calls_are_found_by_an_index_of_their_own_however_they_are_narrowed(tmp_path: Path) -> None:
    with open_direct(tmp_path / "db") as database:
        database.write(lambda tx: append_entries(tx, drafts(EVENTS), RANDOM))
    more = dict(failure_queries())["call.ended"]
    with sqlite3.connect(tmp_path / "db") as raw:
        for narrowed in ("", " AND plugin || '' = 'notes'", " AND seq < 9", " AND at < '2999'"):
            query = f"SELECT * FROM ledger WHERE tenant = 'default' AND type = 'call.ended' AND {more}{narrowed}"
            plan = raw.execute(f"EXPLAIN QUERY PLAN {query} ORDER BY seq DESC LIMIT 50").fetchall()
            assert "ledger_of_failed_calls" in plan[0][3], narrowed
            assert len(plan) == 1, "nothing is sorted"


def test_every_type_that_went_wrong_is_one_that_there_is() -> None:
    assert (FAILURE_TYPES | set(CONDITIONAL_FAILURES)) <= set(EVENT_TYPES)


def test_the_entries_of_a_call_are_found_by_their_index_and_not_by_a_walk_through_the_chain(tmp_path: Path) -> None:
    asked: list[tuple[str, tuple[Any, ...]]] = []

    class Listens:
        def all(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
            asked.append((sql, values))
            return []

    with open_direct(tmp_path / "db") as database:
        database.write(lambda tx: append_entries(tx, drafts(EVENTS), RANDOM))
    find_entries(cast("Transaction", Listens()), "call_1")
    with sqlite3.connect(tmp_path / "db") as raw:
        plans = [row[3] for sql, values in asked for row in raw.execute(f"EXPLAIN QUERY PLAN {sql}", values)]

    assert any("ledger_by_call" in plan for plan in plans)
    assert not any("tenant=? AND seq>?" in plan for plan in plans)
