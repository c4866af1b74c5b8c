"""Calls whose outcome is unknown, over HTTP: operators see them, and people say what became of them."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import native, write_file
from fixtures.people import key_of

FALLS = """
import os
from paddock_sdk import Plugin
plugin = Plugin("notes", "1.0.0")
@plugin.tool
def add(params, context):
    os._exit(1)
plugin.run()
"""


@pytest.fixture(scope="module")
def falling(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    """A daemon of a home whose plugin falls over each call, so that the outcome of each is unknown."""
    folder = tmp_path_factory.mktemp("falling")
    paddock = Paddock(folder / "home")
    counts = {"type": "object", "properties": {"added": {"type": "integer"}}, "required": ["added"]}
    tool = {"description": "Add", "effects": ["db_write"], "input_schema": {"type": "object"}, "output_schema": counts}
    package = native(
        folder / "notes",
        runtime={"command": ["python3", "./main.py"]},
        capabilities=[],
        tools=[{"name": "add", **tool}],
    )
    write_file(package / "main.py", FALLS)
    paddock.quickly("plugin", "install", package, "--yes")
    paddock.quickly("plugin", "enable", "notes", "--no-start")
    paddock.quickly("user", "add", "ann", "--role", "member", "--role", "operator")
    for key in ("k1", "k2", "k3"):
        words = ("call", "notes.add", "--idempotency-key", key, "--params", '{"text": "milk"}')
        paddock.quickly(*words, code=7)
    with daemon(paddock) as started:
        yield started


def unresolved(falling: Daemon, key: str) -> str:
    calls = falling.ask("GET", "/calls/unresolved").body["calls"]
    return next(one["call_id"] for one in calls if one["key"] == key)


def test_a_call_is_listed_and_shown_until_a_person_says_that_it_has_happened(falling: Daemon) -> None:
    call = unresolved(falling, "k1")

    listed = falling.ask("GET", "/calls/unresolved").body["calls"]
    assert [one["params"] for one in listed if one["call_id"] == call] == [{"text": "milk"}]
    shown = falling.ask("GET", f"/calls/unresolved/{call}").body
    assert (shown["state"], shown["key"], shown["search"]) == ("in_doubt", "k1", None)

    body = {"happened": True, "result": {"added": 1}, "reason": "it is there"}
    known = falling.ask("POST", f"/calls/unresolved/{call}/resolve", body).body
    assert (known["state"], known["result"], known["resolution"]) == ("succeeded", {"added": 1}, "human")
    assert call not in {one["call_id"] for one in falling.ask("GET", "/calls/unresolved").body["calls"]}
    resolved = falling.ask("GET", "/calls/unresolved?resolved=1&limit=1").body
    assert (resolved["calls"][0]["call_id"], resolved["next"]) == (call, call)
    again = falling.ask("POST", f"/calls/unresolved/{call}/resolve", {"happened": False})
    assert (again.status, again.body["code"]) == (409, "effect.not_in_doubt")


def test_a_result_must_be_one_that_the_callable_promises_and_null_is_one_only_where_it_is_given(
    falling: Daemon,
) -> None:
    call = unresolved(falling, "k2")
    address = f"/calls/unresolved/{call}/resolve"

    for result in ({"added": "one"}, None):
        wrong = falling.ask("POST", address, {"happened": True, "result": result})
        assert (wrong.status, wrong.body["code"]) == (400, "invalid_params")
    assert falling.ask("POST", address, {"happened": True}).body["result"] is None


def test_only_operators_see_them_and_only_people_resolve_them(falling: Daemon) -> None:
    call = unresolved(falling, "k3")
    member = {"authorization": f"Bearer {key_of(falling.paddock, 'ann', '--role', 'member')}"}
    operator = {"authorization": f"Bearer {key_of(falling.paddock, 'ann', '--role', 'operator')}"}

    for address in ("/calls/unresolved", f"/calls/unresolved/{call}"):
        assert falling.ask_tcp("GET", address, **member).body["code"] == "auth.not_for_you"
        assert falling.ask_tcp("GET", address, **operator).status == 200
    refused = falling.ask_tcp("POST", f"/calls/unresolved/{call}/resolve", {"happened": True}, **operator)
    assert (refused.status, refused.body["code"]) == (403, "auth.person_needed")
    assert falling.ask("GET", f"/calls/unresolved/{call}").body["state"] == "in_doubt"


def test_what_is_not_there_is_not_found(falling: Daemon) -> None:
    for verb, address, body in (
        ("GET", "/calls/unresolved/call_none", None),
        ("GET", "/calls/unresolved?after=call_none", None),
        ("POST", "/calls/unresolved/call_none/resolve", {"happened": True}),
    ):
        answer = falling.ask(verb, address, body)
        assert (answer.status, answer.body["code"]) == (404, "effect.not_found")
