"""Noticing that a folder changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.authoring.file_watcher import changed_files, scan_folder, watch_changes


async def next_change(folder: Path, act: Callable[[], object]) -> tuple[str, ...]:
    """What is noticed when something is done to the folder."""
    watching = watch_changes(folder, scan_folder(folder))
    waiting = asyncio.ensure_future(anext(watching))
    act()
    try:
        async with asyncio.timeout(60):
            return await waiting
    finally:
        await watching.aclose()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "main.py").write_text("one")
    (tmp_path / "lib" / "inner.py").write_text("one")
    return tmp_path


async def test_what_is_written_added_or_removed_is_noticed_however_deep(folder: Path) -> None:
    assert await next_change(folder, lambda: (folder / "lib" / "inner.py").write_text("longer")) == ("lib/inner.py",)
    assert await next_change(folder, lambda: (folder / "lib" / "new.py").touch()) == ("lib/new.py",)
    assert await next_change(folder, (folder / "main.py").unlink) == ("main.py",)


async def test_a_file_that_an_editor_puts_in_the_place_of_the_old_one_is_noticed(folder: Path) -> None:
    def save() -> None:
        (folder / "main.py~").write_text("two")
        (folder / "main.py~").replace(folder / "main.py")

    assert await next_change(folder, save) == ("main.py",)


async def test_a_file_that_became_executable_is_noticed(folder: Path) -> None:
    assert await next_change(folder, lambda: (folder / "main.py").chmod(0o755)) == ("main.py",)


def test_what_no_package_would_carry_is_not_looked_at(folder: Path) -> None:
    before = scan_folder(folder)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "main.cpython-311.pyc").touch()
    (folder / ".git").mkdir()
    (folder / ".git" / "index").touch()

    assert changed_files(before, scan_folder(folder), folder) == ()
    assert len(scan_folder(folder, max_files=1)) <= 2


async def test_a_file_that_never_rests_holds_nothing_up_and_is_no_change_itself(folder: Path) -> None:
    over = asyncio.Event()

    async def write_a_log() -> None:
        with (folder / "some.log").open("a", buffering=1) as log:
            while not over.is_set():
                log.write("line\n")
                await asyncio.sleep(0.005)

    writing = asyncio.ensure_future(write_a_log())
    noticed = await next_change(folder, lambda: (folder / "main.py").write_text("longer"))
    over.set()
    await writing
    assert noticed == ("main.py",)
