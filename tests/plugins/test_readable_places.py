"""Whether a plugin could read what it was granted, told before it tries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon, eventually
from fixtures.packages import native, write_file
from paddock.cage.spec import NOBODY
from paddock.manifest.capability import FileAccess, parse_capability
from paddock.plugins.install.path_checks import (
    PathPermissions,
    PathProber,
    UngrantedPath,
    nobody_may_read,
    unreadable_paths,
)

LOOKER = """
import os
from paddock_sdk import Plugin

plugin = Plugin("looker", "1.0.0")

@plugin.tool
def look(params, context):
    try:
        return {"seen": os.listdir(params["path"])}
    except OSError as error:
        return {"refused": error.strerror}

plugin.run()
"""
DIRECTORY, FILE = 0o040000, 0o100000
real_root = pytest.mark.skipif(
    os.geteuid() != 0 or "4294967295" not in Path("/proc/self/uid_map").read_text(), reason="only of a root daemon"
)


@pytest.mark.parametrize(
    ("found", "readable"),
    [
        (PathPermissions(DIRECTORY | 0o700, 1000, 1000), False),
        (PathPermissions(DIRECTORY | 0o755, 1000, 1000), True),
        (PathPermissions(DIRECTORY | 0o754, 1000, 1000), False),  # listed, and nothing in it can be opened
        (PathPermissions(DIRECTORY | 0o700, NOBODY, 1000), True),
        (PathPermissions(DIRECTORY | 0o750, 1000, NOBODY), True),
        (PathPermissions(DIRECTORY | 0o705, 1000, NOBODY), False),  # the kernel asks the group first
        (PathPermissions(FILE | 0o604, 0, 0), True),
        (PathPermissions(FILE | 0o600, 0, 0), False),
    ],
)
def test_what_nobody_may_read_is_judged_as_the_kernel_does(found: PathPermissions, *, readable: bool) -> None:
    assert nobody_may_read(found) is readable


@pytest.mark.parametrize(
    ("path", "offered"),
    [
        ("/srv/notes", "write:fs:/srv/notes"),
        ("/srv/notes/all.db", "write:fs:/srv/notes"),  # the journal is made beside it
        ("/home/ada/all.sqlite3", None),  # never all of a home
        ("/all.db", None),
        ("/srv/notes/run.py", None),
    ],
)
def test_a_database_is_offered_for_writing_with_its_folder_unless_that_is_a_whole_home(
    path: str, offered: str | None
) -> None:
    writable = UngrantedPath("settings", path, FileAccess("read", path)).writable
    assert (str(writable) if writable else None) == offered


def test_only_what_is_granted_for_reading_and_is_closed_is_warned_of() -> None:
    granted = ["read:fs:/closed", "write:fs:/closed", "read:fs:config:/x", "net:*", "read:fs:/open", "read:fs:/gone"]
    there = {"/closed": PathPermissions(DIRECTORY | 0o700, 1, 1), "/open": PathPermissions(DIRECTORY | 0o755, 1, 1)}

    (warning,) = unreadable_paths([parse_capability(text) for text in granted], prober=PathProber(there.get))

    assert (warning.path, warning.code) == ("read:fs:/closed", "place_closed")
    assert "mode 0700" in warning.message and "setfacl -R -m u:65534:rX /closed" in warning.hint


def test_nobody_is_told_to_open_a_place_to_everybody_nor_credentials_to_anybody() -> None:
    closed = {
        "/etc/shadow": PathPermissions(FILE | 0o640, 0, 42),
        "/home/ada": PathPermissions(DIRECTORY | 0o700, 4711, 4711),
        "/home/ada/.ssh": PathPermissions(DIRECTORY | 0o700, 4711, 4711),
        "/srv/it's/a.txt": PathPermissions(FILE | 0o600, 0, 0),
    }

    found = unreadable_paths([parse_capability(f"read:fs:{path}") for path in closed], prober=PathProber(closed.get))

    hints = {one.path.removeprefix("read:fs:"): one.hint for one in found}
    assert hints.pop("/srv/it's/a.txt") == """setfacl -m u:65534:rX '/srv/it'"'"'s/a.txt'"""
    assert all(hint.startswith("leave it closed") and "this place holds" in hint for hint in hints.values())
    assert "the passwords of this machine's users" in hints["/etc/shadow"]


class DeadDisk:
    """Places below /dead never answer; the others are closed to nobody."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.looks = 0

    def look(self, path: str) -> PathPermissions | None:
        if path.startswith("/dead"):
            self.looks += 1
            self.answers.wait(30)
        return PathPermissions(DIRECTORY | 0o700, 1, 1)


@pytest.fixture
def dead_disk() -> Generator[DeadDisk, None, None]:
    disk = DeadDisk()
    yield disk
    disk.answers.set()


def test_a_place_that_never_answers_holds_somebody_up_once_and_costs_one_thread(dead_disk: DeadDisk) -> None:
    glances, granted = (
        PathProber(dead_disk.look),
        [parse_capability("read:fs:/dead"), parse_capability("read:fs:/closed")],
    )
    before, began = threading.active_count(), time.monotonic()
    unreadable_paths(granted, prober=glances, timeout_s=0.5)
    for _ in range(50):
        (warning,) = unreadable_paths(granted, prober=glances, timeout_s=0.5)
        assert warning.path == "read:fs:/closed"
    assert time.monotonic() - began < 10
    assert (dead_disk.looks, threading.active_count() - before) == (1, 1)


def test_no_more_than_a_few_places_hang_at_a_time_and_all_are_known_again_when_the_disk_is(dead_disk: DeadDisk) -> None:
    glances = PathProber(dead_disk.look, max_hung=3)
    for number in range(10):
        assert glances.probe(f"/dead/{number}", 0.01) is None
    assert dead_disk.looks == 3
    dead_disk.answers.set()
    eventually(lambda: glances.probe("/dead/9", 1.0) is not None, "nobody looks again")


def test_two_who_ask_about_a_place_at_the_same_time_share_a_look(dead_disk: DeadDisk) -> None:
    glances = PathProber(dead_disk.look)
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(glances.probe, "/dead/data", 20) for _ in range(4)]
        eventually(lambda: dead_disk.looks > 0, "nobody looks")
        dead_disk.answers.set()
        assert all(one.result(20) is not None for one in asked)


@real_root
def test_installing_enabling_and_looking_at_a_plugin_tells_what_it_could_not_read(tmp_path: Path) -> None:
    closed = tmp_path / "private"
    closed.mkdir(mode=0o700)
    paddock, wanted = Paddock(tmp_path / "home"), f"read:fs:{closed}"
    package = native(tmp_path / "notes", capabilities=[wanted])

    told = [
        paddock.quickly("plugin", "install", package, "--yes", "--json").json["warnings"],
        paddock.quickly("plugin", "enable", "notes", "--no-start", "--json").json["warnings"],
        paddock.quickly("plugin", "show", "notes", "--json").json["warnings"],
    ]
    assert [[(one["path"], one["code"]) for one in warnings] for warnings in told] == [[(wanted, "place_closed")]] * 3
    assert f"setfacl -R -m u:65534:rX {closed}" in paddock("plugin", "show", "notes").err

    closed.chmod(0o755)
    assert paddock.quickly("plugin", "show", "notes", "--json").json["warnings"] == []


@real_root
def test_where_a_daemon_runs_its_user_decides_and_not_that_of_the_command(tmp_path: Path) -> None:
    closed = tmp_path / "private"
    closed.mkdir(mode=0o700)
    paddock = Paddock(tmp_path / "home")
    paddock.quickly("plugin", "install", native(tmp_path / "notes", capabilities=[f"read:fs:{closed}"]), "--yes")
    with daemon(paddock):
        assert warned_in_a_namespace(paddock) == ["place_closed"]
    assert warned_in_a_namespace(paddock) == [], "root of a namespace starts plugins as itself"


def warned_in_a_namespace(paddock: Paddock) -> list[str]:
    """The warnings that a command tells whose user is root of a namespace and not of the machine."""
    words = ["unshare", "--user", "--map-root-user", sys.executable, "-m", "paddock.cli", "plugin", "show", "notes"]
    done = subprocess.run(
        [*words, "--json"], env=paddock.environment, capture_output=True, timeout=PATIENCE, check=True
    )
    return [one["code"] for one in json.loads(done.stdout)["warnings"]]


@real_root
@pytest.mark.parametrize(("mode", "access"), [(0o700, "read"), (0o755, "read"), (0o700, "write")])
def test_a_place_is_closed_in_the_cage_exactly_where_it_was_warned_of(tmp_path: Path, mode: int, access: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    write_file(place / "letter", "dear")
    os.chown(place, 1000, 1000)
    place.chmod(mode)
    looker = native(
        tmp_path / "looker",
        "looker",
        runtime={"command": ["python3", "./main.py"]},
        capabilities=[f"{access}:fs:{place}"],
        tools=[{"name": "look", "description": "Looks", "effects": ["read_only"], "input_schema": {"type": "object"}}],
    )
    write_file(looker / "main.py", LOOKER)
    paddock = Paddock(tmp_path / "home")
    paddock.quickly("plugin", "install", looker, "--yes", "--grant", f"{access}:fs:{place}")
    warned = paddock.quickly("plugin", "enable", "looker", "--json").json["warnings"]

    answer = paddock("call", "looker.look", "-p", json.dumps({"path": str(place)})).json

    assert answer == ({"refused": "Permission denied"} if warned else {"seen": ["letter"]})
    assert bool(warned) == (mode == 0o700 and access == "read")
