"""Events are recorded with what caused them, or not at all."""

from __future__ import annotations

import pytest

from paddock.store.database import Transaction, open_direct
from paddock.store.event_log import recent, record


def note(tx: Transaction, number: int, event_type: str = "plugin.installed", plugin: str | None = "notes") -> None:
    record(
        tx,
        event_id=f"e{number:03}",
        at=f"2030-01-01T00:00:{number // 2:02}Z",
        event_type=event_type,
        tenant="default",
        plugin=plugin,
        data={"number": number, "text": "ü % ?"},
    )


def test_recent_events_come_newest_first_and_narrowed(database_address: str) -> None:
    with open_direct(database_address) as database:
        for number in range(10):
            plugin = "notes" if number % 2 else None
            database.write(lambda tx, n=number, p=plugin: note(tx, n, "a" if n < 5 else "b", p))
        assert [event.id for event in database.read(lambda tx: recent(tx, limit=3))] == ["e009", "e008", "e007"]
        narrowed = database.read(lambda tx: recent(tx, event_type="a", plugin="notes", tenant="default"))
        assert [event.id for event in narrowed] == ["e003", "e001"]
        assert narrowed[0].data == {"number": 3, "text": "ü % ?"}
        assert database.read(lambda tx: recent(tx, tenant="other")) == []


def test_an_event_goes_with_the_unit_it_belongs_to(database_address: str) -> None:
    def fail_after_recording(tx: Transaction) -> None:
        note(tx, 1)
        raise LookupError

    with open_direct(database_address) as database:
        with pytest.raises(LookupError):
            database.write(fail_after_recording)
        assert database.read(recent) == []


def test_recording_an_event_again_changes_nothing(database_address: str) -> None:
    with open_direct(database_address) as database:
        for _ in range(2):
            database.write(lambda tx: note(tx, 1))
        assert len(database.read(recent)) == 1
