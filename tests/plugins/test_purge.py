"""What an uninstalled plugin kept is purged when none of its processes runs, also after a killed command."""

from __future__ import annotations

from pathlib import Path

from fixtures.shelves import Shelf
from paddock.capabilities.services.keyvalue_rows import KeyValueLimits, get_value, put_value
from paddock.plugins.manage.remove import clean_up_interrupted, uninstall
from paddock.plugins.store.purge import pending_purges, plugin_folder, purge_plugin, write_tombstone


def keep_something(shelf: Shelf, name: str) -> tuple[Path, Path]:
    """Its table file and its folder, with something in each."""
    store = shelf.plugins
    table = store.data / "storage" / "default" / f"{name}.sqlite"
    folder = plugin_folder(store.data, store.tenant, name)
    for path in (table, table.with_name(f"{name}.sqlite-wal"), folder / "memory" / "diary.md"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("my secret diary")
    store.database.write(
        lambda tx: put_value(tx, "default", name, "key", '"value"', changed_at=store.now(), limits=KeyValueLimits())
    )
    return table, folder


def value(shelf: Shelf, name: str) -> str | None:
    return shelf.plugins.database.read(lambda tx: get_value(tx, "default", name, "key"))


def test_tables_values_folder_and_log_go_and_those_of_others_stay(shelf: Shelf, tmp_path: Path) -> None:
    shelf.install()
    shelf.install("other")
    table, folder = keep_something(shelf, "notes")
    others = keep_something(shelf, "other")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("kept")
    (folder / "away").symlink_to(mine)
    (folder / "memory").chmod(0o000)
    forgotten: list[str] = []
    uninstall(shelf.plugins, "notes")
    purge_plugin(shelf.plugins, "notes", forgotten.append, lambda _tx, _name: None)

    assert not folder.exists() and list(table.parent.glob("notes*")) == []
    assert value(shelf, "notes") is None
    assert forgotten == ["notes"]
    assert (mine / "letter.txt").read_text() == "kept"
    assert all(path.exists() for path in others) and value(shelf, "other") == '"value"'


def test_a_link_in_the_place_of_its_folder_is_removed_and_what_it_points_at_stays(shelf: Shelf, tmp_path: Path) -> None:
    shelf.install()
    mine = tmp_path / "mine"
    mine.mkdir()
    folder = plugin_folder(shelf.plugins.data, shelf.plugins.tenant, "notes")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(mine)
    uninstall(shelf.plugins, "notes")
    purge_plugin(shelf.plugins, "notes", lambda _: None, lambda _tx, _name: None)

    assert mine.is_dir() and not folder.is_symlink()


def test_what_a_command_that_was_killed_did_not_drop_is_dropped_by_the_next(shelf: Shelf) -> None:
    shelf.install()
    table, folder = keep_something(shelf, "notes")
    uninstall(shelf.plugins, "notes")
    assert table.exists() and folder.exists()

    assert pending_purges(shelf.plugins) == ["notes"]
    purge_plugin(shelf.plugins, "notes", lambda _: None, lambda _tx, _name: None)
    assert not table.exists() and not folder.exists()
    assert pending_purges(shelf.plugins) == []


def test_a_command_that_was_killed_before_the_rows_went_costs_nothing(shelf: Shelf) -> None:
    shelf.install()
    table, folder = keep_something(shelf, "notes")
    write_tombstone(shelf.plugins, "notes")

    assert pending_purges(shelf.plugins) == []
    purge_plugin(shelf.plugins, "notes", lambda _: None, lambda _tx, _name: None)
    assert table.exists() and folder.exists() and value(shelf, "notes") == '"value"'

    write_tombstone(shelf.plugins, "notes")
    clean_up_interrupted(shelf.plugins)
    assert list((shelf.plugins.data / "leaving").iterdir()) == []


def test_nothing_is_dropped_because_its_rows_are_missing(shelf: Shelf) -> None:
    """They may be in another store, which somebody forgot to name."""
    table, folder = keep_something(shelf, "stranger")
    clean_up_interrupted(shelf.plugins)
    assert pending_purges(shelf.plugins) == []
    purge_plugin(shelf.plugins, "stranger", lambda _: None, lambda _tx, _name: None)
    assert table.exists() and folder.exists()
