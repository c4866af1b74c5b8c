"""A daemon is killed again and again while calls with effects are made: none is lost, and none happens twice."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Daemon, ask, daemon
from fixtures.packages import native, write_file

pytestmark = pytest.mark.req("K-08")

CALLERS = 8
COUNTER = """
import os
from paddock_sdk import Plugin
plugin = Plugin("counter", "1.0.0")
@plugin.tool
def count(params, context):
    file = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (params["what"] + "\\n").encode())
    os.close(file)
    return {"counted": params["what"]}
plugin.run()
"""


class Outside:
    """Callers who want each of so many things to happen once, and do not give up because a daemon dies."""

    def __init__(self, paddock: Paddock, wanted: int) -> None:
        self._socket = paddock.home / "run" / "paddock.sock"
        self._left: Iterator[int] = iter(range(wanted))
        self._taking = threading.Lock()
        self.done: set[str] = set()
        self.doubted: set[str] = set()
        self.errors: list[Any] = []
        self._threads = [threading.Thread(target=self._make_calls) for _ in range(CALLERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def working(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _make_calls(self) -> None:
        while True:
            with self._taking:
                number = next(self._left, None)
            if number is None:
                return
            self._make(f"thing-{number}")

    def _make(self, what: str) -> None:
        body = {"name": "counter.count", "params": {"what": what}}
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                answer = ask(self._socket, "POST", "/calls", body, Idempotency_Key=what)
            except (OSError, ValueError, AssertionError):
                time.sleep(0.02)  # nobody is there: whoever calls tries again
                continue
            if answer.status == 200:
                self.done.add(what)
                return
            if answer.body["code"] == "effect.in_doubt":
                self.doubted.add(what)
                return
            if answer.status not in (429, 502, 503, 504):
                self.errors.append(answer.body)
                return
            time.sleep(0.02)
        self.errors.append(f"no answer about {what}")


@pytest.mark.parametrize(("kills", "wanted"), [(4, 400), pytest.param(200, 1_000, marks=pytest.mark.slow)])
def test_whatever_the_moment_at_which_a_daemon_is_killed_nothing_is_lost_or_happens_twice(
    tmp_path: Path, kills: int, wanted: int
) -> None:
    paddock = Paddock(tmp_path / "home")
    chance = random.Random(20260101)
    counted = tmp_path / "outside" / "counted"
    counted.parent.mkdir()
    tool = {"name": "count", "description": "Count", "effects": ["db_write"], "input_schema": {"type": "object"}}
    folder = native(
        tmp_path / "counter",
        "counter",
        runtime={"command": ["python3", "./main.py"]},
        capabilities=[f"write:fs:{counted.parent}"],
        tools=[tool],
    )
    write_file(folder / "main.py", COUNTER.replace("FILE", repr(str(counted))))
    paddock.quickly("plugin", "install", folder, "--yes")
    paddock.quickly("plugin", "enable", "counter")
    outside = Outside(paddock, wanted)

    for number in range(kills):
        with daemon(paddock) as running:
            if number == 0:
                outside.start()
            _kill_while_it_works(running, counted, chance.randrange(1, max(2, wanted // kills)))
    with daemon(paddock):
        outside.join()
        doubts = {one["key"] for one in paddock("run", "doubt", "list", "--json").json["doubts"]}

    happened = Counter(counted.read_text().split())
    assert outside.errors == []
    assert [what for what, times in happened.items() if times > 1] == [], "nothing happens twice"
    assert outside.done <= happened.keys(), "whoever was told that it happened was told the truth"
    assert outside.doubted <= doubts, "and what nobody knows is listed"
    assert outside.done | outside.doubted == {f"thing-{number}" for number in range(wanted)}
    assert happened.keys() <= outside.done | doubts, "nothing happened that nobody knows of"
    assert paddock("ledger", "verify", "--json").json["verdict"] == "sound"


def _kill_while_it_works(running: Daemon, counted: Path, more: int) -> None:
    """Kill the daemon once so many more things have happened, or nothing happens any more."""
    before = counted.read_text().count("\n") if counted.exists() else 0
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if counted.exists() and counted.read_text().count("\n") >= before + more:
            break
        time.sleep(0.001)
    running.stop(signal.SIGKILL)
