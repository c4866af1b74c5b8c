"""Requests at the edge of what HTTP allows: what a body says that it is, what an address may ask, and coming back."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, LocalConnection, daemon
from fixtures.packages import native, write_file
from fixtures.prepared_homes import enabled_parrot, prepare_home

TALLY = """
from paddock_sdk import Plugin

plugin = Plugin("tally", "1.0.0")
made = []

@plugin.tool
def add(params, context):
    made.append(params["what"])
    return {"made": len(made)}

@plugin.tool
def spell(params, context):
    made.append("spelled")
    return {"z": len(made), "a": [1.0, 1e300, -0.0, 2**53 + 1, None], "é\\u2028": {"\\u0000": "🦊 </script>"}}

plugin.run()
"""
WHAT = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}


def tally(root: Path) -> Path:
    """A plugin that says how often it did something."""
    tools = [
        {"name": name, "description": "Counts", "effects": ["db_write"], "input_schema": WHAT}
        for name in ("add", "spell")
    ]
    native(root, "tally", "1.0.0", runtime={"command": ["python3", "./main.py"]}, capabilities=["net:[]"], tools=tools)
    write_file(root / "main.py", TALLY)
    return root


@pytest.mark.parametrize(
    ("media", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("application/vnd.api+json", 200),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("text/plain", 415),
        ("", 415),
    ],
)
def test_a_body_that_says_it_is_something_else_is_not_read(served: Daemon, media: str, status: int) -> None:
    answer = served.ask("POST", "/plugins/parrot/call/say", {"text": "hello"}, content_type=media)

    assert answer.status == status, answer.body
    assert status == 200 or answer.body["code"] == "http.not_json"


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("tenent=acme", "tenent"),
        ("limit=1&limit=2", "limit"),
        ("limit=many", "limit"),
        ("limit=-1", "limit"),
        ("limit=1000000000000000000000", "limit"),
        ("limit=", "limit"),
        ("tenant=a%00b", "tenant"),
    ],
)
def test_an_address_that_asks_for_what_cannot_be_is_refused_and_says_where(
    served: Daemon, query: str, path: str
) -> None:
    answer = served.ask("GET", f"/calls?{query}")

    assert (answer.status, answer.body["code"]) == (400, "invalid_params")
    assert answer.body["errors"][0]["path"] == path


def test_every_mistake_of_an_address_is_told_at_once(served: Daemon) -> None:
    answer = served.ask("GET", "/ledger?limit=0&before=x&follow=maybe&colour=red", last_event_id="soon")

    assert {one["path"] for one in answer.body["errors"]} == {
        "limit",
        "before",
        "follow",
        "colour",
        "header last-event-id",
    }


def test_bytes_in_an_address_that_are_no_text_lead_nowhere(served: Daemon) -> None:
    answer = served.ask("GET", "/plugins/%ff%fe")

    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize(
    ("path", "verbs"),
    [("/calls", {"GET", "HEAD", "POST"}), ("/plugins/parrot/enable", {"POST"}), ("/status", {"GET", "HEAD"})],
)
@pytest.mark.parametrize("method", ["OPTIONS", "PATCH", "TRACE"])
def test_a_verb_that_an_address_does_not_know_is_told_all_that_it_knows(
    served: Daemon, method: str, path: str, verbs: set[str]
) -> None:
    answer = served.ask(method, path)

    assert (answer.status, answer.body["code"]) == (405, "http.method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == verbs
    assert "access-control-allow-origin" not in answer.headers


def test_a_cut_connection_is_taken_up_again_and_no_event_of_a_call_is_missed(served: Daemon) -> None:
    call = served.ask("POST", "/plugins/parrot/call/wait?detach=1", {}).body["call_id"]

    numbers: list[int] = []
    last = "0"
    for _ in range(3):
        with served.following(f"/calls/{call}/events", last_event_id=last) as events:
            numbers += [int(next(events)["id"]) for _ in range(3)]
        last = str(numbers[-1])
    served.ask("POST", f"/calls/{call}/cancel")

    assert numbers == list(range(numbers[0], numbers[0] + 9)), "each once, in order"


@pytest.fixture
def limited(tmp_path: Path) -> Generator[Daemon, None, None]:
    paddock = Paddock(tmp_path / "home", more={"PADDOCK_LIMITS_CALLS_PER_PRINCIPAL": "3"})
    prepare_home(paddock, enabled_parrot)
    with daemon(paddock) as started:
        yield started


@pytest.mark.slow
def test_whoever_calls_too_often_is_told_when_to_come_back(limited: Daemon) -> None:
    answers = [limited.ask("POST", "/plugins/parrot/call/say", {"text": "again"}) for _ in range(5)]

    assert [one.status for one in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].body["code"] == "rate_limited"
    assert 0 < int(answers[-1].headers["retry-after"]) <= 60
    assert limited.ask("GET", "/calls").status == 200, "looking is not calling"


@pytest.fixture
def tallied(tmp_path: Path) -> Generator[Daemon, None, None]:
    paddock = Paddock(tmp_path / "home")
    paddock("plugin", "install", tally(tmp_path / "tally"), "--yes")
    paddock("plugin", "enable", "tally")
    with daemon(paddock) as started:
        yield started


@pytest.mark.parametrize(
    ("method", "path", "header", "said"),
    [
        ("GET", "/ledger?follow=1", "Last-Event-ID", ("many", "5")),
        ("GET", "/calls/call_0/events", "Last-Event-ID", ("many", "5")),
        ("POST", "/plugins/parrot/call/say", "Idempotency-Key", ("a", "b")),
    ],
)
def test_a_header_that_says_two_things_is_refused(
    served: Daemon, method: str, path: str, header: str, said: tuple[str, str]
) -> None:
    connection = LocalConnection(served.socket)
    try:
        connection.putrequest(method, f"/api/v1{path}")
        for one in said:
            connection.putheader(header, one)
        connection.putheader("content-length", "12")
        connection.endheaders(b'{"text":"x"}')
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["code"]) == (400, "invalid_params")
    finally:
        connection.close()


@pytest.mark.req("K-08", "same bytes back")
def test_the_answer_under_a_key_comes_back_byte_for_byte(tallied: Daemon) -> None:
    def result() -> str:
        """The bytes of the result, as they stand in the body."""
        connection = LocalConnection(tallied.socket)
        headers = {"content-type": "application/json", "idempotency-key": "spell-1"}
        connection.request("POST", "/api/v1/plugins/tally/call/spell", b'{"what": "x"}', headers)
        body = connection.getresponse().read().decode()
        connection.close()
        start = body.index('"result":') + len('"result":')
        return body[start : json.JSONDecoder().raw_decode(body, start)[1]]

    first = result()

    assert "🦊" in first and "1e" in first
    assert [result() for _ in range(3)] == [first] * 3


@pytest.mark.req("K-08", "another payload is a conflict")
def test_what_has_an_effect_has_it_once_under_one_key(tallied: Daemon) -> None:
    def added(what: str, key: str) -> Any:
        return tallied.ask("POST", "/plugins/tally/call/add", {"what": what}, idempotency_key=key)

    first, again, other = added("a", "key-1"), added("a", "key-1"), added("b", "key-2")

    assert [one.body["result"] for one in (first, again, other)] == [{"made": 1}, {"made": 1}, {"made": 2}]
    assert "idempotency-replayed" not in first.headers
    assert (again.headers["idempotency-replayed"], again.body["replay_of"]) == ("true", first.body["call_id"])
    clash = added("c", "key-1")
    assert clash.status == 409
    assert added("a", "x" * 300).status == 400
