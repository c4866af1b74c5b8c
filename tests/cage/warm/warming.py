"""Launching plugins until they come from a warm interpreter, and telling whether one did."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.cage.daemons import FOREVER, Daemon

from paddock.cage.linux import child_pids


def launch(daemon: Daemon, script: str, **limits: Any) -> tuple[int, int]:
    """Start a plugin; its number, and the pid of its process."""
    told = daemon.tell("launch", script=script, limits=limits, capabilities=[])
    assert "number" in told, told
    return told["number"], told["pid"]


def is_warm(pid: int) -> bool:
    """Whether a plugin came from a zygote: then the first process of its cage is not bubblewrap."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return Path(f"/proc/{status['PPid']}/comm").read_text().strip() != "bwrap"


def launched_warm(daemon: Daemon) -> bool:
    number, pid = launch(daemon, FOREVER)
    warm = is_warm(pid)
    daemon.tell("kill", number=number)
    daemon.tell("end", number=number)
    return warm


def warm_up(daemon: Daemon) -> None:
    deadline = time.monotonic() + 30
    while not launched_warm(daemon):
        assert time.monotonic() < deadline, "no plugin is ever started warm"


def zygote_of(daemon: Daemon) -> int:
    """The zygote's own process: the only one below bubblewrap's two that has a spare copy for a child."""
    (inner,) = [pid for outer in child_pids(daemon.warden) for pid in child_pids(outer)]
    (zygote,) = child_pids(inner)
    return zygote


def said(daemon: Daemon, script: str) -> Any:
    """What a plugin wrote as one line of JSON."""
    number, _ = launch(daemon, script)
    line = daemon.tell("line", number=number)
    daemon.tell("end", number=number)
    assert line[:1] in ("[", "{"), line
    return json.loads(line)
