"""`plugin repair` and a running daemon: a process that may have loaded changed files does not outlive them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import write_file
from fixtures.parrot import MAIN, parrot

LAZY = MAIN.replace('"said": params["text"]', '"said": __import__("helper").WORD')
SAY = ("call", "parrot.say", "-p", '{"text": "x"}')


@pytest.fixture
def started(paddock: Paddock, source: Path) -> Generator[Daemon, None, None]:
    """A daemon with a parrot that reads what it says from a file of its own, when it is called."""
    package = parrot(source / "parrot", main=LAZY)
    write_file(package / "helper.py", "WORD = 'consented'\n")
    paddock("plugin", "install", package, "--yes")
    paddock("plugin", "enable", "parrot")
    with daemon(paddock) as running:
        yield running


def tamper(paddock: Paddock) -> None:
    helper = paddock.trees / "parrot" / "1.0.0" / "helper.py"
    helper.chmod(0o644)
    helper.write_text("WORD = 'changed!!'\n")


def test_repair_ends_the_process_that_loaded_a_changed_file_and_starts_another(started: Daemon) -> None:
    paddock = started.paddock
    before = started.ask("GET", "/plugins/parrot").body["runtime"]["pid"]
    tamper(paddock)
    assert paddock(*SAY).json["said"] == "changed!!"  # nobody looked yet

    said = paddock("plugin", "repair", "parrot")

    after = started.ask("GET", "/plugins/parrot").body["runtime"]["pid"]
    assert after != before
    assert "restored parrot 1.0.0" in said.err
    assert f"parrot 1.0.0 was started anew (pid {after})" in said.err
    assert paddock(*SAY).json["said"] == "consented"


@pytest.mark.slow
def test_repairing_what_was_not_modified_leaves_its_process_alone(started: Daemon) -> None:
    before = started.ask("GET", "/plugins/parrot").body["runtime"]["pid"]

    assert f"runs (pid {before})" in started.paddock("plugin", "repair", "parrot").err


@pytest.mark.parametrize(
    "look",
    [pytest.param(("plugin", "list"), marks=pytest.mark.slow), ("plugin", "show", "parrot")],
    ids=["list", "info"],
)
def test_a_plugin_that_is_seen_to_be_modified_runs_no_more(started: Daemon, look: tuple[str, ...]) -> None:
    paddock = started.paddock
    tamper(paddock)

    paddock(*look)

    started.told(event="plugin", name="parrot", state="failed")
    assert paddock.listed()["parrot"]["runtime"]["error_code"] == "plugin.modified"
    refused = paddock(*SAY, "--json", code=7)
    assert refused.error["details"]["reason_code"] == "plugin.modified"
    assert "paddock plugin repair parrot" in refused.err
    assert "was started anew" in paddock("plugin", "repair", "parrot").err
    assert paddock(*SAY).json["said"] == "consented"
