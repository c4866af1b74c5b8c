"""`paddock plugin pack`, and what a package leaves out of an author's folder."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from tests.authoring.workbench import edit, made

from fixtures.commands import Paddock
from paddock.authoring.file_watcher import scan_folder
from paddock.plugins.package.from_directory import directory_tree


def npm_installed(folder: Path) -> None:
    """What `npm install` leaves: a compiler, a library that the program needs, links and notes."""
    for package in ("typescript", "left-pad"):
        (folder / "node_modules" / package).mkdir(parents=True)
        (folder / "node_modules" / package / "index.js").write_text(package)
    (folder / "node_modules" / ".bin").mkdir()
    (folder / "node_modules" / ".bin" / "tsc").symlink_to("../typescript/bin/tsc")
    notes = {"packages": {"node_modules/typescript": {"dev": True}, "node_modules/left-pad": {"version": "1.3.0"}}}
    (folder / "node_modules" / ".package-lock.json").write_text(json.dumps(notes))


def test_a_packed_plugin_is_the_same_bytes_each_time_and_the_same_package_as_its_folder(tmp_path: Path) -> None:
    paddock, folder = Paddock(tmp_path / "home"), made(tmp_path / "new")
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "main.cpython-311.pyc").write_bytes(b"\0")

    said = json.loads(paddock.quickly("plugin", "pack", folder, "--output", first, "--json").out)
    os.utime(folder / "main.py", (0, 0))
    paddock.quickly("plugin", "pack", folder, "--output", second)

    assert said["digest"] == directory_tree(folder).digest and said["files"] == 4
    assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()
    shown = json.loads(paddock.quickly("plugin", "install", first, "--yes", "--json").out)
    assert shown["digest"] == said["digest"]
    assert "exists already" in paddock.quickly("plugin", "pack", folder, "--output", first, code=1).err


def test_a_plugin_whose_manifest_is_not_its_program_is_not_packed(tmp_path: Path) -> None:
    paddock, folder = Paddock(tmp_path / "home"), made(tmp_path / "new")
    edit(folder / "main.py", "Greet a person.", "Greet one person.")

    said = paddock.quickly("plugin", "pack", folder, "--output", tmp_path / "it.zip", code=6)

    assert "paddock plugin sync" in said.err and not (tmp_path / "it.zip").exists()


def test_a_folder_after_npm_install_is_sound_and_carries_what_runs_but_not_what_builds(tmp_path: Path) -> None:
    paddock, folder = Paddock(tmp_path / "home"), made(tmp_path / "new", language="typescript")
    before = {file.path for file in directory_tree(folder).files}
    npm_installed(folder)

    assert "sound" in paddock.quickly("plugin", "check", folder).out
    after = {file.path for file in directory_tree(folder).files}
    assert after - before == {"node_modules/left-pad/index.js"}
    assert {Path(path).relative_to(folder).as_posix() for path in scan_folder(folder)} == after


def test_notes_of_npm_that_make_no_sense_leave_nothing_out(tmp_path: Path) -> None:
    folder = made(tmp_path / "new")
    npm_installed(folder)
    notes = folder / "node_modules" / ".package-lock.json"
    for text in ("{", "[]", '{"packages": 5}', '{"packages": {"node_modules/typescript": {"dev": "yes"}}}', "[" * 9000):
        notes.write_text(text)
        assert "node_modules/typescript/index.js" in {file.path for file in directory_tree(folder).files}
