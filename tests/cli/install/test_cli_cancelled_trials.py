"""Trials that come to no result: cancelled or refused, they store nothing, leave no process, and are in the ledger."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.cli.install.test_cli_try import granted, imported

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon, eventually

HANGS = """
import time
open(sys.argv[1] + "/started", "w").close()
time.sleep(600)
"""


@pytest.fixture
def docs(source: Path) -> Path:
    """A folder into which the server writes when it has started."""
    folder = source / "docs"
    folder.mkdir()
    return folder


def hanging(paddock: Paddock, source: Path, docs: Path) -> list[str]:
    """A server that does not answer; gives the command that tries it with all that it needs to start."""
    script = imported(paddock, source, HANGS, docs)
    return ["plugin", "try", "needy", "--grant", f"read:fs:{script}", "--grant", f"write:fs:{docs}", "--yes"]


def is_running(source: Path) -> bool:
    """Whether a process of the server is left."""
    script = bytes(source / "server" / "main.py")
    words = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.exists()]
    return any(script in line.split(b"\0") for line in words)


def endings(paddock: Paddock) -> list[str | None]:
    """The errors that ended the trials, as the ledger has them."""
    entries = paddock.quickly("ledger", "tail", "--type", "plugin.tried", "--json").json["entries"]
    return [entry["facts"].get("error") for entry in entries]


def assert_nothing_is_left(paddock: Paddock, source: Path) -> None:
    eventually(lambda: endings(paddock) == ["trial.cancelled"], "the cancelled trial is recorded")
    eventually(lambda: not is_running(source), "no process is left")
    assert granted(paddock) == []


def interrupt(paddock: Paddock, command: list[str], docs: Path) -> None:
    """Press Ctrl-C while the server is tried."""
    with paddock.start(*command) as process:
        eventually((docs / "started").exists, "the server has started")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 130


def test_an_interrupted_command_ends_the_trial(paddock: Paddock, source: Path, docs: Path) -> None:
    interrupt(paddock, hanging(paddock, source, docs), docs)
    assert_nothing_is_left(paddock, source)


def test_a_daemon_ends_a_trial_when_its_client_leaves_or_another_request_cancels_it(
    paddock: Paddock, source: Path, docs: Path
) -> None:
    command = hanging(paddock, source, docs)
    with daemon(paddock) as served:
        interrupt(paddock, command, docs)
        assert_nothing_is_left(paddock, source)

        (docs / "started").unlink()
        with paddock.start(*command) as process:
            eventually((docs / "started").exists, "the server has started")
            assert served.ask("DELETE", "/plugins/other/try").body["code"] == "trial.not_running"
            assert served.ask("DELETE", "/plugins/needy/try").body == {"name": "needy", "cancelled": True}
            _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert "the trial of needy was cancelled" in errors
        assert endings(paddock) == ["trial.cancelled"] * 2
        assert served.ask("DELETE", "/plugins/needy/try").status == 404
        assert not is_running(source)
