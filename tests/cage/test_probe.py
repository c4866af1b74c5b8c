"""A machine on which no cage can be built: every plugin is refused with a code and a line to type, and none runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.cage.errors import CageUnavailable
from paddock.cage.probe import find_bubblewrap, setup_error
from paddock.cage.spec import CageSpec
from paddock.cage.warden.client import open_warden

SPEC = CageSpec(cage_id="c", plugin="p", command=("/usr/bin/true",), directory="/", environment={})


@pytest.fixture
def programs() -> Iterator[Path]:
    """A directory for programs that any user may run; pytest's own is private to us."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        path.chmod(0o755)
        yield path


def bubblewrap(directory: Path, script: str, version: str = "0.9.0") -> None:
    program = directory / "bwrap"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec echo bubblewrap {version}\n{script}\n')
    program.chmod(0o755)


@pytest.mark.req("G-18", "nothing runs without its cage")
async def test_without_bubblewrap_every_launch_is_refused_and_the_next_one_looks_again(programs: Path) -> None:
    async with open_warden(path=str(programs)) as warden:
        for _ in range(2):
            with pytest.raises(CageUnavailable) as caught:
                await warden.launch(SPEC)
            assert caught.value.error_code == "cage.bwrap_missing"
            assert "apt install bubblewrap" in caught.value.hint
        # Installed meanwhile, it is found without a restart; this one is too old.
        bubblewrap(programs, "exit 1", version="0.6.2")
        with pytest.raises(CageUnavailable) as caught:
            await warden.launch(SPEC)
        assert caught.value.error_code == "cage.bwrap_old"


@pytest.mark.req("G-18", "nothing runs without its cage")
@pytest.mark.parametrize(
    ("complaint", "code"),
    [
        ("bwrap: setting up uid map: Permission denied", "cage.userns_apparmor"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "cage.userns_apparmor"),
        ("bwrap: Failed to make / slave: Permission denied", "cage.container_mount"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "cage.container_mount"),
        ("bwrap: Creating new namespace failed, max_*_namespaces exceeded", "cage.userns_disabled"),
        ("bwrap: No permissions to create a new namespace", "cage.userns_forbidden"),
        ("bwrap: Can't chdir to /srv/plugin: Permission denied", "cage.path_forbidden"),
        ("bwrap: something new", "cage.bwrap_failed"),
    ],
)
async def test_each_wall_that_is_missing_has_its_code_and_nothing_runs_without_it(
    programs: Path, complaint: str, code: str
) -> None:
    ran = programs / "ran"
    bubblewrap(programs, f'for word; do [ "$word" = /usr/bin/true ] && : > {ran}; done\necho "{complaint}" >&2; exit 1')
    async with open_warden(path=str(programs)) as warden:
        with pytest.raises(CageUnavailable) as caught:
            await warden.launch(SPEC)
    assert (caught.value.error_code, caught.value.message) == (code, complaint)
    assert caught.value.hint
    assert not ran.exists()


def test_a_bubblewrap_that_is_root_for_everybody_is_not_used(programs: Path) -> None:
    bubblewrap(programs, "exit 0")
    (programs / "bwrap").chmod(0o4755)
    with pytest.raises(CageUnavailable) as caught:
        find_bubblewrap(str(programs))
    assert caught.value.error_code == "cage.bwrap_setuid"
    assert caught.value.hint == f"sudo chmod u-s {programs}/bwrap"


def test_what_bubblewrap_says_of_one_cage_is_explained_too() -> None:
    error = setup_error("bwrap: Can't find source path /gone: No such file or directory")
    assert error.error_code == "cage.path_missing"
