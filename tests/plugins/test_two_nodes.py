"""Two nodes on one PostgreSQL: rows and packages are shared, files are each node's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.shelves import Shelf
from paddock.core.errors import Modified
from paddock.plugins.manage.enable import enable
from paddock.plugins.manage.remove import uninstall
from paddock.plugins.store.listing import list_plugins
from paddock.plugins.store.lookup import resolve_plugin


@pytest.fixture
def nodes(tmp_path: Path, postgres_address: str) -> Iterator[tuple[Shelf, Shelf]]:
    with Shelf.open(tmp_path / "one", postgres_address) as one, Shelf.open(tmp_path / "two", postgres_address) as two:
        yield one, two


def test_a_plugin_installed_on_one_node_is_listed_and_used_on_the_other(nodes: tuple[Shelf, Shelf]) -> None:
    one, two = nodes
    row = one.install()
    assert [(listed.plugin.name, listed.state) for listed in list_plugins(two.plugins)] == [("notes", "disabled")]
    assert not two.plugins.version_root("notes", "1.0.0").exists()

    handle = resolve_plugin(two.plugins, "notes")
    assert handle.root.is_relative_to(two.folder)
    assert (handle.root / "paddock.yaml").read_bytes() == (
        one.plugins.version_root("notes", row.version) / "paddock.yaml"
    ).read_bytes()
    assert enable(two.plugins, "notes").digest == row.digest
    assert [listed.state for listed in list_plugins(one.plugins)] == ["enabled"]


def test_files_changed_on_one_node_are_that_nodes_trouble_alone(nodes: tuple[Shelf, Shelf]) -> None:
    one, two = nodes
    one.install()
    resolve_plugin(two.plugins, "notes")
    (two.plugins.version_root("notes", "1.0.0") / "extra.txt").write_text("not consented to")

    assert [listed.state for listed in list_plugins(two.plugins)] == ["modified"]
    assert [listed.state for listed in list_plugins(one.plugins)] == ["disabled"]
    with pytest.raises(Modified):
        enable(two.plugins, "notes")


def test_what_is_removed_on_one_node_is_swept_on_the_other(nodes: tuple[Shelf, Shelf]) -> None:
    one, two = nodes
    one.install()
    root = resolve_plugin(two.plugins, "notes").root
    uninstall(one.plugins, "notes")
    two.plugins.sweep()

    assert list_plugins(two.plugins) == []
    assert not root.exists()


def test_a_package_is_swept_only_when_no_node_can_be_about_to_name_it(nodes: tuple[Shelf, Shelf]) -> None:
    one, _ = nodes
    row = one.install()
    uninstall(one.plugins, "notes")
    one.plugins.sweep()
    assert one.plugins.blobs.has(row.blob)

    one.clock.turn(hours=2)
    one.plugins.sweep()
    assert not one.plugins.blobs.has(row.blob)
