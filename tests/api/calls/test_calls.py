"""Calls over HTTP: made, followed, cancelled, refused. Everything through a real daemon and a caged plugin."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fixtures.daemons import Daemon, LocalConnection, eventually
from fixtures.parrot import parrot


@pytest.mark.req("G-06", "declared")
@pytest.mark.req("G-31", "method happy path")
def test_a_declared_method_is_called_and_its_result_comes_back(served: Daemon) -> None:
    answer = served.ask("POST", "/plugins/parrot/call/say", {"text": "hello"})

    assert answer.status == 200
    assert (answer.body["status"], answer.body["result"]["said"]) == ("succeeded", "hello")
    assert served.ask("GET", f"/calls/{answer.body['call_id']}").body.items() >= answer.body.items()


@pytest.mark.req("G-06", "others are not found")
@pytest.mark.req("G-31", "method not found")
def test_a_method_that_the_plugin_does_not_declare_is_not_found(served: Daemon) -> None:
    answer = served.ask("POST", "/plugins/parrot/call/sing", {})

    assert (answer.status, answer.body["code"]) == (404, "callable.not_found")
    assert "say" in answer.body["hint"]


@pytest.mark.req("G-31", "context passing")
def test_the_plugin_is_told_which_operator_calls_and_the_body_cannot_say_otherwise(served: Daemon) -> None:
    told = served.ask("POST", "/plugins/parrot/call/say", {"text": "who?"}).body["result"]["operator"]
    forged = served.ask("POST", "/plugins/parrot/call/say", {"text": "me", "_context": {"operator_id": "somebody"}})

    import os
    import pwd

    assert told == pwd.getpwuid(os.geteuid()).pw_name
    assert (forged.status, forged.body["code"]) == (400, "invalid_params")


def test_a_call_by_full_name_is_the_same_call(served: Daemon) -> None:
    answer = served.ask("POST", "/calls", {"name": "parrot.say", "params": {"text": "hello"}})

    assert (answer.body["plugin"], answer.body["callable"]) == ("parrot", "say")
    assert answer.body["result"]["said"] == "hello"
    unknown = served.ask("POST", "/calls", {"name": "parrot.sya", "params": {}})
    assert (unknown.status, unknown.body["hint"]) == (404, "did you mean 'parrot.say'?")


def test_execute_is_for_plugins_that_are_one_callable(served: Daemon, tmp_path: Path) -> None:
    served.paddock("plugin", "install", parrot(tmp_path / "lonely", "lonely", tools=("say",)), "--yes")
    served.paddock("plugin", "enable", "lonely")

    answer = served.ask("POST", "/plugins/lonely/execute", {"params": {"text": "alone"}})
    of_many = served.ask("POST", "/plugins/parrot/execute", {"params": {}})

    served.paddock("plugin", "remove", "lonely", "--yes")
    assert (answer.body["status"], answer.body["data"]["said"]) == ("success", "alone")
    assert (of_many.status, of_many.body["code"]) == (404, "callable.not_found")


def test_a_caller_that_accepts_events_hears_of_its_call_until_the_end(served: Daemon) -> None:
    connection = LocalConnection(served.socket)
    connection.request("POST", "/api/v1/plugins/parrot/call/count", b"{}", {"accept": "text/event-stream"})
    told = connection.getresponse().read().decode()
    connection.close()

    assert told.count("event: event") == 3
    assert told.count("event: end") == 1 and '"counted":3' in told


@pytest.mark.req("K-11")
def test_parameters_with_mistakes_are_refused_with_all_of_them(served: Daemon) -> None:
    answer = served.ask("POST", "/plugins/parrot/call/say", {"text": 3, "volume": 11})

    assert (answer.status, answer.body["code"]) == (400, "invalid_params")
    assert [one["path"] for one in answer.body["errors"]] == ["text", "volume"]


@pytest.mark.req("G-31", "concurrent calls")
def test_many_calls_at_once_all_get_their_own_answers(served: Daemon) -> None:
    def said(number: int) -> str:
        return served.ask("POST", "/plugins/parrot/call/say", {"text": str(number)}).body["result"]["said"]

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(said, range(40)))

    assert answers == [str(number) for number in range(40)]


@pytest.mark.parametrize("detached", [{"prefer": "respond-async"}, {}])
def test_a_detached_call_is_answered_at_once_and_can_be_looked_at_and_cancelled(
    served: Daemon, detached: dict[str, str]
) -> None:
    query = "" if detached else "?detach=1"
    answer = served.ask("POST", f"/plugins/parrot/call/wait{query}", {}, **detached)
    where = answer.headers["location"].removeprefix("/api/v1")

    assert answer.status == 202
    assert served.ask("GET", where).body["status"] == "running"
    assert served.ask("POST", f"{where}/cancel").status == 202
    eventually(lambda: served.ask("GET", where).body["status"] == "cancelled", "the call was not cancelled")
    assert served.ask("GET", where).body["error"]["code"] == "call.cancelled"


@pytest.mark.parametrize("size", [2, 900_000])
def test_a_caller_that_hangs_up_cancels_its_call_whatever_it_sent(served: Daemon, size: int) -> None:
    connection = LocalConnection(served.socket)
    connection.request("POST", "/api/v1/plugins/parrot/call/wait", json.dumps({"": "x" * (size - 8)}).encode())
    eventually(lambda: in_flight(served) == 1, "the call never began")

    connection.close()

    eventually(lambda: in_flight(served) == 0, "the call goes on for nobody")
    assert served.ask("GET", "/healthz").status == 200


def in_flight(served: Daemon) -> int:
    return served.ask("GET", "/plugins/parrot").body["runtime"]["in_flight"]


def test_a_call_is_followed_from_any_event_on_to_its_end(served: Daemon) -> None:
    call_id = served.ask("POST", "/plugins/parrot/call/count", {}).body["call_id"]

    with served.following(f"/calls/{call_id}/events") as events:
        all_of_them = list(events)
    with served.following(f"/calls/{call_id}/events", last_event_id="2") as events:
        the_rest = list(events)

    assert [one["event"] for one in all_of_them] == ["event", "event", "event", "end"]
    assert [one.get("id") for one in all_of_them] == ["1", "2", "3", None]
    assert all_of_them[0]["data"]["progress"] == 1
    assert all_of_them[-1]["data"]["result"] == {"counted": 3}
    assert the_rest == all_of_them[2:]


def test_events_of_a_call_under_way_come_as_they_happen(served: Daemon) -> None:
    call_id = served.ask("POST", "/plugins/parrot/call/wait?detach=1", {}).body["call_id"]

    with served.following(f"/calls/{call_id}/events") as events:
        first = next(events)
        served.ask("POST", f"/calls/{call_id}/cancel")
        last = list(events)[-1]

    assert first["data"]["message"] == "waiting"
    assert (last["event"], last["data"]["status"]) == ("end", "cancelled")


@pytest.mark.parametrize("number", ["x", "-1", "9" * 30])
def test_a_last_event_id_that_nobody_gave_out_is_refused(served: Daemon, number: str) -> None:
    call_id = served.ask("POST", "/plugins/parrot/call/count", {}).body["call_id"]

    assert served.ask("GET", f"/calls/{call_id}/events", last_event_id=number).status == 400


@pytest.mark.parametrize("what", ["", "/events", "/cancel"])
def test_an_unknown_call_is_not_found(served: Daemon, what: str) -> None:
    answer = served.ask("POST" if what == "/cancel" else "GET", f"/calls/call_nobody{what}")

    assert (answer.status, answer.body["code"]) == (404, "call.not_found")


def test_a_plugin_that_dies_during_a_call_fails_that_call_and_is_started_again(served: Daemon) -> None:
    answer = served.ask("POST", "/plugins/parrot/call/die", {})

    assert answer.status == 502
    assert answer.body["instance"].startswith("/api/v1/calls/call_")
    eventually(
        lambda: served.ask("POST", "/plugins/parrot/call/say", {"text": "back"}).status == 200, "it did not come back"
    )


def test_the_daemon_answers_quickly_while_a_plugin_burns(served: Daemon) -> None:
    call_id = served.ask("POST", "/plugins/parrot/call/burn?detach=1", {"seconds": 2}).body["call_id"]
    taken: list[float] = []

    while served.ask("GET", f"/calls/{call_id}").body["status"] == "running" and len(taken) < 100:
        before = time.monotonic()
        assert served.ask("GET", "/plugins").status == 200
        taken.append(time.monotonic() - before)

    assert taken, served.ask("GET", f"/calls/{call_id}").body
    assert sorted(taken)[len(taken) // 2] < 0.25
    served.ask("POST", f"/calls/{call_id}/cancel")
