"""`paddock demo`: a real daemon with real plugins, and nothing left behind."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import eventually


@pytest.fixture
def temporary(paddock: Paddock, tmp_path: Path) -> Paddock:
    """Commands whose temporary directories can be counted."""
    (tmp_path / "tmp").mkdir()
    return Paddock(paddock.home, more={"TMPDIR": str(tmp_path / "tmp")})


def left_behind(paddock: Paddock) -> list[str]:
    return [path.name for path in Path(paddock.more["TMPDIR"]).iterdir() if path.name.startswith("paddock-demo")]


@pytest.mark.slow
def test_the_examples_are_installed_two_run_and_calls_are_made(temporary: Paddock) -> None:
    done = temporary("demo", "--json").json

    names = {one["name"] for one in done["installed"]}
    assert names >= {
        "slow-count",
        "memory-markdown",
        "native-notes",
        "Email.GenerateDraft",
        "fourth-generation-formula",
    }
    assert done["started"] == ["slow-count", "memory-markdown"]
    assert done["calls"][0]["result"] == {"counted": 3}
    assert done["calls"][1]["error"] == "call.timeout"
    assert left_behind(temporary) == []
    assert not temporary.home.exists(), "the person's own home stays untouched"


def test_without_a_terminal_it_shows_everything_and_ends(temporary: Paddock) -> None:
    said = temporary("demo")

    assert "Install" not in said.err, "nobody is asked"
    for words in ("What it may reach", "slow-count runs (pid", '{"counted": 3}', "stands in the ledger"):
        assert words in said.err
    assert re.search(r"^slow-count .* running ", said.out, re.MULTILINE)
    assert "process      running since" in said.out
    assert "nobody wants the rest" in said.out
    assert left_behind(temporary) == []


@pytest.mark.slow
def test_what_a_plugin_says_late_is_shown_too(temporary: Paddock) -> None:
    slow = """
import sys
from paddock.cli import demo
from paddock.cli.main import main

demo.CUT_SHORT, demo.ENOUGH = ("slow-count.squares", {"to": 10, "pause_ms": 2000}), 0.1
sys.argv = ["paddock", "demo"]
sys.exit(main())
"""
    said = subprocess.run(
        [sys.executable, "-c", slow], env=temporary.environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    assert "nobody wants the rest" in said.stdout


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_on_a_terminal_it_serves_until_it_is_ended_and_leaves_nothing(temporary: Paddock, how: signal.Signals) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "paddock.cli", "demo"],
        stdin=theirs, stdout=theirs, stderr=theirs, env=temporary.environment, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        screen = seen(ours, "slow-count.squares --params '{\"to\": 5}'")
        home = re.search(r"export PADDOCK_HOME=(\S+)", screen)
        pid = re.search(r"slow-count runs \(pid (\d+)\)", screen)
        assert home and pid
        served = Paddock(Path(home[1]))
        assert served("call", "slow-count.count", "-p", '{"to": 1, "pause_ms": 1}').json == {"counted": 1}

        process.send_signal(how)

        drain(ours)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    eventually(lambda: not Path(f"/proc/{pid[1]}").exists(), "the plugin still runs")
    assert left_behind(temporary) == []


def seen(terminal: int, words: str) -> str:
    """What appears on a terminal up to these words."""
    screen, deadline = b"", time.monotonic() + PATIENCE
    while words.encode() not in screen:
        assert time.monotonic() < deadline, screen.decode()
        if select.select([terminal], [], [], 1)[0]:
            screen += os.read(terminal, 65_536)
    return screen.decode()


def drain(terminal: int) -> None:
    """Read to the end, so that nobody waits for room on the screen."""
    while select.select([terminal], [], [], PATIENCE)[0]:
        try:
            if not os.read(terminal, 65_536):
                return
        except OSError:
            return  # the other end is closed
