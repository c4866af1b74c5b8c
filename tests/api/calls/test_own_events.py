"""Everybody follows the events of their own calls, and of nobody else's."""

from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection

from tests.api.identity.test_sessions import signed_in

from fixtures.commands import PATIENCE
from fixtures.people import Peopled, key_of


def test_somebody_hears_of_their_own_calls_and_those_of_their_keys_alone_and_of_no_person(peopled: Peopled) -> None:
    peopled.daemon.paddock.quickly("user", "add", "fay")
    one, other = (key_of(peopled.daemon.paddock, "fay") for _ in range(2))

    def call(key: str) -> str:
        path = "/plugins/parrot/call/say"
        return peopled.daemon.ask("POST", path, {"text": "x"}, authorization=f"Bearer {key}").body["call_id"]

    with peopled.daemon.following("/me/events?type=call.ended", authorization=f"Bearer {one}") as events:
        peopled.ask("ann", "POST", "/plugins/parrot/call/say", {"text": "not hers"})
        call(other)
        made = [call(one), call(one)]
        first, second = next(events), next(events)

    assert [told["data"]["subject"] for told in (first, second)] == made, "a key has nothing of its owner's other keys"
    assert "fay" not in str(first) and "key:" not in str(first)
    with peopled.daemon.following(
        "/me/events?type=call.ended", authorization=f"Bearer {one}", last_event_id=first["id"]
    ) as events:
        assert next(events)["data"]["subject"] == made[1]


def test_a_person_hears_of_what_their_keys_call(peopled: Peopled) -> None:
    cookie = signed_in(peopled, "--user", "ann")
    with closing(HTTPConnection(*peopled.daemon.tcp, timeout=PATIENCE)) as connection:
        connection.request("GET", "/api/v1/me/events?type=call.ended", headers={"cookie": cookie})
        response = connection.getresponse()
        assert response.readline() == b": open\n"
        peopled.ask("bob", "POST", "/plugins/parrot/call/say", {"text": "not hers"})
        made = peopled.ask("ann", "POST", "/plugins/parrot/call/say", {"text": "x"}).body["call_id"]
        told = next(line for line in iter(response.readline, b"") if line.startswith(b"data: "))

    assert json.loads(told.removeprefix(b"data: "))["subject"] == made
