"""Requests that stand for themselves: what they have to say, in headers and body alike, and how they are asked."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.mcp_server.speaking import (
    FORMS,
    STATELESS,
    alone,
    asking,
    calling,
    headers_of,
    listening,
    send,
    stamped,
    telling,
)

from fixtures.daemons import Daemon


def test_a_client_finds_out_what_there_is_and_uses_it_without_a_handshake(served: Daemon) -> None:
    told = alone(served, asking("server/discover"))
    assert "mcp-session-id" not in told.headers
    assert told.result["supportedVersions"][0] == STATELESS
    assert told.result["resultType"] == "complete"
    assert told.result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "paddock"

    listed = alone(served, asking("tools/list")).result
    assert (listed["cacheScope"], listed["ttlMs"]) == ("private", 0)
    assert "parrot__say" in [tool["name"] for tool in listed["tools"]]
    said = alone(served, calling("parrot__say", "x", text="hello"))
    assert (said.message["id"], said.result["structuredContent"]["said"]) == ("x", "hello")
    assert said.result["resultType"] == "complete"
    read = alone(served, asking("resources/read", uri="memo://one")).result
    assert (read["contents"][0]["text"], read["cacheScope"]) == ("read memo://one", "private")


def test_headers_say_what_the_body_says(served: Daemon) -> None:
    message = calling("parrot__say", text="hello")
    right = headers_of(message)

    def refused(**headers: str | None) -> tuple[int, int]:
        given = {name: value for name, value in (right | headers).items() if value is not None}
        answer = send(served, "POST", stamped(message), **given)
        return answer.status, answer.error["code"]

    for name in ("mcp-method", "mcp-name"):
        assert refused(**{name: None}) == (400, -32020)
        assert refused(**{name: "something else"}) == (400, -32020)
    assert refused(**{"mcp-protocol-version": None}) == (400, -32020)
    assert refused(**{"mcp-protocol-version": "2025-11-25"}) == (400, -32020)
    assert refused(**{"mcp-name": "=?base64?%%%?="}) == (400, -32020)
    encoded = base64.b64encode(b"parrot__say").decode()
    assert send(served, "POST", stamped(message), **right | {"mcp-name": f"=?base64?{encoded}?="}).status == 200


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"io.modelcontextprotocol/clientCapabilities": None}, -32602),
        ({"io.modelcontextprotocol/clientCapabilities": "all"}, -32602),
        ({"io.modelcontextprotocol/protocolVersion": None}, -32602),
        ({"io.modelcontextprotocol/logLevel": "loud"}, -32602),
    ],
)
def test_a_request_says_what_a_handshake_would_have_settled(served: Daemon, change: dict[str, Any], code: int) -> None:
    message = stamped(asking("tools/list"))
    meta = message["params"]["_meta"] | change
    message["params"]["_meta"] = {name: value for name, value in meta.items() if value is not None}
    refused = send(served, "POST", message, **headers_of(asking("tools/list")))
    assert (refused.status, refused.error["code"]) == (400, code)


def test_a_revision_that_we_do_not_serve_is_answered_with_those_that_we_do(served: Daemon) -> None:
    message = stamped(asking("tools/list"))
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"
    refused = send(served, "POST", message, mcp_protocol_version="2099-01-01", mcp_method="tools/list")
    assert (refused.status, refused.error["code"]) == (400, -32022)
    assert refused.error["data"]["requested"] == "2099-01-01"
    assert {STATELESS, "2024-11-05"} <= set(refused.error["data"]["supported"])


def test_what_there_is_not_is_not_found(served: Daemon) -> None:
    for method in ("ping", "logging/setLevel", "tools/nothing"):
        refused = alone(served, asking(method))
        assert (refused.status, refused.error["code"]) == (404, -32601)
    assert alone(served, calling("parrot__nothing")).status == 400
    assert alone(served, asking("resources/read", uri="memo://nowhere")).error["code"] == -32602
    assert send(served, "POST", telling("notifications/anything"), mcp_protocol_version=STATELESS).status == 202


def test_a_plugin_asks_by_an_answer_that_the_client_comes_back_from(served: Daemon) -> None:
    asked = alone(served, calling("butler__paint", 1), FORMS)
    assert asked.result["resultType"] == "input_required"
    ((number, question),) = asked.result["inputRequests"].items()
    assert question["method"] == "elicitation/create"
    assert question["params"]["message"].startswith("butler: Which")

    def back(state: str, answers: dict[str, Any], **arguments: Any) -> Any:
        again = calling("butler__paint", 2, **arguments)
        again["params"] |= {"requestState": state, "inputResponses": answers}
        return alone(served, again, FORMS)

    state = asked.result["requestState"]
    other = back(state, {}, filler=1)
    assert (other.status, other.error["code"]) == (400, -32602), "it is good for the same call alone"
    unsaid = back(state, {})
    assert unsaid.result["inputRequests"].keys() == {number}, "what was not said is asked again"
    wrong = back(unsaid.result["requestState"], {number: {"action": "accept", "content": {"colour": "green"}}})
    ((second, again),) = wrong.result["inputRequests"].items()
    assert "colour" in again["params"]["message"].splitlines()[-1], "what was wrong is said"
    used = back(unsaid.result["requestState"], {})
    assert used.error["code"] == -32602, "it is good once"
    done = back(wrong.result["requestState"], {second: {"action": "accept", "content": {"colour": "red"}}})
    assert done.result["structuredContent"] == {"action": "accept", "content": {"colour": "red"}}


def test_who_cannot_be_asked_is_not(served: Daemon) -> None:
    for capabilities in ({}, {"sampling": {}}):
        assert alone(served, calling("butler__paint"), capabilities).result["structuredContent"]["action"] == "decline"
    only_forms = {"elicitation": {"form": {}}}
    assert alone(served, calling("butler__visit"), only_forms).result["structuredContent"]["action"] == "decline"
    asked = alone(served, calling("butler__visit"), FORMS).result
    page = asked["inputRequests"]["q1"]["params"]
    assert (page["mode"], page["url"]) == ("url", "https://example.com/sign-in")
    assert "elicitationId" not in page
    again = calling("butler__visit", 2)
    again["params"] |= {"requestState": asked["requestState"], "inputResponses": {"q1": {"action": "accept"}}}
    assert alone(served, again, FORMS).result["structuredContent"] == {"action": "accept"}


def test_a_client_that_listens_is_acknowledged_first_with_what_it_will_hear_of(served: Daemon) -> None:
    message = asking("subscriptions/listen", 9, notifications={"toolsListChanged": True, "sunrise": True})
    with listening(served, "POST", stamped(message), **headers_of(message)) as events:
        told = next(events)["data"]
    assert told["method"] == "notifications/subscriptions/acknowledged"
    assert told["params"]["notifications"] == {"toolsListChanged": True}
    assert told["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 9}
    assert send(served, "POST", stamped(message), accept="application/json", **headers_of(message)).status == 406
