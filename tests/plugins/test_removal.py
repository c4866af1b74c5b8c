"""Uninstalling, on both engines: rows, files, blobs and configuration go, and an interrupted removal is finished."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from fixtures.shelves import Shelf
from paddock.config.local_file import read_entries, record_installed, remove_entry, set_system_value
from paddock.core.errors import Conflict, NotFound
from paddock.plugins.manage.enable import enable
from paddock.plugins.manage.remove import reconcile_config_entries, uninstall, uninstall_version
from paddock.plugins.store.listing import list_plugins
from paddock.plugins.store.lookup import add_alias

TABLES = ("plugins", "plugin_versions", "grants", "aliases")


def test_nothing_of_a_plugin_is_left(shelf: Shelf) -> None:
    first = shelf.install(version="1.0.0")
    second = shelf.install(version="1.1.0")
    enable(shelf.plugins, "notes")
    add_alias(shelf.plugins, "jot", "notes")
    set_system_value(shelf.plugins.local_file, "notes", "token", "canary")
    uninstall(shelf.plugins, "jot")

    assert {table: shelf.rows(table) for table in TABLES} == dict.fromkeys(TABLES, 0)
    assert not (shelf.plugins.trees / "notes").exists()
    shelf.clock.turn(hours=2)
    shelf.plugins.sweep()  # a shared store lets packages go only after a time of grace
    assert not shelf.plugins.blobs.has(first.blob)
    shelf.clock.turn(hours=2)
    shelf.plugins.sweep()  # a shared store lets packages go only after a time of grace
    assert not shelf.plugins.blobs.has(second.blob)
    assert "canary" not in shelf.plugins.local_file.read_text()
    assert shelf.events("notes")[-1].type == "plugin.uninstalled"
    with pytest.raises(NotFound):
        uninstall(shelf.plugins, "notes")


def test_the_others_stay_as_they_were(shelf: Shelf) -> None:
    shelf.install("other", capabilities=["net:other.example.com:443"])
    enable(shelf.plugins, "other")
    set_system_value(shelf.plugins.local_file, "other", "token", "kept")
    before = list_plugins(shelf.plugins)
    shelf.install()
    uninstall(shelf.plugins, "notes")

    assert list_plugins(shelf.plugins) == before
    assert read_entries(shelf.plugins.local_file)["other"].raw_values == {"token": "kept"}


def test_the_version_in_use_is_not_removed_by_itself(shelf: Shelf) -> None:
    shelf.install(version="1.0.0")
    shelf.install(version="1.1.0")
    for force in (False, True):
        with pytest.raises(Conflict) as refused:
            uninstall_version(shelf.plugins, "notes", "1.1.0", force=force)
        assert refused.value.error_code == "plugin.in_use"
    uninstall_version(shelf.plugins, "notes", "1.0.0")
    assert not shelf.plugins.version_root("notes", "1.0.0").exists()
    with pytest.raises(NotFound):
        uninstall_version(shelf.plugins, "notes", "1.0.0")


def test_entries_are_brought_in_step_with_the_rows(shelf: Shelf) -> None:
    shelf.install()
    path = shelf.plugins.local_file
    set_system_value(path, "notes", "token", "kept")
    record_installed(path, "notes", "0.0.1")
    record_installed(path, "ghost", "1.0.0")
    # Written by a person, ahead of installing it: theirs to keep.
    set_system_value(path, "later", "token", "theirs")
    reconcile_config_entries(shelf.plugins)

    entries = read_entries(path)
    assert sorted(entries) == ["later", "notes"]
    assert (entries["notes"].installed, entries["notes"].raw_values) == ("1.0.0", {"token": "kept"})
    remove_entry(path, "notes")
    reconcile_config_entries(shelf.plugins)
    assert read_entries(path)["notes"].installed == "1.0.0"


def test_entries_are_not_mended_while_another_command_is_in_the_middle_of_a_change(
    shelf: Shelf, tmp_path: Path, database_address: str
) -> None:
    """An install writes its rows and then its entry; tidying in between would take that entry, with its keys, away."""
    shelf.install()
    path = shelf.plugins.local_file

    def tidy() -> None:
        with Shelf.open(tmp_path, database_address) as other:
            reconcile_config_entries(other.plugins)

    tidying = Thread(target=tidy)
    with shelf.plugins.change_lock():
        record_installed(path, "ghost", "1.0.0")
        tidying.start()
        tidying.join(1)
        assert "ghost" in read_entries(path)
    tidying.join(60)
    assert "ghost" not in read_entries(path)
