"""Clients that begin with a handshake: each revision gets what it knows, and sessions are their owners' alone."""

from __future__ import annotations

from typing import Any

import pytest
from tests.mcp_server.speaking import HANDSHAKE, STATELESS, Client, asking, calling, send, telling

from fixtures.daemons import Daemon


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_each_revision_shakes_hands_lists_and_calls(served: Daemon, revision: str) -> None:
    client = Client(served, revision)
    assert client.greeting["protocolVersion"] == revision
    assert client.greeting["serverInfo"]["name"] == "paddock"
    assert client.greeting["capabilities"]["tools"] == {"listChanged": True}

    tools = {tool["name"]: tool for tool in client.ask("tools/list").result["tools"]}
    assert {"parrot__say", "butler__paint"} <= set(tools)
    said = client.call("parrot__say", text="hello").result
    assert '"said":"hello"' in said["content"][0]["text"]
    assert ("structuredContent" in said) is (revision >= "2025-06-18")
    assert ("annotations" in tools["parrot__say"]) is (revision >= "2025-03-26")
    assert client.ask("ping").result == {}
    assert client.ask("logging/setLevel", level="warning").result == {}
    assert client.ask("server/discover").error["code"] == -32601


def test_a_revision_that_nobody_knows_is_answered_with_the_newest_that_has_handshakes(served: Daemon) -> None:
    for wanted in ("2099-01-01", STATELESS, "1"):
        told = send(served, "POST", asking("initialize", protocolVersion=wanted, capabilities={})).result
        assert told["protocolVersion"] == "2025-11-25"


def test_a_handshake_that_makes_no_sense_opens_no_session(served: Daemon) -> None:
    refused = send(served, "POST", asking("initialize", capabilities={}))
    assert (refused.status, refused.error["code"]) == (400, -32602)
    assert "mcp-session-id" not in refused.headers


def test_a_session_that_ended_or_never_was_is_not_found_and_one_that_is_missing_is_asked_for(served: Daemon) -> None:
    client = Client(served)
    assert send(served, "POST", asking("tools/list")).status == 400
    assert send(served, "POST", asking("tools/list"), mcp_session_id="made-up").status == 404
    assert send(served, "DELETE", **client.headers).status == 204
    assert client.ask("tools/list").status == 404
    assert send(served, "DELETE", **client.headers).status == 404


def test_the_header_names_a_revision_that_has_sessions(served: Daemon) -> None:
    client = Client(served)
    refused = send(
        served, "POST", asking("tools/list"), mcp_session_id=client.session, mcp_protocol_version="1999-01-01"
    )
    assert (refused.status, refused.error["code"]) == (400, -32022)
    assert STATELESS in refused.error["data"]["supported"]
    # A client of a revision that did not know the header leaves it out.
    assert send(served, "POST", asking("tools/list"), mcp_session_id=client.session).status == 200


def test_batches_are_taken_in_the_one_revision_that_has_them(served: Daemon) -> None:
    client = Client(served, "2025-03-26")
    batch = [
        calling("parrot__say", 1, text="one"),
        telling("notifications/initialized"),
        calling("parrot__say", "1", text="two"),
    ]
    answers = {repr(one["id"]): one["result"] for one in client.post(batch).message}
    assert "one" in answers["1"]["content"][0]["text"]
    assert "two" in answers["'1'"]["content"][0]["text"]
    assert client.post([telling("notifications/initialized")]).status == 202
    for wrong in ([], [1], [asking("initialize", protocolVersion="2025-03-26")], [asking("ping")] * 101):
        assert client.post(wrong).status == 400
    deep = b'[{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":%b%b}}]' % (b"[" * 400, b"]" * 400)
    assert client.post(deep).status == 400
    for revision in ("2024-11-05", "2025-06-18", "2025-11-25"):
        assert Client(served, revision).post(batch).status == 400


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"not json", -32700),
        (b"17", -32700),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}, -32602),
    ],
)
def test_what_is_no_message_is_refused(served: Daemon, body: Any, code: int) -> None:
    refused = Client(served).post(body)
    assert (refused.status, refused.error["code"]) == (400, code)


def test_a_method_or_tool_that_there_is_not_is_an_error_of_the_protocol(served: Daemon) -> None:
    client = Client(served)
    assert client.ask("tools/unknown").error["code"] == -32601
    assert client.call("parrot__nothing").error["code"] == -32602
    assert client.ask("tools/call", name="parrot__say", arguments="text").error["code"] == -32602
    assert client.ask("tools/list", cursor="never given out").error["code"] == -32602
    assert client.ask("logging/setLevel", level="loud").error["code"] == -32602


def test_bodies_are_json_and_bounded_and_answers_are_what_the_client_takes(served: Daemon) -> None:
    client = Client(served)
    assert client.post(asking("ping"), content_type="text/plain").status == 415
    assert client.post(b" " * (4 * 1024 * 1024 + 1)).status == 413
    assert client.post(b"[" * 200_000).status == 413
    assert client.post(asking("ping"), accept="image/png").status == 406
    assert client.post(asking("ping"), accept="application/json").result == {}
    streamed = client.post(asking("ping"), accept="text/event-stream")
    assert streamed.streamed and streamed.result == {}
    assert send(served, "PUT", asking("ping")).status == 405


def test_a_tool_that_fails_says_why_to_models_and_to_programs(served: Daemon) -> None:
    failed = Client(served).call("parrot__say", tex="hello").result
    assert failed["isError"] is True
    assert "did you mean 'text'?" in failed["content"][0]["text"]
    assert failed["_meta"]["dev.paddock/error"]["code"] == "invalid_params"
    assert "structuredContent" not in failed
