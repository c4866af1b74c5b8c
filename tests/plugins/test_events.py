"""What people do with plugins is on record, with its data."""

from __future__ import annotations

import pytest

from fixtures.shelves import Shelf
from paddock.core.ids import PrincipalId
from paddock.ledger.read.entries import EntryFilter, list_entries
from paddock.manifest.capability import parse_capability
from paddock.plugins.manage.enable import disable, enable
from paddock.plugins.manage.remove import uninstall
from paddock.plugins.store.versions import find_rollback_target, pin_version, roll_back
from paddock.store.database import Transaction


@pytest.mark.req("G-29", "plugin.installed")
@pytest.mark.req("G-29", "plugin.enabled")
@pytest.mark.req("G-29", "plugin.disabled")
@pytest.mark.req("G-29", "plugin.upgraded")
@pytest.mark.req("G-29", "plugin.uninstalled")
def test_a_life_from_install_to_uninstall_leaves_its_events(shelf: Shelf) -> None:
    shelf.install(capabilities=["net:a.example.com:443"])
    enable(shelf.plugins, "notes")
    disable(shelf.plugins, "notes", given_up="too noisy")
    shelf.install(version="1.1.0", capabilities=["net:b.example.com:443"])
    uninstall(shelf.plugins, "notes", force=True)
    installed, enabled, disabled, upgraded, uninstalled = (dict(event.data) for event in shelf.events("notes"))
    source = installed.pop("source")
    assert source.endswith("notes-1.0.0")
    digests = [event.pop("digest") for event in (installed, upgraded)]
    assert len(set(digests)) == 2
    assert [event.pop("capabilities") for event in (installed, upgraded)] == [
        ["net:a.example.com:443"],
        ["net:b.example.com:443"],
    ]
    assert [event.pop("accepted_dangers") for event in (installed, upgraded)] == [
        ["net:a.example.com:443"],
        ["net:b.example.com:443"],
    ]
    assert installed == {"type": "plugin.installed", "name": "notes", "version": "1.0.0", "local": True}
    assert enabled == {"type": "plugin.enabled", "name": "notes"}
    assert disabled == {"type": "plugin.disabled", "name": "notes", "reason": "too noisy"}
    assert upgraded == {
        "type": "plugin.upgraded",
        "name": "notes",
        "old_version": "1.0.0",
        "new_version": "1.1.0",
        "capability_diff": {"added": ["net:b.example.com:443"], "removed": ["net:a.example.com:443"]},
    }
    assert uninstalled == {"type": "plugin.uninstalled", "name": "notes", "version": "1.1.0"}


def test_what_a_person_does_with_a_plugin_is_filed_under_them_and_what_the_host_does_is_not(shelf: Shelf) -> None:
    shelf.install()
    theirs = shelf.plugins.acting_as(PrincipalId("local:ada"))
    enable(theirs, "notes")
    disable(shelf.plugins, "notes", given_up="too noisy")
    pin_version(theirs, "notes")
    uninstall(theirs, "notes", force=True)

    def found(tx: Transaction) -> list[str]:
        return [
            entry.type
            for entry in list_entries(tx, entry_filter=EntryFilter(principal="local:ada"), newest_first=False)
        ]

    assert shelf.plugins.database.read(found) == ["plugin.enabled", "plugin.pinned", "plugin.uninstalled"]


def test_a_grant_and_a_step_back_say_which_files_they_are_about(shelf: Shelf) -> None:
    first = shelf.install(capabilities=["storage:read"])
    shelf.install(version="1.1.0", capabilities=["storage:read"])
    now, target, _, _ = find_rollback_target(shelf.plugins, "notes", None)
    roll_back(shelf.plugins, now, target, [])
    shelf.plugins.database.write(lambda tx: tx.execute("UPDATE grants SET capabilities = '[]'"))
    enable(shelf.plugins, "notes", [parse_capability("storage:read")])

    told = {event.type: event.data for event in shelf.events("notes")}
    for kind in ("plugin.rolled_back", "plugin.granted"):
        assert (told[kind]["digest"], told[kind]["capabilities"]) == (first.digest, ["storage:read"])
