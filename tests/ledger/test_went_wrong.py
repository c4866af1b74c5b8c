"""What went wrong is found first: by the same table in a query and in Python, and without a look at all the rest."""

from __future__ import annotations

import random
import sqlite3
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
from tests.ledger.chains import RANDOM, called, drafts

from paddock.core.clock import format_utc
from paddock.core.events.approvals import ApprovalAnswered, ApprovalEnded
from paddock.core.events.calls import CallEnded
from paddock.core.events.event import Event
from paddock.core.events.index import EVENT_TYPES
from paddock.core.events.plugin_runtime import PluginCrashed, PluginSpawned
from paddock.ledger.read import search
from paddock.ledger.read.entries import EntryFilter, list_entries
from paddock.ledger.read.failures import CONDITIONAL_FAILURES, FAILURE_TYPES, is_failure
from paddock.ledger.write.append import append_entries
from paddock.store.database import Transaction, open_direct

FIRST = datetime(2030, 1, 1, tzinfo=UTC)


def ended(status: str, plugin: str = "notes") -> Event:
    facts: dict[str, Any] = dict.fromkeys(CallEnded.__struct_fields__)
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


def test_every_type_that_went_wrong_is_one_that_there_is() -> None:
    assert (FAILURE_TYPES | set(CONDITIONAL_FAILURES)) <= set(EVENT_TYPES)


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (EntryFilter(call="call_1"), "ledger_by_call"),
        (EntryFilter(request="req_1"), "ledger_by_request"),
        (EntryFilter(plugin="notes"), "ledger_by_plugin"),
        (EntryFilter(principal="bob"), "ledger_by_principal"),
        (EntryFilter(type="call.ended"), "ledger_by_kind"),
        (EntryFilter(wrong=True), "ledger_by_kind"),
        (EntryFilter(outcome="failed"), "ledger_by_kind"),
        (EntryFilter(plugin="notes", wrong=True), "ledger_by_"),
        (EntryFilter(plugin="notes", principal="bob", type="call.*", until="2999"), "ledger_by_"),
        (EntryFilter(), "sqlite_autoindex_ledger_2"),
        (EntryFilter(since="2020", until="2999"), "sqlite_autoindex_ledger_2"),
    ],
)
def test_every_filter_finds_rows_by_an_index_in_their_order_and_walks_through_nothing(
    tmp_path: Path, wanted: EntryFilter, index: str
) -> None:
    asked: list[tuple[str, tuple[Any, ...]]] = []

    class Listens:
        def __init__(self, tx: Transaction) -> None:
            self.one = tx.one
            self.tx = tx

        def all(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
            asked.append((sql, tuple(values)))
            return self.tx.all(sql, values)

        def tuples(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
            asked.append((sql, tuple(values)))
            return self.tx.tuples(sql, values)

    with open_direct(tmp_path / "db") as database:
        database.write(lambda tx: append_entries(tx, drafts(EVENTS), RANDOM))
        database.read(lambda tx: list_entries(cast("Transaction", Listens(tx)), entry_filter=wanted))
    asked = [(sql, values) for sql, values in asked if " FROM ledger " in sql and "seq IN (?" not in sql]
    assert asked
    with sqlite3.connect(tmp_path / "db") as raw:
        for sql, values in asked:
            plan = [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
            assert any(index in step for step in plan), (sql, plan)
            assert not any(step.startswith("SCAN") for step in plan), (sql, plan)
            assert wanted.call or wanted.request or not any("TEMP B-TREE" in step for step in plan), (sql, plan)


def test_a_time_search_finds_every_row_whatever_the_clock_did(database_address: str) -> None:
    hours = [*range(1_500), *range(300, 900), *range(2_000, 2_700)]  # set back once, and ahead later
    drafted = [
        (name, draft._replace(at=FIRST + timedelta(hours=hour)))
        for (name, draft), hour in zip(drafts([called(1)] * len(hours)), hours, strict=True)
    ]
    with open_direct(database_address) as database:
        for begin in range(0, len(hours), 250):
            some = drafted[begin : begin + 250]
            database.write(lambda tx, some=some: append_entries(tx, some, RANDOM))

        for since, until in ((400, 500), (890, 910), (1_400, 2_100), (0, 5), (1_600, 1_900), (2_690, 9_000)):
            expected = [seq for seq, hour in enumerate(hours, 1) if since <= hour < until]
            wanted = EntryFilter(
                since=format_utc(FIRST + timedelta(hours=since)), until=format_utc(FIRST + timedelta(hours=until))
            )
            for newest_first in (True, False):
                found: list[int] = []
                after, before = None, None
                while page := database.read(
                    lambda tx, a=after, b=before, w=wanted, n=newest_first: list_entries(
                        tx, entry_filter=w, after=a, before=b, newest_first=n, limit=97
                    )
                ):
                    found += [entry.seq for entry in page]
                    after, before = (None, found[-1]) if newest_first else (found[-1], None)
                assert found == (expected[::-1] if newest_first else expected), (since, until)


@pytest.mark.parametrize("counted_rows", [10, 1_000])
def test_filters_together_find_what_a_look_at_every_entry_finds(
    tmp_path: Path, counted_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MAX_COUNTED_ROWS", counted_rows)  # a ledger with more is large otherwise
    chance = random.Random(counted_rows)
    made = [chance.choice(EVENTS) for _ in range(600)]
    drafted = [
        (name, draft._replace(principal=chance.choice(["user:ann", "user:bob"]), at=FIRST + timedelta(hours=number)))
        for number, (name, draft) in enumerate(drafts(made))
    ]
    with open_direct(tmp_path / "db") as database:
        database.write(lambda tx: append_entries(tx, drafted, RANDOM))
        everything = database.read(lambda tx: list_entries(tx, limit=1_000))
        assert len(everything) == 600
        kinds: tuple[dict[str, Any], ...] = (
            {}, {"type": "plugin.*"}, {"wrong": True}, {"outcome": "failed"}, {"types": ("call.ended", "effect.*")},
        )  # fmt: skip
        plugins, principals, hours = (None, "notes", "other"), (None, "user:ann"), (None, 200)
        for kind, plugin, principal, hour in product(kinds, plugins, principals, hours):
            until = None if hour is None else format_utc(FIRST + timedelta(hours=hour))
            wanted = EntryFilter(plugin=plugin, principal=principal, until=until, **kind)
            expected = [
                entry.seq
                for entry in everything
                if wanted.matches_type(entry.type)
                and not (wanted.wrong and not is_failure(entry.type, entry.facts))
                and (wanted.outcome is None or (entry.type, entry.facts.get("status")) == ("call.ended", "failed"))
                and plugin in (None, entry.plugin)
                and principal in (None, entry.personal.get("principal"))
                and (until is None or entry.at < until)
            ]
            page = database.read(lambda tx, w=wanted: list_entries(tx, entry_filter=w, limit=30))
            assert [entry.seq for entry in page] == expected[:30], wanted
            oldest = database.read(lambda tx, w=wanted: list_entries(tx, entry_filter=w, newest_first=False, limit=30))
            assert [entry.seq for entry in oldest] == expected[::-1][:30], wanted
