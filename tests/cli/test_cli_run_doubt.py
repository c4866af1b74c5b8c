"""`paddock run doubt`: a person finds out what became of a call whose host was killed, and says so."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import daemon, eventually
from fixtures.packages import native, write_file
from paddock.core.ids import DEFAULT_TENANT, CallId
from paddock.gate.effects import records
from paddock.gate.effects.records import EffectKey
from paddock.queue.leases import Here
from paddock.store.database import Transaction, open_direct

pytestmark = pytest.mark.req("K-08")

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
    paddock.quickly("plugin", "enable", "notes")
    again = ("call", "notes.add", "--idempotency-key", "k1", "--json")
    with daemon(paddock) as running:
        made = paddock(*again, "--detach").json["call_id"]
        with running.following(f"/calls/{made}/events") as events:
            next(events)  # the plugin has begun
        running.stop(signal.SIGKILL)

    with daemon(paddock):
        (doubt,) = paddock("run", "doubt", "list", "--json").json["doubts"]
        assert (doubt["call_id"], doubt["key"], doubt["state"]) == (made, "k1", "in_doubt")
        assert paddock(*again, code=1).error["code"] == "effect.in_doubt"
        assert "the host that made it is gone" in paddock("run", "doubt", "show", made).out

        said = paddock("run", "doubt", "resolve", made, "--happened", "--result", '{"added": 1}')
        assert "notes add has happened" in said.err
        replayed = paddock(*again).json
        assert (replayed["result"], replayed["replay_of"]) == ({"added": 1}, made)
        assert paddock("run", "doubt", "resolve", made, "--happened", "--json", code=1).error["code"] == (
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
    paddock.quickly("plugin", "install", folder, "--yes")
    paddock.quickly("plugin", "enable", "notes")
    again = ("call", "notes.add", "--idempotency-key", "k1", "--json")

    with paddock.start(*again) as command:
        eventually(begun.exists, "the plugin has begun")
        command.kill()

    (doubt,) = paddock("run", "doubt", "list", "--json").json["doubts"]
    assert doubt["key"] == "k1"
    assert paddock(*again, code=1).error["code"] == "effect.in_doubt"


def test_what_is_in_doubt_is_listed_a_page_at_a_time_the_oldest_first(paddock: Paddock) -> None:
    paddock.quickly("plugin", "list")  # makes the store
    with open_direct(paddock.home / "data" / "paddock.db") as database:
        for number in range(5):
            database.write(lambda tx, number=number: lost(tx, number))

    listed = list[str]()
    page = paddock("run", "doubt", "list", "--lines", "2", "--json").json
    while page["next"]:
        listed += [one["call_id"] for one in page["doubts"]]
        page = paddock("run", "doubt", "list", "-n", "2", "--after", page["next"], "--json").json
    listed += [one["call_id"] for one in page["doubts"]]

    assert listed == [f"call_{number}" for number in range(5)]
    assert "there may be more: --after call_1" in paddock("run", "doubt", "list", "-n", "2").err
    assert paddock("run", "doubt", "list", "--after", "nothing", "--json", code=3).error["code"] == "effect.not_found"


def lost(tx: Transaction, number: int) -> None:
    """An effect that may have happened; two and two of them began at the same time."""
    of, here = EffectKey(DEFAULT_TENANT, "notes", "add", f"k{number}"), Here("node_a", 1)
    now = f"2026-03-01T12:00:0{number // 2}+00:00"
    claimed = records.claim(
        tx, of, call=CallId(f"call_{number}"), payload_hash="h", holder=here, recovery="none", now=now, principal="ann"
    )
    assert claimed is not None
    started = records.start(tx, claimed, holder=here, now=now, payload={}, context={})
    records.lose(tx, started, error={"code": "host.lost", "message": "gone"})
