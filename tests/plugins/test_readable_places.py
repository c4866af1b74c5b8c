"""Whether a plugin could read what it was granted, told before it tries."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.packages import native, write_file
from paddock.manifest.capability import parse
from paddock.plugins.readable_places import NOBODY, Found, closed_places, nobody_may_read

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
        (Found(DIRECTORY | 0o700, 1000, 1000), False),
        (Found(DIRECTORY | 0o755, 1000, 1000), True),
        (Found(DIRECTORY | 0o754, 1000, 1000), False),  # listed, and nothing in it can be opened
        (Found(DIRECTORY | 0o700, NOBODY, 1000), True),
        (Found(DIRECTORY | 0o750, 1000, NOBODY), True),
        (Found(DIRECTORY | 0o705, 1000, NOBODY), False),  # the kernel asks the group first
        (Found(FILE | 0o604, 0, 0), True),
        (Found(FILE | 0o600, 0, 0), False),
    ],
)
def test_what_nobody_may_read_is_judged_as_the_kernel_does(found: Found, *, readable: bool) -> None:
    assert nobody_may_read(found) is readable


def test_only_what_is_granted_for_reading_and_is_closed_is_warned_of() -> None:
    granted = ["read:fs:/closed", "write:fs:/closed", "read:fs:config:/x", "net:*", "read:fs:/open", "read:fs:/gone"]
    there = {"/closed": Found(DIRECTORY | 0o700, 1, 1), "/open": Found(DIRECTORY | 0o755, 1, 1)}

    (warning,) = closed_places([parse(text) for text in granted], look=there.get)

    assert (warning.path, warning.code) == ("read:fs:/closed", "place_closed")
    assert "mode 0700" in warning.message and "setfacl -R -m u:65534:rX /closed" in warning.hint


def test_nobody_is_told_to_open_a_place_to_everybody_nor_credentials_to_anybody() -> None:
    closed = {
        "/etc/shadow": Found(FILE | 0o640, 0, 42),
        "/home/ada": Found(DIRECTORY | 0o700, 4711, 4711),
        "/home/ada/.ssh": Found(DIRECTORY | 0o700, 4711, 4711),
        "/srv/it's/a.txt": Found(FILE | 0o600, 0, 0),
    }

    found = closed_places([parse(f"read:fs:{path}") for path in closed], look=closed.get)

    hints = {one.path.removeprefix("read:fs:"): one.hint for one in found}
    assert hints.pop("/srv/it's/a.txt") == """setfacl -m u:65534:rX '/srv/it'"'"'s/a.txt'"""
    assert all(hint.startswith("leave it closed") and "this place holds" in hint for hint in hints.values())
    assert "the passwords of this machine's users" in hints["/etc/shadow"]


def test_a_place_that_never_answers_holds_nobody_up() -> None:
    answer = threading.Event()

    def hang(path: str) -> None:
        answer.wait(30)

    began = time.monotonic()
    try:
        assert closed_places([parse("read:fs:/dead")], look=hang, patience=0.05) == []
    finally:
        answer.set()
    assert time.monotonic() - began < 10


@real_root
def test_installing_enabling_and_looking_at_a_plugin_tells_what_it_could_not_read(tmp_path: Path) -> None:
    closed = tmp_path / "private"
    closed.mkdir(mode=0o700)
    paddock, wanted = Paddock(tmp_path / "home"), f"read:fs:{closed}"
    package = native(tmp_path / "notes", capabilities=[wanted])

    told = [
        paddock.quickly("plugin", "install", package, "--yes", "--json").json["warnings"],
        paddock.quickly("plugin", "enable", "notes", "--json").json["warnings"],
        paddock.quickly("plugin", "info", "notes", "--json").json["warnings"],
    ]
    assert [[(one["path"], one["code"]) for one in warnings] for warnings in told] == [[(wanted, "place_closed")]] * 3
    assert f"setfacl -R -m u:65534:rX {closed}" in paddock("plugin", "info", "notes").err

    closed.chmod(0o755)
    assert paddock.quickly("plugin", "info", "notes", "--json").json["warnings"] == []


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
    paddock.quickly("plugin", "install", looker, "--yes")
    warned = paddock.quickly("plugin", "enable", "looker", "--json").json["warnings"]

    answer = paddock("call", "looker.look", "-p", json.dumps({"path": str(place)})).json

    assert answer == ({"refused": "Permission denied"} if warned else {"seen": ["letter"]})
    assert bool(warned) == (mode == 0o700 and access == "read")
