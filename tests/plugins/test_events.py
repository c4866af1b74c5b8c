"""What people do with plugins is on record, with its data."""

from __future__ import annotations

import pytest

from fixtures.shelves import Shelf
from paddock.plugins.enabling import disable, enable
from paddock.plugins.removal import uninstall


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
