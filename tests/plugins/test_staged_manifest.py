"""A folder that is no plugin but holds some: whoever names it is told which."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.packages import native
from paddock.plugins.package.checks import folders_with_manifests


@pytest.mark.parametrize("command", ["install", "check"])
def test_a_folder_of_plugins_is_named_as_it_was_typed_with_the_plugins_in_it(tmp_path: Path, command: str) -> None:
    shelf = tmp_path / "shelf"
    native(shelf / "notes", "notes")
    native(shelf / "more" / "tasks", "tasks")

    said = Paddock(tmp_path / "home")("plugin", command, shelf, code=6)

    assert f"{shelf} holds no manifest" in said.err
    assert "name one of the folders in it: more/tasks, notes" in said.err


def test_an_archive_of_plugins_tells_which_it_holds(tmp_path: Path) -> None:
    native(tmp_path / "shelf" / "notes", "notes")
    native(tmp_path / "shelf" / "tasks", "tasks")
    archive = shutil.make_archive(str(tmp_path / "shelf"), "zip", tmp_path / "shelf")

    said = Paddock(tmp_path / "home")("plugin", "install", archive, "--yes", code=6)

    assert "shelf.zip holds no manifest" in said.err
    assert "take it apart first, then name one of the folders in it: notes, tasks" in said.err


def test_links_are_not_followed_to_find_plugins(tmp_path: Path) -> None:
    native(tmp_path / "outside" / "notes", "notes")
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "link").symlink_to(tmp_path / "outside")

    assert list(folders_with_manifests(shelf)) == []
