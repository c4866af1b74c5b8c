"""Backups of homes whose plugins write into their own folder whatever they like."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.packages import native, write_file


@pytest.fixture
def writer(tmp_path: Path) -> tuple[Paddock, Path]:
    """A home with a plugin, and the plugin's own folder."""
    paddock = Paddock(tmp_path / "home")
    paddock.quickly("plugin", "install", native(tmp_path / "notes"), "--yes")
    folder = paddock.home / "data" / "files" / "notes"
    folder.mkdir(parents=True)
    return paddock, folder


def nest(folder: Path, depth: int) -> None:
    """Make directories inside one another, deeper than any path that the kernel takes."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_no_plugin_prevents_a_backup_or_its_removal_by_what_it_puts_into_its_own_folder(
    writer: tuple[Paddock, Path], tmp_path: Path
) -> None:
    paddock, folder = writer
    (folder / "kept").write_text("kept")
    (folder / "latin-1-\udce9").write_text("kept")
    (folder / "two\nlines").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    nest(folder, 1500)

    said = paddock.quickly("backup", tmp_path / "backup.tar", "--json")
    assert any("unreadable: data/files/notes/deep" in text for text in said.json["not_included"])
    other = Paddock(tmp_path / "other")
    other.quickly("restore", tmp_path / "backup.tar")
    copied = other.home / "data" / "files" / "notes"
    assert (copied / "kept").read_text() == (copied / "latin-1-\udce9").read_text() == "kept"
    assert (copied / "two\nlines").readlink() == Path("/etc/passwd")
    paddock.quickly("plugin", "remove", "notes", "--yes")
    assert not folder.exists(), "and it is removed with its folder"


def test_files_with_holes_take_no_more_room_in_a_backup_and_after_it(
    writer: tuple[Paddock, Path], tmp_path: Path
) -> None:
    paddock, folder = writer
    with (folder / "disk.img").open("wb") as file:
        file.truncate(8 << 40)  # terabytes of nothing
        for offset, text in ((0, b"begin"), (1 << 40, b"middle")):
            file.seek(offset)
            file.write(text)
    (folder / "empty.img").touch()
    os.truncate(folder / "empty.img", 1 << 40)
    (folder / "solid").write_bytes(b"x" * 20_000)

    backup = tmp_path / "backup.tar"
    paddock.quickly("backup", backup)
    assert backup.stat().st_size < 16 << 20
    other = Paddock(tmp_path / "other")
    other.quickly("restore", backup)
    copied = other.home / "data" / "files" / "notes"
    for name, size in (("disk.img", 8 << 40), ("empty.img", 1 << 40), ("solid", 20_000)):
        status = (copied / name).stat()
        assert (status.st_size, status.st_blocks * 512 < 1 << 20) == (size, True)
    with (copied / "disk.img").open("rb") as file:
        assert file.read(6) == b"begin\0"
        file.seek(1 << 40)
        assert file.read(7) == b"middle\0"
    assert (copied / "solid").read_bytes() == b"x" * 20_000
    shown = subprocess.run(["tar", "--list", "--verbose", "--file", backup], capture_output=True, text=True, check=True)
    assert f"{8 << 40} " in shown.stdout and "data/files/notes/disk.img" in shown.stdout


@pytest.mark.slow
def test_a_plugin_that_swaps_a_folder_for_a_link_gets_no_file_of_others_into_the_backup(
    writer: tuple[Paddock, Path], tmp_path: Path
) -> None:
    paddock, folder = writer
    private = tmp_path / "private"
    for number in range(300):
        write_file(private / f"{number}.txt", "private-canary")
        write_file(folder / "shown" / f"{number}.txt", "harmless")
    (folder / "link").symlink_to(private)
    swap = (
        "import os\nwhile True:\n"
        " for old, new in (('shown', 'aside'), ('link', 'shown'), ('shown', 'link'), ('aside', 'shown')):\n"
        "  os.rename(old, new)"
    )
    plugin = subprocess.Popen([sys.executable, "-c", swap], cwd=folder)
    try:
        for number in range(20):
            backup = tmp_path / f"{number}.tar"
            paddock.quickly("backup", backup)
            assert b"private-canary" not in backup.read_bytes()
    finally:
        plugin.kill()
        plugin.wait()
