"""A disk without room: what is there can still be read, what is new is refused in words, and nothing is lost."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.commands import Paddock, Said
from fixtures.packages import native
from fixtures.small_disks import fill, mounted, unmount

Run = Callable[..., Said]


def limited(paddock: Paddock, *words: object) -> Said:
    """A command in which no file can grow by a single byte."""
    line = shlex.join([sys.executable, "-m", "paddock.cli", *map(str, words)])
    ran = subprocess.run(
        ["sh", "-c", f"ulimit -f 0; exec {line}"],
        env=paddock.environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" not in ran.stderr
    return Said(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path | None]:
    """A disk of 2,400 KiB, or None where we may not mount one."""
    place = tmp_path / "disk"
    if not mounted(place, "2400k"):
        yield None
        return
    try:
        yield place
    finally:
        unmount(place)


def assert_refused(said: Said) -> None:
    assert said.code == 1, said.err
    assert said.error["code"] in ("store.full", "staging.disk")
    assert "no room left" in said.err or "No space left" in said.err or "File too large" in said.err


def story(paddock: Paddock, source: Path, run: Run) -> None:
    listed = run("plugin", "list")
    assert listed.code == 0, listed.err
    assert "notes" in listed.out
    assert run("plugin", "show", "notes").code == 0
    assert_refused(run("plugin", "enable", "notes", "--json"))
    assert_refused(run("plugin", "install", native(source / "other", name="other"), "--yes", "--json"))
    assert_refused(run("plugin", "remove", "notes", "--yes", "--json"))


def test_without_room_plugins_are_still_listed_and_every_change_is_refused_whole(
    tmp_path: Path, small_disk: Path | None
) -> None:
    paddock = Paddock((small_disk or tmp_path) / "home")
    source = tmp_path / "source"
    paddock("plugin", "install", native(source / "notes"), "--yes")
    if small_disk is None:
        story(paddock, source, lambda *words: limited(paddock, *words))
    else:
        filler = fill(small_disk)

        def run(*words: object) -> Said:
            with paddock.start(*words) as process:
                out, err = process.communicate(timeout=60)
            assert "Traceback" not in err
            return Said(process.returncode, out, err)

        story(paddock, source, run)
        filler.unlink()
    assert paddock.listed()["notes"]["state"] == "disabled"
    paddock("plugin", "enable", "notes", "--no-start")
    paddock("plugin", "install", source / "other", "--yes")
    assert sorted(paddock.listed()) == ["notes", "other"]


def test_where_no_file_may_grow_the_same_holds(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    paddock("plugin", "install", native(tmp_path / "notes"), "--yes")
    story(paddock, tmp_path, lambda *words: limited(paddock, *words))
    assert list(paddock.listed()) == ["notes"]


def test_a_first_command_on_a_full_disk_says_so(tmp_path: Path) -> None:
    assert_refused(limited(Paddock(tmp_path / "home"), "plugin", "list", "--json"))
