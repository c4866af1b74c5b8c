"""Streams: what is told before an answer, a client that comes back for it, and one that hangs up."""

from __future__ import annotations

import json
from pathlib import Path

from tests.mcp_server.speaking import (
    EITHER,
    FORMS,
    STATELESS,
    Client,
    alone,
    asking,
    calling,
    headers_of,
    listening,
    send,
    stamped,
)

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, LocalConnection, daemon, eventually
from fixtures.packages import native, write_file


def cancelled(served: Daemon) -> int:
    """How many calls were cancelled, by the ledger."""
    entries = served.paddock.quickly("ledger", "tail", "--type", "call.ended", "--json", "--lines", "500").out
    return sum('"cancelled"' in line for line in entries.splitlines())


def at_work(served: Daemon) -> bool:
    """Whether the parrot works on a call."""
    lines = served.ask("GET", "/metrics").body.splitlines()
    return any(
        line.startswith("paddock_plugin_in_flight") and 'plugin="parrot"' in line and line.endswith(" 1")
        for line in lines
    )


def test_an_answer_is_json_unless_something_is_told_before_it(served: Daemon) -> None:
    client = Client(served)
    plain = client.call("parrot__count")
    assert not plain.streamed and plain.result["structuredContent"] == {"counted": 3}

    told = client.call("parrot__count", meta={"progressToken": "mine"})
    assert told.streamed
    *steps, last = told.messages
    assert [step["params"] for step in steps] == [
        {"progressToken": "mine", "progress": number, "total": 3, "message": "counting"} for number in (1, 2, 3)
    ]
    assert last["result"] == plain.result
    unheard = client.post(calling("parrot__count", meta={"progressToken": "mine"}), accept="application/json")
    assert unheard.messages == [unheard.message] and unheard.result == plain.result


def test_a_client_that_lost_its_stream_comes_back_for_what_it_missed(served: Daemon) -> None:
    client = Client(served, capabilities=FORMS)
    with client.posting(calling("butler__paint", 3)) as events:
        first = next(events)
        assert (first["data"], first["id"][-2:]) == (None, "-0")
        asked = next(events)
    assert asked["data"]["method"] == "elicitation/create"
    # The connection is gone, and the call is not.
    answer = {"jsonrpc": "2.0", "id": asked["data"]["id"], "result": {"action": "decline"}}
    with client.following(last_event_id=first["id"]) as again:
        assert next(again) == asked
        assert client.post(answer).status == 202
        last = next(again)["data"]
    assert (last["id"], last["result"]["structuredContent"]) == (3, {"action": "decline"})
    # What was told is kept, for a client that lost it at the very end.
    with client.following(last_event_id=asked["id"]) as once_more:
        assert next(once_more)["data"] == last
        assert list(once_more) == []


def test_an_event_that_nobody_remembers_or_of_another_session_is_refused(served: Daemon) -> None:
    mine, theirs = Client(served), Client(served)
    with mine.posting(calling("parrot__count", meta={"progressToken": 1})) as events:
        known = [event["id"] for event in events][-1]
    for event in ("99-1", "nonsense", "", "1-x"):
        assert send(served, "GET", last_event_id=event, **mine.headers).status == 400
    assert send(served, "GET", last_event_id=known, **theirs.headers).status == 400


def test_a_client_that_hangs_up_before_anything_was_told_cancels_its_call(served: Daemon) -> None:
    before = cancelled(served)
    connection = LocalConnection(served.socket)
    headers = {"content-type": "application/json", "accept": EITHER} | Client(served).headers
    connection.request("POST", "/mcp", json.dumps(calling("parrot__wait")).encode(), headers)
    eventually(lambda: at_work(served), "it never began")
    connection.close()
    eventually(lambda: cancelled(served) > before, "nobody noticed that the client was gone")


def test_without_a_session_hanging_up_cancels_also_in_the_middle_of_a_stream(served: Daemon) -> None:
    before = cancelled(served)
    message = calling("parrot__wait", meta={"progressToken": 1})
    with listening(served, "POST", stamped(message), **headers_of(message)) as events:
        told = next(events)
        assert "id" not in told and told["data"]["method"] == "notifications/progress"
    eventually(lambda: cancelled(served) > before, "nobody noticed that the client was gone")


def test_ending_a_session_cancels_what_is_under_way_in_it(served: Daemon) -> None:
    client = Client(served)
    before = cancelled(served)
    with client.posting(calling("parrot__wait", meta={"progressToken": 1})) as events:
        next(events)
        assert send(served, "DELETE", **client.headers).status == 204
        assert [event["data"] for event in events][-1]["error"]["code"] == -32800
    eventually(lambda: cancelled(served) > before, "it went on")
    assert "Exception" not in "".join(served.log)


def test_a_client_of_the_newest_revision_has_no_standing_stream(served: Daemon) -> None:
    for method in ("GET", "DELETE"):
        refused = send(served, method, mcp_protocol_version=STATELESS)
        assert (refused.status, refused.headers["allow"]) == (405, "POST")
    assert send(served, "GET", accept="application/json", **Client(served).headers).status == 406
    assert alone(served, asking("ping")).status == 404


def test_log_messages_of_a_plugin_are_told_to_who_wants_them_from_their_level_on(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    paddock.quickly("plugin", "install", chatty(tmp_path / "chatty"), "--yes")
    paddock.quickly("plugin", "enable", "chatty")
    with daemon(paddock) as served:
        for level, told in ((None, []), ("warning", ["careful"]), ("debug", ["looking", "careful"])):
            client = Client(served)
            if level is not None:
                client.ask("logging/setLevel", level=level)
            for heard in (client.call("chatty__talk"), alone(served, calling("chatty__talk"), level=level)):
                *logs, last = heard.messages
                assert [one["params"]["data"] for one in logs] == told
                assert last["result"]["content"] == [{"type": "text", "text": "done"}]


def chatty(root: Path) -> Path:
    """A server that logs while it works."""
    program = r"""
import json, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    heard = json.loads(line)
    if "id" not in heard:
        continue
    result = {}
    if heard["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "logging": {}},
                  "serverInfo": {"name": "chatty", "version": "1"}}
    elif heard["method"] == "tools/list":
        result = {"tools": [{"name": "talk", "inputSchema": {"type": "object"}}]}
    elif heard["method"] == "tools/call":
        for level, words in (("info", "looking"), ("warning", "careful")):
            send(method="notifications/message", params={"level": level, "logger": "eyes", "data": words})
        result = {"content": [{"type": "text", "text": "done"}]}
    send(id=heard["id"], result=result)
"""
    server = {"command": ["python3", "./main.py"], "protocol": "mcp"}
    native(root, "chatty", runtime=server, capabilities=[], tools=None)
    write_file(root / "main.py", program)
    return root
