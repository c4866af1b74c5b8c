"""`paddock call unresolved`: a person finds out what became of a call whose host was killed, and says so."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon, eventually
from fixtures.packages import native, write_file
from paddock.core.ids import DEFAULT_TENANT, CallId
from paddock.gate.idempotency import records
from paddock.gate.idempotency.records import EffectKey
from paddock.queue.leases import NodeRun
from paddock.store.database import Transaction, open_direct

ENDLESS = """
import time
from paddock_sdk import Plugin
plugin = Plugin("notes", "1.0.0")
@plugin.tool
def add(params, context):
    plugin.progress(1, 2)
    time.sleep(600)
plugin.run()
"""


def test_a_call_whose_host_was_killed_is_in_doubt_until_somebody_says_what_became_of_it(
    paddock: Paddock, tmp_path: Path
) -> None:
    tools = [{"name": "add", "description": "Add", "effects": ["db_write"], "input_schema": {"type": "object"}}]
    folder = native(tmp_path / "notes", runtime={"command": ["python3", "./main.py"]}, capabilities=[], tools=tools)
    write_file(folder / "main.py", ENDLESS)
    paddock.quickly("plugin", "install", folder, "--yes")
    paddock.quickly("plugin", "enable", "notes", "--no-start")
    again = ("call", "notes.add", "--idempotency-key", "k1", "--json")
    with daemon(paddock) as running:
        made = paddock(*again, "--detach").json["call_id"]
        with running.following(f"/calls/{made}/events") as events:
            next(events)  # the plugin has begun
        running.stop(signal.SIGKILL)

    with daemon(paddock):
        (doubt,) = paddock("call", "unresolved", "list", "--json").json["doubts"]
        assert (doubt["call_id"], doubt["key"], doubt["state"]) == (made, "k1", "in_doubt")
        assert paddock(*again, code=1).error["code"] == "effect.in_doubt"
        assert "the host that made it is gone" in paddock("call", "unresolved", "show", made).out
        explained = paddock("explain", made).out
        assert "its outcome is unknown." in explained.splitlines()[0]
        assert "whether it has happened is not known: the host that made it is gone; a person has to look" in explained

        said = paddock("call", "unresolved", "resolve", made, "--happened", "--result", '{"added": 1}')
        assert "notes add has happened" in said.err
        assert "it was in doubt; local:" in (first := paddock("explain", made).out.splitlines()[0])
        assert first.endswith(" said that it has happened.")
        assert paddock("explain", made, "--json").json["calls"][0]["status"] == "succeeded"
        replayed = paddock(*again).json
        assert (replayed["result"], replayed["replay_of"]) == ({"added": 1}, made)
        assert paddock("call", "unresolved", "resolve", made, "--happened", "--json", code=1).error["code"] == (
            "effect.not_in_doubt"
        )
    types = [entry["type"] for entry in paddock("ledger", "show", made, "--json").json["entries"]]
    assert types == ["call.started", "effect.in_doubt", "effect.resolved"]


BEGINS = ENDLESS.replace("    plugin.progress(1, 2)\n", "    open(FILE, 'w').close()\n")


def test_a_call_whose_command_was_killed_is_listed_at_once_and_needs_no_daemon(
    paddock: Paddock, tmp_path: Path
) -> None:
    begun = tmp_path / "outside" / "begun"
    begun.parent.mkdir()
    tools = [{"name": "add", "description": "Add", "effects": ["db_write"], "input_schema": {"type": "object"}}]
    folder = native(
        tmp_path / "notes",
        runtime={"command": ["python3", "./main.py"]},
        capabilities=[f"write:fs:{begun.parent}"],
        tools=tools,
    )
    write_file(folder / "main.py", BEGINS.replace("FILE", repr(str(begun))))
    paddock.quickly("plugin", "install", folder, "--yes", "--grant", f"write:fs:{begun.parent}")
    paddock.quickly("plugin", "enable", "notes", "--no-start")
    again = ("call", "notes.add", "--idempotency-key", "k1", "--json")

    with paddock.start(*again) as command:
        eventually(begun.exists, "the plugin has begun")
        command.kill()

    (doubt,) = paddock("call", "unresolved", "list", "--json").json["doubts"]
    assert doubt["key"] == "k1"
    assert paddock(*again, code=1).error["code"] == "effect.in_doubt"


def test_what_is_in_doubt_is_listed_a_page_at_a_time_the_oldest_first(paddock: Paddock) -> None:
    paddock.quickly("plugin", "list")  # makes the store
    with open_direct(paddock.home / "data" / "paddock.db") as database:
        for number in range(5):
            database.write(lambda tx, number=number: lost(tx, number))

    listed = list[str]()
    page = paddock("call", "unresolved", "list", "--lines", "2", "--json").json
    while page["next"]:
        listed += [one["call_id"] for one in page["doubts"]]
        page = paddock("call", "unresolved", "list", "-n", "2", "--after", page["next"], "--json").json
    listed += [one["call_id"] for one in page["doubts"]]

    assert listed == [f"call_{number}" for number in range(5)]
    assert "there may be more: --after call_1" in paddock("call", "unresolved", "list", "-n", "2").err
    assert (
        paddock("call", "unresolved", "list", "--after", "nothing", "--json", code=3).error["code"]
        == "effect.not_found"
    )


FALLS = """
import os
from paddock_sdk import Plugin
plugin = Plugin("notes", "1.0.0")
@plugin.tool
def add(params, context):
    os._exit(1)
@plugin.tool
def send(params, context):
    os._exit(1)
plugin.run()
"""
COUNTS = {"type": "object", "properties": {"added": {"type": "integer"}}, "required": ["added"]}


@pytest.fixture
def falling(paddock: Paddock, tmp_path: Path) -> Paddock:
    """A home whose plugin falls over each call, so that each is in doubt. It declares how `send` is found out."""
    tool = {"description": "Add", "effects": ["db_write"], "input_schema": {"type": "object"}, "output_schema": COUNTS}
    tools = [{"name": "add", **tool}, {"name": "send", "recovery": "native_key", **tool}]
    folder = native(tmp_path / "notes", runtime={"command": ["python3", "./main.py"]}, capabilities=[], tools=tools)
    write_file(folder / "main.py", FALLS)
    paddock.quickly("plugin", "install", folder, "--yes")
    paddock.quickly("plugin", "enable", "notes", "--no-start")
    return paddock


def doubted(paddock: Paddock, tool: str, key: str) -> str:
    """A call that is in doubt."""
    words = ("call", f"notes.{tool}", "--idempotency-key", key, "--params", '{"text": "milk"}', "--json")
    return paddock.quickly(*words, code=7).error["details"]["call_id"]


def test_whoever_says_that_it_has_not_happened_sees_what_may_happen_twice_and_says_so_once_more(
    falling: Paddock,
) -> None:
    call = doubted(falling, "add", "k1")
    resolve = ("call", "unresolved", "resolve", call)

    assert "say which of the two it is" in falling.quickly(*resolve, "--happened", "--not-happened", code=2).err
    assert "say which of the two it is" in falling.quickly(*resolve, code=2).err
    asked = falling.quickly(*resolve, "--not-happened", "--json", code=4)
    assert asked.error["details"] == {"call_id": call, "key": "k1", "params": {"text": "milk"}}
    assert asked.error["hint"].endswith(f"paddock call unresolved resolve {call} --not-happened --yes")
    screen = falling.on_terminal(*resolve, "--not-happened", answers=["n"], code=4)
    assert '"text": "milk"' in screen and "k1" in screen and "it happens twice if it has" in screen
    assert len(falling.quickly("call", "unresolved", "list", "--json").json["doubts"]) == 1, "nothing was changed"

    assert "notes add has not happened" in falling.on_terminal(*resolve, "--not-happened", answers=["y"])
    assert falling.quickly("call", "unresolved", "list", "--json").json["doubts"] == []


@pytest.mark.slow
def test_a_result_that_somebody_gives_is_one_that_the_callable_promises(falling: Paddock, tmp_path: Path) -> None:
    call, silent = doubted(falling, "add", "k1"), doubted(falling, "add", "k2")
    resolve = ("call", "unresolved", "resolve", call, "--happened", "--result")

    wrong = falling.quickly(*resolve, '{"added": "one"}', "--json", code=6).error
    assert [(one["path"], one["message"]) for one in wrong["errors"]] == [("added", "expected integer, found string")]
    assert falling.quickly(*resolve, "{added: 1}", "--json", code=6).error["errors"][0]["message"] == "is not JSON"
    assert falling.quickly(*resolve, f"@{tmp_path}/none", "--json", code=3).error["code"] == "params.unreadable"

    (tmp_path / "result.json").write_text('{"added": 1}')
    assert "gets null" not in falling.quickly(*resolve, f"@{tmp_path}/result.json").err
    assert falling.quickly("call", "unresolved", "show", call, "--json").json["result"] == {"added": 1}
    assert "without --result, a call repeated with its key gets null" in (
        falling.quickly("call", "unresolved", "resolve", silent, "--happened").err
    )


@pytest.mark.slow
def test_what_is_in_doubt_is_shown_with_its_key_with_how_it_is_found_out_and_after_it_is_known(
    falling: Paddock,
) -> None:
    alone, found_out = doubted(falling, "add", "k1"), doubted(falling, "send", "k2")

    listed = falling.quickly("call", "unresolved", "list").out.splitlines()
    assert [heading in listed[0] for heading in ("KEY", "RECOVERY", "WHY")] == [True] * 3
    assert all(word in listed[1] for word in (alone, "k1", "none", "notes ended before it answered"))
    assert all(word in listed[2] for word in (found_out, "k2", "native_key"))
    shown = falling.quickly("call", "unresolved", "show", found_out)
    assert "finding out  not tried yet" in shown.out
    assert "a daemon finds out by itself, and none runs for this home: paddock serve" in shown.err
    assert "by itself" not in falling.quickly("call", "unresolved", "show", alone).err

    with daemon(falling):
        eventually(lambda: searched(falling, found_out)["last_error"], "it was tried in vain")
        assert searched(falling, found_out)["last_error"] == "plugin.unavailable"
        shown = falling.quickly("call", "unresolved", "show", found_out)
        assert "plugin.unavailable" in shown.out
        assert "the daemon finds out by itself" in shown.err

    falling.quickly("call", "unresolved", "resolve", alone, "--not-happened", "--yes")
    falling.quickly("call", "unresolved", "resolve", found_out, "--happened", "--result", '{"added": 1}')
    over = falling.quickly("call", "unresolved", "list", "--resolved", "-n", "1", "--json").json
    assert [(one["call_id"], one["state"], one["params"]) for one in over["doubts"]] == [
        (found_out, "succeeded", {"text": "milk"})
    ]
    rest = falling.quickly("call", "unresolved", "list", "--resolved", "--after", over["next"]).out
    assert alone in rest and "has not happened, says local:" in rest and found_out not in rest


@pytest.mark.slow
def test_what_is_in_doubt_is_told_by_doctor_by_the_numbers_and_by_a_daemon_that_starts(falling: Paddock) -> None:
    assert effects_of(falling)["found"] == "no call has an unknown outcome"
    with daemon(falling) as running:
        assert running.told(event="ready")["in_doubt"] == 0
        assert metric(running) == "0"
        call = doubted(falling, "add", "k1")
        assert metric(running) == "1"
        running.stop()

    found = effects_of(falling)
    assert (found["status"], found["code"]) == ("warn", "effect.in_doubt")
    assert (found["found"], found["fix"]) == ("1 call has an unknown outcome", "paddock call unresolved list")
    with falling.start("serve") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready")
        process.terminate()
        _, errors = process.communicate()
    assert "! 1 call has an unknown outcome: paddock call unresolved list\n" in errors

    falling.quickly("call", "unresolved", "resolve", call, "--happened")
    assert effects_of(falling)["status"] == "ok"


def effects_of(paddock: Paddock) -> dict[str, Any]:
    """What doctor says of effects."""
    return next(one for one in paddock("doctor", "--json").json["checks"] if one["name"] == "effects")


def metric(running: Daemon) -> str:
    """How many calls of the default tenant are in doubt, as whoever watches the host reads it."""
    (line,) = (
        one for one in running.ask("GET", "/metrics").body.splitlines() if one.startswith("paddock_calls_in_doubt")
    )
    assert line.startswith('paddock_calls_in_doubt{tenant="default"} ')
    return line.split()[-1]


def searched(paddock: Paddock, call: str) -> dict[str, Any]:
    return paddock.quickly("call", "unresolved", "show", call, "--json").json["search"]


def lost(tx: Transaction, number: int) -> None:
    """An effect that may have happened; two and two of them began at the same time."""
    of, here = EffectKey(DEFAULT_TENANT, "notes", "add", f"k{number}"), NodeRun("node_a", 1)
    now = f"2026-03-01T12:00:0{number // 2}+00:00"
    claimed = records.claim(
        tx, of, call=CallId(f"call_{number}"), payload_hash="h", holder=here, recovery="none", now=now, principal="ann"
    )
    assert claimed is not None
    started = records.mark_started(tx, claimed, holder=here, now=now, payload={}, context={})
    records.mark_in_doubt(tx, started, error={"code": "host.lost", "message": "gone"})
