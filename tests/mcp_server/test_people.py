"""Calls that wait for a person: who may say yes through a client, and how the others come back."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.mcp_server.speaking import FORMS, Client, alone, calling

from fixtures.butler import butler
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon, eventually
from fixtures.mail import mail
from fixtures.page_clients import signed_in

PENDING = "dev.paddock/approval"
ONCE = {"lasts": "once"}
MEMOS = """
@id("memos-are-confirmed") @text("Memos are private; confirm once that this is intended.")
@approval("confirmation") @remember("tool")
forbid (principal, action == Action::"callUnattended", resource == Callable::"butler.resource:read");
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("people")
    paddock = Paddock(folder / "home")
    paddock.quickly("plugin", "install", mail(folder / "mail"), "--yes")
    paddock.quickly("plugin", "enable", "mail", "--no-start")
    paddock.quickly("plugin", "install", butler(folder / "butler"), "--yes")
    paddock.quickly("plugin", "enable", "butler")
    paddock.quickly("user", "add", "ann")
    rules = paddock.home / "policies" / "memos.cedar"
    rules.parent.mkdir(mode=0o700, exist_ok=True)
    rules.write_text(MEMOS)
    rules.chmod(0o600)
    with daemon(paddock) as started:
        yield started


def key_of(served: Daemon, who: str) -> dict[str, str]:
    token = served.paddock.quickly("apikey", "add", who, "--json").json["token"]
    return {"authorization": f"Bearer {token}"}


def approved(served: Daemon, pending: dict[str, Any]) -> None:
    assert served.ask("POST", f"/approvals/{pending['approval']}/approve", {}).status == 200


@pytest.mark.req("B-01", "the same approvals")
@pytest.mark.parametrize(("action", "made"), [("accept", True), ("decline", False)])
def test_the_person_whose_call_it_is_confirms_it_through_their_client(served: Daemon, action: str, made: bool) -> None:
    client = Client(served, capabilities=FORMS)
    with client.posting(calling("mail__odd", 1, turn=action)) as events:
        asked = [next(events), next(events)][-1]["data"]
        assert asked["method"] == "elicitation/create"
        assert "Paddock asks: mail odd waits for a person" in asked["params"]["message"]
        assert ".." not in asked["params"]["message"]
        assert asked["params"]["requestedSchema"]["properties"]["lasts"]["enum"] == ["always", "once"]
        client.post({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": action, "content": ONCE}})
        result = next(events)["data"]["result"]

    assert result.get("isError", False) is not made
    if made:
        assert result["structuredContent"] == {"odd": True}
    told = served.paddock.quickly("ledger", "tail", "--type", "approval.answered", "--json").json["entries"][-1]
    assert told["personal"]["answered_by"].startswith("local:")
    assert told["facts"]["approved"] is made


def test_two_questions_over_one_connection_are_told_apart_and_each_call_gets_its_own_answer(served: Daemon) -> None:
    client = Client(served, capabilities=FORMS)
    with (
        client.posting(calling("mail__odd", 1, turn="one")) as first,
        client.posting(calling("mail__odd", 2, turn="two")) as second,
    ):
        asked = [[next(events), next(events)][-1]["data"]["id"] for events in (first, second)]
        assert len(set(asked)) == 2
        for number, action in zip(reversed(asked), ("decline", "accept"), strict=True):
            client.post({"jsonrpc": "2.0", "id": number, "result": {"action": action, "content": ONCE}})
        answers = [next(events)["data"] for events in (first, second)]

    assert [(one["id"], one["result"].get("isError", False)) for one in answers] == [(1, False), (2, True)]


def test_without_a_session_it_is_confirmed_by_coming_back(served: Daemon) -> None:
    asked = alone(served, calling("mail__odd", turn="alone"), FORMS).result
    ((number, _),) = asked["inputRequests"].items()
    again = calling("mail__odd", 2, turn="alone")
    again["params"] |= {
        "requestState": asked["requestState"],
        "inputResponses": {number: {"action": "accept", "content": ONCE}},
    }
    assert alone(served, again, FORMS).result["structuredContent"] == {"odd": True}


@pytest.mark.parametrize("content", [{}, {"lasts": "always"}])
def test_what_is_confirmed_through_a_client_is_not_asked_again_and_nor_is_what_waits_already(
    served: Daemon, content: dict[str, str]
) -> None:
    waits = Client(served).call("mail__odd", turn=f"earlier {content}").result["_meta"][PENDING]
    client = Client(served, capabilities=FORMS)
    with (
        client.posting(calling("mail__odd", 1, turn="one")) as first,
        client.posting(calling("mail__odd", 2, turn="two")) as second,
    ):
        asked = [[next(events), next(events)][-1]["data"]["id"] for events in (first, second)]
        client.post({"jsonrpc": "2.0", "id": asked[0], "result": {"action": "accept", "content": content}})
        result, withdrawn, other = next(first)["data"]["result"], next(second)["data"], next(second)["data"]["result"]

    (standing,) = served.ask("GET", "/approvals/standing").body["standing"]
    assert result["structuredContent"] == other["structuredContent"] == {"odd": True}
    assert [one["_meta"][PENDING] | {"approval": ""} for one in (result, other)] == [
        {"approval": "", "scope": "always", "standing": standing["id"]}
    ] * 2
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", asked[1])
    eventually(lambda: served.ask("GET", f"/approvals/{waits['approval']}").body["state"] == "consumed", "it waits on")
    again = client.call("mail__odd", 3, turn="three")
    assert not again.streamed and again.result["structuredContent"] == {"odd": True}
    assert served.ask("POST", f"/approvals/standing/{standing['id']}/revoke", {}).status == 200


@pytest.mark.req("B-01", "the same approvals")
def test_what_somebody_has_to_allow_is_never_asked_through_a_client(served: Daemon) -> None:
    """The client could say yes by itself."""
    client = Client(served, capabilities=FORMS)
    told = client.call("mail__send", to="bob")
    assert not told.streamed, "nothing was asked"
    pending = told.result["_meta"][PENDING]
    assert (told.result["isError"], pending["kind"]) == (True, "action")
    words = told.result["content"][0]["text"]
    assert "Nothing has happened yet" in words and pending["call_id"] in words
    assert pending["link"] == "http://{}:{}/approvals/{}".format(*served.tcp, pending["approval"])
    assert f"Where: {pending['link']}\n" in words
    assert "Who can answer: a person with the role approver or a person with the role operator. An API key" in words
    assert "creates it with `paddock login --user NAME`" in words

    # Answers that nobody asked for change nothing.
    for number in ("paddock-1", pending["approval"], 1):
        client.post({"jsonrpc": "2.0", "id": number, "result": {"action": "accept", "content": {}}})
    assert served.ask("GET", f"/approvals/{pending['approval']}").body["state"] == "pending"


@pytest.mark.req("B-01", "the same approvals")
def test_the_same_call_again_waits_on_and_then_gives_the_result_once(served: Daemon) -> None:
    client = Client(served)
    first = client.call("mail__send", to="carol").result["_meta"][PENDING]
    again = client.call("mail__send", 2, to="carol").result["_meta"][PENDING]
    assert again["call_id"] == first["call_id"], "nobody is asked twice"
    other = client.call("mail__send", to="dora").result["_meta"][PENDING]
    assert other["call_id"] != first["call_id"]

    approved(served, first)
    assert client.call("mail__send", 3, to="carol").result["structuredContent"] == {"sent": "carol"}
    assert client.call("mail__send", 4, to="carol").result["_meta"][PENDING]["call_id"] != first["call_id"]


def test_a_program_comes_back_with_the_token_or_with_its_key(served: Daemon) -> None:
    client = Client(served)
    pending = client.call("mail__send", to="erin").result["_meta"][PENDING]
    approved(served, pending)
    mine = {"dev.paddock/approval-token": pending["token"]}
    assert Client(served).call("mail__send", meta=mine, to="erin").result["structuredContent"] == {"sent": "erin"}

    key = {"dev.paddock/idempotency-key": "mail-to-fay"}
    held = client.call("mail__send", meta=key, to="fay").result["_meta"][PENDING]
    approved(served, held)
    for _ in range(2):
        done = alone(served, calling("mail__send", meta=key, to="fay")).result
        assert done["structuredContent"] == {"sent": "fay"}
    clash = client.call("mail__send", meta=key, to="gus").result
    assert clash["isError"] and clash["_meta"]["dev.paddock/error"]["category"] == "conflict"


def test_a_key_is_no_person_and_whose_it_is_answers_where_it_is_told(served: Daemon) -> None:
    key = key_of(served, "ann")
    client = Client(served, capabilities=FORMS, more=key)
    told = client.call("mail__odd")
    assert not told.streamed
    pending = told.result["_meta"][PENDING]
    assert (pending["kind"], pending["answerable_by"]) == ("confirmation", ["user:ann"])
    words = told.result["content"][0]["text"]
    assert "Who can answer: user:ann. An API key cannot" in words
    assert "creates it with `paddock login --user ann`" in words

    answer = f"/approvals/{pending['approval']}/approve"
    refused = served.ask_tcp("POST", answer, {}, Authorization=key["authorization"])
    assert (refused.status, refused.body["code"]) == (403, "approval.not_yours")
    assert "user:ann answers it, signed in" in refused.body["hint"]
    ann, path = signed_in(served, "ann"), urlsplit(pending["link"]).path
    assert 'value="always" checked' in ann.get(path).text
    page = ann.followed(path, answer="yes", scope="always").text
    assert "not asked again until the plugin is upgraded" in page
    assert client.call("mail__odd", 2).result["structuredContent"] == {"odd": True}
    assert client.call("mail__odd", 3, turn="two").result["structuredContent"] == {"odd": True}
    (standing,) = served.ask("GET", "/approvals/standing").body["standing"]
    assert "mail · odd" in ann.get("/approvals/standing").text
    assert ann.send(f"/approvals/standing/{standing['id']}/revoke").status == 303
    assert client.call("mail__odd", 4, turn="three").result["isError"]


def test_a_document_that_waits_says_where_it_is_answered_and_is_read_by_asking_again(served: Daemon) -> None:
    client = Client(served)
    told = client.ask("resources/read", uri="memo://one").error
    pending = told["data"]["details"]
    assert told["data"]["link"] == "http://{}:{}/approvals/{}".format(*served.tcp, pending["approval"])
    assert f"Where: {told['data']['link']}\n" in told["message"]
    again = client.ask("resources/read", 2, uri="memo://one").error["data"]["details"]
    assert again["approval"] == pending["approval"], "nobody is asked twice"

    assert served.ask("POST", f"/approvals/{pending['approval']}/approve", {"scope": "once"}).status == 200
    assert client.ask("resources/read", 3, uri="memo://one").result["contents"][0]["text"] == "read memo://one"
    assert client.ask("resources/read", 4, uri="memo://one").error["data"]["details"] != pending


def test_what_waits_is_its_callers_alone(served: Daemon) -> None:
    ann = key_of(served, "ann")
    held = Client(served).call("mail__send", to="hal").result["_meta"][PENDING]
    theirs = Client(served, more=ann).call("mail__send", to="hal").result["_meta"][PENDING]
    assert theirs["call_id"] != held["call_id"]
    stolen = Client(served, more=ann).call("mail__send", meta={"dev.paddock/approval-token": held["token"]}, to="hal")
    assert stolen.result["isError"] and stolen.result["_meta"]["dev.paddock/error"]["category"] == "policy"


def test_a_yes_that_comes_before_the_question_confirms_nothing(served: Daemon) -> None:
    eager = calling("mail__odd", turn="eager")
    eager["params"]["inputResponses"] = {key: {"action": "accept"} for key in ("q1", "q2", "", "confirm", "paddock-1")}
    asked = alone(served, eager, FORMS).result
    assert asked["resultType"] == "input_required"
    pending = served.ask("GET", "/approvals").body["approvals"]
    assert "odd" in [one["preview"]["callable"] for one in pending]


def test_who_may_not_make_the_call_any_more_does_not_get_what_came_of_it(served: Daemon) -> None:
    served.paddock.quickly("user", "add", "eve", "--role", "member")
    eve = Client(served, more={"paddock-as": "user:eve"})
    pending = eve.call("mail__send", to="ivy").result["_meta"][PENDING]
    approved(served, pending)
    served.paddock.quickly("user", "role", "remove", "eve", "member")
    for meta in (None, {"dev.paddock/approval-token": pending["token"]}):
        told = eve.call("mail__send", meta=meta, to="ivy").result
        assert told["isError"] and told["_meta"]["dev.paddock/error"]["code"] == "policy_denied"
