"""Pages of the ledger, and entries that go with the unit of work they belong to."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.ledger.chains import RANDOM, called, drafts

from fixtures.ledger_entries import list_recent
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.events.calls import CallEnded, CallStarted
from paddock.core.events.plugin_runtime import PluginCrashed, PluginHookReturned, PluginKilled
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.entries import ALL_ENTRIES, EntryFilter, find_entries, list_entries
from paddock.ledger.write.append import TransactionLedger, append_entries
from paddock.store.database import DirectDatabase, Transaction, open_direct

CLOCK = SystemClock()


def numbers(entries: list[LedgerEntry]) -> list[int]:
    return [entry.seq for entry in entries]


def fill(database: DirectDatabase) -> None:
    told = [called(number) for number in range(1, 9)]
    others = [PluginKilled("other"), PluginHookReturned("other", "on_start", 1.5, False)]
    database.write(lambda tx: append_entries(tx, drafts([*told, *others]), RANDOM))


def test_pages_follow_each_other_either_way_and_narrowed(database_address: str) -> None:
    with open_direct(database_address) as database:
        fill(database)

        def found(wanted: EntryFilter = ALL_ENTRIES, **more: object) -> list[int]:
            return numbers(database.read(lambda tx: list_entries(tx, entry_filter=wanted, **more)))  # type: ignore[arg-type]

        assert found(limit=3) == [10, 9, 8]
        assert found(limit=3, before=8) == [7, 6, 5]
        assert found(limit=3, after=2, newest_first=False) == [3, 4, 5]
        assert found(EntryFilter(type="plugin.killed")) == [9]
        assert found(EntryFilter(type="plugin.hook.*")) == [10]
        assert found(EntryFilter(plugin="other", type="plugin.*")) == [10, 9]
        assert found(EntryFilter(principal="bob", request="req_4")) == [4]
        assert found(EntryFilter(call="call_4", principal="eve")) == []
        assert found(EntryFilter(since="2999")) == found(EntryFilter(until="2001")) == []
        assert len(found(EntryFilter(since="2001", until="2999"))) == 10
        assert numbers(database.read(lambda tx: find_entries(tx, "req_5"))) == [5]
        (entry,) = database.read(lambda tx: find_entries(tx, "call_9"))
        assert database.read(lambda tx: find_entries(tx, entry.id)) == [entry]
        assert database.read(lambda tx: find_entries(tx, "call_9", "other")) == []


def test_an_entry_goes_with_the_unit_it_belongs_to(database_address: str) -> None:
    def fail_after_recording(tx: Transaction) -> None:
        TransactionLedger(tx, CLOCK, RANDOM, "default").publish(PluginKilled("notes"))
        raise LookupError

    with open_direct(database_address) as database:
        with pytest.raises(LookupError):
            database.write(fail_after_recording)
        assert database.read(list_recent) == []
        fill(database)
        assert numbers(database.read(list_recent))[-1] == 1, "and leaves no gap"


def test_what_may_be_there_already_is_not_recorded_twice(database_address: str) -> None:
    told = drafts(called(number) for number in range(3))
    with open_direct(database_address) as database:
        database.write(lambda tx: append_entries(tx, told[:2], RANDOM))
        database.write(lambda tx: append_entries(tx, told, RANDOM, check_existing=True))
        assert [entry.id for entry in database.read(list_recent)] == [name for name, _ in reversed(told)]


def test_an_entry_is_read_as_the_event_was_told(database_address: str) -> None:
    with open_direct(database_address) as database:
        database.write(
            lambda tx: TransactionLedger(tx, CLOCK, SystemRandom(), "default").record(
                PluginCrashed("notes", None, 9, ("Ö", "\x00")), call="call_1", request="req_1", principal="user:ann"
            )
        )
        (entry,) = database.read(list_recent)
    assert entry.data == {
        "type": "plugin.crashed",
        "name": "notes",
        "exit_code": None,
        "signal": 9,
        "last_stderr": ["Ö", "\x00"],
        "principal": "user:ann",
    }
    assert (entry.plugin, entry.call, entry.request, entry.erased) == ("notes", "call_1", "req_1", False)


def test_an_entry_is_found_by_the_events_that_it_stands_for(database_address: str) -> None:
    nothing: dict[str, Any] = dict.fromkeys(CallEnded.__struct_fields__)
    ran = CallEnded(
        **nothing
        | {"name": "notes", "method": "look", "status": "succeeded", "version": "1.0.0", "effects": ("read_only",)}
        | {"metrics": {}, "policies": (), "stands_for": ("plugin.method_called", "plugin.method_returned")}
    )
    denied = replace(ran, status="denied", stands_for=())
    after_its_start = replace(ran, stands_for=("plugin.method_returned",))
    began = CallStarted(
        "notes", "add", "1.0.0", "d", (), "req_1", None, None, None, "sha256:0", "allow", (), "pol_1", None
    )
    told = [called(1), ran, denied, began, after_its_start, PluginKilled("notes")]
    with open_direct(database_address) as database:
        database.write(lambda tx: append_entries(tx, drafts(told), RANDOM))

        def found(kind: str, **more: Any) -> list[int]:
            wanted = EntryFilter(type=kind, **more)
            return numbers(database.read(lambda tx: list_entries(tx, entry_filter=wanted, newest_first=False)))

        assert found("plugin.method_called") == [1, 2, 4]
        assert found("plugin.method_returned") == [2, 5]
        assert found("plugin.*") == [1, 2, 4, 5, 6]
        assert found("call.*") == [2, 3, 4, 5]
        assert found("call.started") == [4]
        assert found("plugin.hook.*") == []
        assert found("plugin.*", plugin="notes") == [1, 2, 4, 5, 6]
        assert found("plugin.hook.*", plugin="notes") == []
        assert found("call.*", call="call_3") == [3]
        assert found("plugin.method_called", call="call_3") == []
        assert found("plugin-method_called") == found("plugin_method.called") == []
