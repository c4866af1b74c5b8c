"""The two pipes for big bytes: there for a plugin that was granted artifacts, and for no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cage.daemons import Daemon, open_daemon
from tests.cage.warm.warming import is_warm, warm_up

LOOKS = """
import json, os, stat
def is_open(number):
    try: os.fstat(number)
    except OSError: return False
    return True
here = [number for number in sorted(int(name) for name in os.listdir("/proc/self/fd")) if is_open(number)]
pipes = [number for number in here if stat.S_ISFIFO(os.fstat(number).st_mode)]
said = {name: value for name, value in os.environ.items() if "ARTIFACTS" in name}
print(json.dumps({"open": here, "pipes": pipes, "said": said}), flush=True)
if said:
    heard = os.read(3, 100)
    os.write(4, heard.upper())
else:
    os.read(0, 1)  # stays, so that its process can be looked at
"""
RUNS_ANOTHER = (
    LOOKS
    + """
if said:
    os.execv("/usr/bin/python3", ["python3", "-c", "import os; os.write(4, os.read(3, 100) + b' from another')"])
"""
)


def launched(daemon: Daemon, script: str, *capabilities: str) -> tuple[int, bool, dict[str, Any]]:
    """The plugin's number, whether it was started warm, and what it sees of its descriptors."""
    told = daemon.tell("launch", script=script, limits={}, capabilities=list(capabilities))
    assert "number" in told, told
    warm = is_warm(told["pid"])
    return told["number"], warm, json.loads(daemon.tell("line", number=told["number"]))


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("ordinary", [False, True], ids=["root", "ordinary user"])
def test_a_plugin_with_the_grant_has_two_pipes_more_and_one_without_has_its_streams_alone(
    warm: bool, ordinary: bool
) -> None:
    with open_daemon(ordinary=ordinary, warm=warm) as daemon:
        if warm:
            warm_up(daemon)
        number, was_warm, seen = launched(daemon, LOOKS, "host:artifacts")
        assert was_warm == warm
        assert seen == {"open": [0, 1, 2, 3, 4], "pipes": [0, 1, 2, 3, 4], "said": {"PADDOCK_ARTIFACTS_FDS": "3,4"}}
        assert daemon.tell("exchange", number=number, text="hello") == "HELLO"
        assert daemon.tell("end", number=number)["code"] == 0
        number, was_warm, seen = launched(daemon, LOOKS, "host:cache")
        assert was_warm == warm
        assert seen == {"open": [0, 1, 2], "pipes": [0, 1, 2], "said": {}}
        assert daemon.tell("exchange", number=number, text="hello") is None
        daemon.tell("write", number=number, text="\n")
        assert daemon.tell("end", number=number)["code"] == 0
        before = daemon.tell("descriptors")
        number, _, _ = launched(daemon, LOOKS, "host:artifacts")
        daemon.tell("exchange", number=number, text="again")
        daemon.tell("end", number=number)
        assert daemon.tell("descriptors") == before


def test_a_program_that_the_plugin_becomes_still_has_the_pipes(root_daemon: Daemon) -> None:
    number, _, _ = launched(root_daemon, RUNS_ANOTHER, "host:artifacts", "exec:python3:/usr")
    assert root_daemon.tell("exchange", number=number, text="hello") == "HELLO"
    assert root_daemon.tell("exchange", number=number, text="hello") == "hello from another"
    root_daemon.tell("end", number=number)
