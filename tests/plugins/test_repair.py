"""Repairing from the package that was consented to, on both engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.packages import write_file
from fixtures.shelves import Shelf
from paddock.core.errors import Modified, NotFound
from paddock.plugins.manage.enable import enable
from paddock.plugins.manage.repair import repair_plugin
from paddock.plugins.package.tree import fingerprint, verify_tree
from paddock.plugins.store.listing import list_plugins
from paddock.plugins.store.rows import find_version


def test_every_version_whose_files_changed_is_put_back(shelf: Shelf) -> None:
    rows = [shelf.install(version=version) for version in ("1.0.0", "1.1.0", "1.2.0")]
    roots = [shelf.plugins.version_root("notes", row.version) for row in rows]
    write_file(roots[0] / "run.sh", "#!/bin/sh\n", executable=True)
    (roots[2] / "paddock.yaml").unlink()
    with pytest.raises(Modified) as refused:
        enable(shelf.plugins, "notes")
    assert refused.value.details == {"changed": [], "missing": ["paddock.yaml"], "added": []}
    assert shelf.events("notes")[-1].type == "plugin.modified_detected"

    assert [row.version for row in repair_plugin(shelf.plugins, "notes")] == ["1.2.0", "1.0.0"]
    assert all(verify_tree(root, row.digest).intact for root, row in zip(roots, rows, strict=True))
    assert [one.state for one in list_plugins(shelf.plugins)] == ["disabled"]
    enable(shelf.plugins, "notes")
    assert [event.type for event in shelf.events("notes")].count("plugin.repaired") == 2
    assert repair_plugin(shelf.plugins, "notes") == []


def test_a_repaired_tree_has_its_new_fingerprint_so_that_listing_stays_cheap(shelf: Shelf) -> None:
    shelf.install()
    root = shelf.plugins.version_root("notes", "1.0.0")
    (root / "run.sh").unlink()
    repair_plugin(shelf.plugins, "notes")
    row = shelf.plugins.database.read(lambda tx: find_version(tx, "notes", "1.0.0"))

    assert row is not None
    assert shelf.plugins.known_fingerprint(row.plugin, row.version) == fingerprint(root)


def test_a_touched_file_with_the_same_content_is_not_a_modification(shelf: Shelf) -> None:
    shelf.install()
    path = shelf.plugins.version_root("notes", "1.0.0") / "run.sh"
    path.write_bytes(path.read_bytes())

    assert [one.state for one in list_plugins(shelf.plugins)] == ["disabled"]
    enable(shelf.plugins, "notes")


def test_a_package_that_is_no_longer_stored_cannot_be_put_back_and_the_way_out_is_told(shelf: Shelf) -> None:
    row = shelf.install()
    root = shelf.plugins.version_root("notes", "1.0.0")
    (root / "run.sh").unlink()
    shelf.plugins.blobs.delete(row.blob)
    with pytest.raises(NotFound) as refused:
        repair_plugin(shelf.plugins, "notes")

    assert refused.value.error_code == "package.gone"
    assert (root / "paddock.yaml").exists()
    assert not list(shelf.plugins.staging.iterdir())


def test_repairing_takes_nothing_from_outside_the_stored_package(shelf: Shelf, tmp_path: Path) -> None:
    shelf.install()
    # The source has moved on; what a person consented to is what comes back.
    write_file(shelf.folder / "packages" / "notes-1.0.0" / "run.sh", "#!/bin/sh\nevil\n", executable=True)
    root = shelf.plugins.version_root("notes", "1.0.0")
    (root / "run.sh").unlink()
    repair_plugin(shelf.plugins, "notes")

    assert (root / "run.sh").read_text() == "#!/bin/sh\nexec cat\n"
    assert (root / "run.sh").stat().st_mode & 0o111
