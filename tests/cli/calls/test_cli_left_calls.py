"""Calls whose caller stops waiting, or whose daemon goes away: what they are told says whether it may have happened."""

from __future__ import annotations

import json
import signal
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.cli.calls.test_cli_unresolved import ENDLESS
from tests.gate.effects.in_progress.test_in_progress import operator

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon, eventually
from fixtures.mail import mail
from fixtures.packages import native, write_file

both_ways = pytest.mark.parametrize("way", [pytest.param("alone", marks=pytest.mark.slow), "served"])
ADD = ("call", "notes.add", "--json")


def prepared(folder: Path) -> Paddock:
    """A home with a tool that never ends, and one that a person is asked about."""
    folder.mkdir(exist_ok=True)
    paddock = Paddock(folder / "home")
    tools = [{"name": "add", "description": "Add", "effects": ["db_write"], "input_schema": {"type": "object"}}]
    notes = native(folder / "notes", runtime={"command": ["python3", "./main.py"]}, capabilities=[], tools=tools)
    write_file(notes / "main.py", ENDLESS)
    for package, name in ((notes, "notes"), (mail(folder / "mail"), "mail")):
        paddock.quickly("plugin", "install", package, "--yes")
        paddock.quickly("plugin", "enable", name)
    return paddock


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, Paddock], None, None]:
    """Two such homes; in one of them a daemon runs."""
    folder = tmp_path_factory.mktemp("left")
    found = {way: prepared(folder / way) for way in ("alone", "served")}
    with ExitStack() as running:
        running.enter_context(daemon(found["served"]))
        yield found


@pytest.fixture
def caller(homes: dict[str, Paddock], way: str) -> Paddock:
    return homes[way]


@pytest.mark.slow
@both_ways
def test_whoever_waits_no_longer_is_told_that_it_may_have_happened(caller: Paddock) -> None:
    said = caller(*ADD, "--timeout", "3", code=8)

    told = said.error
    assert (told["code"], told["retryable"], told["details"]["effect"]) == ("call.timeout", False, "in_doubt")
    show = f"paddock call unresolved show {told['details']['call_id']}"
    assert show in told["hint"]
    assert show in said.err
    assert "in doubt" in caller(*show.split()[1:]).out
    assert "a call" not in said.err.replace(told["hint"], ""), "no line of a daemon's log"


@both_ways
def test_so_is_whoever_interrupts_it(caller: Paddock) -> None:
    with caller.start(*ADD) as process:
        assert process.stderr is not None
        process.stderr.readline()  # the plugin works on it
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)

    told = json.loads(out)["error"]
    assert (process.returncode, told["code"], told["details"]["effect"]) == (130, "interrupted", "in_doubt")
    assert f"paddock call unresolved show {told['details']['call_id']}" in err


def test_a_call_that_its_operator_goes_on_with_is_not_said_to_be_cancelled(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    outside = tmp_path / "outside"
    package = operator(tmp_path / "op", outside)
    paddock.quickly("plugin", "install", package, "--yes", "--grant", f"write:fs:{outside}")
    paddock.quickly("plugin", "enable", "Our.Thing", "--no-start")
    with daemon(paddock):
        told = paddock("call", "Our.Thing", "--timeout", "2", "--json", code=8).error
        made = told["details"]["call_id"]
        assert (told["details"]["status"], told["retryable"]) == ("in_progress", False)
        assert f"the call goes on: paddock call follow {made}" in told["hint"]
        shown = paddock("call", "show", made, "--json").json
        assert shown["status"] == "in_progress"
        assert shown["in_progress"]["asked"] >= 1
        assert shown["in_progress"]["next"] < shown["in_progress"]["until"]
        said = paddock("call", "show", made)
        assert said.err.startswith("Our.Thing in_progress"), "a plugin that is one callable is named once"
        assert "its operator was asked" in said.err
        assert set(said.json) == {"asked"}, "what it said last"

        said = paddock("call", "cancel", made).err
        assert "in_doubt" in said
        assert f"paddock call unresolved show {made}" in said


@pytest.mark.parametrize("key", [pytest.param(None, marks=pytest.mark.slow), "k1"])
def test_whoever_loses_the_daemon_over_a_call_learns_which_it_was_and_what_to_do(
    tmp_path: Path, key: str | None
) -> None:
    paddock = prepared(tmp_path / "lost")
    with daemon(paddock) as running, paddock.start(*ADD, *(("--idempotency-key", key) if key else ())) as process:
        assert process.stderr is not None
        process.stderr.readline()  # the plugin works on it
        running.stop(signal.SIGKILL)
        out, _ = process.communicate(timeout=PATIENCE)

    told = json.loads(out)["error"]
    assert (told["code"], told["details"].get("idempotency_key")) == ("daemon.lost", key)
    assert "the call may have happened" in told["hint"]
    assert ("with the same key" if key else "paddock call unresolved show call_") in told["hint"]
    shown = paddock("call", "unresolved", "show", told["details"]["call_id"], "--json").json
    assert shown["state"] == "in_doubt"


@pytest.mark.slow
def test_whoever_waits_for_a_person_while_the_daemon_stops_is_told_that_the_call_waits_on(tmp_path: Path) -> None:
    paddock = prepared(tmp_path / "stopped")
    with (
        daemon(paddock) as running,
        paddock.start("call", "mail.send", "-p", '{"to": "bob"}', "--wait", "--json") as process,
    ):
        assert process.stderr is not None
        approval = process.stderr.readline().split()[-1]
        running.stop()
        out, _ = process.communicate(timeout=PATIENCE)

    told = json.loads(out)["error"]
    assert told["code"] == "daemon.lost"
    assert f"the call waits for approval: paddock approval approve {approval}" in told["hint"]
    assert paddock("approval", "approve", approval, "--yes", "--json").json["call"]["result"] == {"sent": "bob"}


ENDLESS_AT_FIRST = """
import os, time
from paddock_sdk import Plugin
plugin = Plugin("notes", "1.0.0")
@plugin.tool
def add(params, context):
    if not os.path.exists(FILE):
        open(FILE, "w").close()
        time.sleep(600)
    return {"key": context.idempotency_key}
plugin.run()
"""


def test_without_a_daemon_the_same_key_finds_out_what_became_of_a_killed_call_before_it_is_made(
    paddock: Paddock, tmp_path: Path
) -> None:
    begun = tmp_path / "outside" / "begun"
    begun.parent.mkdir()
    tool = {"name": "add", "description": "Add", "effects": ["db_write"], "input_schema": {"type": "object"}}
    notes = native(
        tmp_path / "notes",
        runtime={"command": ["python3", "./main.py"]},
        capabilities=[f"write:fs:{begun.parent}"],
        tools=[tool | {"recovery": "native_key"}],
    )
    write_file(notes / "main.py", ENDLESS_AT_FIRST.replace("FILE", repr(str(begun))))
    paddock.quickly("plugin", "install", notes, "--yes", "--grant", f"write:fs:{begun.parent}")
    paddock.quickly("plugin", "enable", "notes", "--no-start")
    again = (*ADD, "--idempotency-key", "k1")
    with paddock.start(*again) as command:
        eventually(begun.exists, "the plugin has begun")
        command.kill()

    said = paddock(*again)
    found = said.json
    assert (found["result"], said.err) == ({"key": "k1"}, ""), "nor is that a node is gone"
    assert paddock("call", "unresolved", "show", found["replay_of"], "--json").json["resolution"] == "native_key"
