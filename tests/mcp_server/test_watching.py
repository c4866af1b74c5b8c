"""Documents that clients watch: the server is asked once, and whoever watches hears of each change."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_server.speaking import Client, asking, send

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import native, write_file

DIARY = r"""
import json, sys
watched, held = set(), []
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    heard = json.loads(line)
    if "id" not in heard:
        continue
    method, params, result = heard["method"], heard.get("params") or {}, {}
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "diary", "version": "1"},
                  "capabilities": {"tools": {}, "resources": {"subscribe": True}}}
    elif method == "tools/list":
        result = {"tools": [{"name": "write", "inputSchema": {"type": "object"}}]}
    elif method == "resources/list":
        names = "fickle", "late", "news", "today", "yesterday"
        result = {"resources": [{"uri": f"diary://{name}", "name": name} for name in names]
                  + [{"uri": "paddock://diary/diary://today", "name": "stolen"}]}
    elif method == "resources/subscribe" and params["uri"] == "diary://fickle" and params["uri"] in watched:
        send(id=heard["id"], error={"code": -32000, "message": "once is enough"})
        continue
    elif method == "resources/subscribe" and params["uri"] == "diary://late" and params["uri"] not in watched:
        watched.add(params["uri"])
        held.append(heard["id"])  # answered with the next call
        send(method="notifications/resources/updated", params={"uri": "diary://today"})
        continue
    elif method == "resources/subscribe":
        watched.add(params["uri"])
    elif method == "resources/unsubscribe":
        watched.discard(params["uri"])
    elif method == "tools/call":
        while held:
            send(id=held.pop(), result={})
        for uri in sorted(watched):
            send(method="notifications/resources/updated", params={"uri": uri})
        result = {"content": [{"type": "text", "text": " ".join(sorted(watched))}]}
    answer = {"jsonrpc": "2.0", "id": heard["id"], "result": result}
    if method == "resources/subscribe" and params["uri"] == "diary://news":  # and at once there are some
        update = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}
        print(json.dumps(answer) + "\n" + json.dumps(update), flush=True)
    else:
        print(json.dumps(answer), flush=True)
"""

OWN = """
@id("diaries-are-private") @text("Others have no business with a diary.")
forbid (principal, action in Action::"anyCall", resource == Callable::"diary.resource:read")
unless { principal in Role::"operator" || principal in Role::"friend" || principal in Role::"family" };
"""
LATER = """
@id("diaries-are-no-matter-of-the-family") @text("They talk.")
forbid (principal in Role::"family", action in Action::"anyCall", resource == Callable::"diary.resource:read");
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("watching")
    paddock = Paddock(folder / "home")
    paddock.quickly("plugin", "install", diary(folder / "diary"), "--yes")
    paddock.quickly("plugin", "enable", "diary")
    rule(paddock, "own", OWN)
    with daemon(paddock) as started:
        yield started


def rule(paddock: Paddock, name: str, text: str) -> None:
    policies = paddock.home / "policies"
    policies.mkdir(mode=0o700, exist_ok=True)
    file = policies / f"{name}.cedar"
    file.touch(mode=0o600)
    file.write_text(text)


def diary(root: Path) -> Path:
    server = {"command": ["python3", "./main.py"], "protocol": "mcp"}
    native(root, "diary", runtime=server, capabilities=[], tools=None)
    write_file(root / "main.py", DIARY)
    return root


def watched(client: Client) -> str:
    """What the server was asked to tell of."""
    return client.call("diary__write").result["content"][0]["text"]


def test_whoever_watches_a_document_hears_that_it_changed_and_nobody_else(served: Daemon) -> None:
    first, second, third = Client(served), Client(served), Client(served)
    assert first.greeting["capabilities"]["resources"] == {"listChanged": True, "subscribe": True}
    assert first.ask("resources/subscribe", uri="diary://today").result == {}
    assert second.ask("resources/subscribe", uri="paddock://diary/diary://today").result == {}
    assert second.ask("resources/subscribe", uri="diary://yesterday").result == {}

    with first.following() as told, second.following() as others, third.following() as nothing:
        assert watched(third) == "diary://today diary://yesterday"
        assert next(told)["data"]["params"] == {"uri": "diary://today"}
        heard = {next(others)["data"]["params"]["uri"] for _ in range(2)}
        assert heard == {"paddock://diary/diary://today", "diary://yesterday"}

        assert second.ask("resources/unsubscribe", uri="diary://today").result == {}
        assert second.ask("resources/unsubscribe", uri="diary://yesterday").result == {}
        assert watched(third) == "diary://today", "the first still watches it"
        assert next(told)["data"]["method"] == "notifications/resources/updated"
        third.served.paddock.quickly("plugin", "disable", "diary")
        for listener in (others, nothing):
            assert next(listener)["data"]["method"].endswith("/list_changed"), "and of nothing before that"
    served.paddock.quickly("plugin", "enable", "diary")


def test_an_update_that_comes_with_the_answer_is_not_missed(served: Daemon) -> None:
    client = Client(served)
    assert client.ask("resources/subscribe", uri="diary://news").result == {}
    with client.following() as told:
        assert next(updated(told))["params"] == {"uri": "diary://news"}
    assert client.ask("resources/unsubscribe", uri="diary://news").result == {}


def test_an_address_that_the_server_refused_does_not_take_the_place_of_the_one_it_accepted(served: Daemon) -> None:
    client = Client(served)
    assert client.ask("resources/subscribe", uri="diary://fickle").result == {}
    assert "once is enough" in client.ask("resources/subscribe", uri="paddock://diary/diary://fickle").error["message"]
    with client.following() as told:
        assert watched(client) == "diary://fickle"
        assert next(updated(told))["params"] == {"uri": "diary://fickle"}
    assert client.ask("resources/unsubscribe", uri="diary://fickle").result == {}


def test_a_client_that_leaves_before_the_server_has_answered_is_not_kept(served: Daemon) -> None:
    leaving, staying = Client(served), Client(served)
    assert staying.ask("resources/subscribe", uri="diary://today").result == {}
    with staying.following() as told, ThreadPoolExecutor() as threads:
        threads.submit(leaving.ask, "resources/subscribe", uri="diary://late")
        assert next(updated(told))["params"] == {"uri": "diary://today"}, "the server has heard of it"
        assert send(served, "DELETE", **leaving.headers).status == 204
        assert "diary://late" in watched(staying), "and answers now"
    # The server would not be asked to end it, as long as another client were kept.
    assert staying.ask("resources/subscribe", uri="diary://late").result == {}
    assert staying.ask("resources/unsubscribe", uri="diary://late").result == {}
    assert watched(staying) == "diary://today"
    assert staying.ask("resources/unsubscribe", uri="diary://today").result == {}


def lose_the_role(served: Daemon, told: Iterator[Any]) -> None:
    del told
    served.paddock.quickly("user", "role", "remove", "friend", "friend")


def fall_under_a_new_rule(served: Daemon, told: Iterator[Any]) -> None:
    rule(served.paddock, "later", LATER)
    next(one for one in told if one["data"]["method"] == "notifications/prompts/list_changed")


@pytest.mark.parametrize(("who", "change"), [("friend", lose_the_role), ("family", fall_under_a_new_rule)])
def test_whoever_may_not_read_a_document_any_more_does_not_hear_that_it_changed(
    served: Daemon, who: str, change: Callable[[Daemon, Iterator[Any]], None]
) -> None:
    paddock, operator = served.paddock, Client(served)
    paddock.quickly("user", "add", who, "--role", "member", "--role", who)
    key = paddock.quickly("apikey", "add", who, "--json").json["token"]
    reader = Client(served, more={"authorization": f"Bearer {key}"})
    for one in (reader, operator):  # the reader is told first
        assert one.ask("resources/subscribe", uri="diary://today").result == {}

    with reader.following() as told, operator.following() as others:
        operator.call("diary__write")
        assert next(updated(told))["params"] == next(updated(others))["params"] == {"uri": "diary://today"}
        change(served, told)
        assert "error" in reader.ask("resources/read", uri="diary://today").message
        operator.call("diary__write")
        assert next(updated(others))["params"] == {"uri": "diary://today"}
        assert send(served, "DELETE", **reader.headers).status == 204
        assert not list(updated(told))


def updated(events: Iterator[Any]) -> Iterator[Any]:
    return (one["data"] for one in events if one["data"]["method"] == "notifications/resources/updated")


def test_no_plugin_has_an_address_of_ours_for_its_own(served: Daemon) -> None:
    listed = Client(served).ask("resources/list").result["resources"]
    assert {one["uri"]: one["name"] for one in listed} == {
        "diary://fickle": "fickle",
        "diary://late": "late",
        "diary://news": "news",
        "diary://today": "today",
        "diary://yesterday": "yesterday",
        "paddock://diary/paddock://diary/diary://today": "stolen",
    }


def test_watching_and_leaving_again_and_again_is_no_matter(served: Daemon) -> None:
    """One client may watch 256 documents, and each counts once."""
    client = Client(served)
    for _ in range(300):
        assert client.ask("resources/subscribe", uri="diary://today").result == {}
    for _ in range(3):
        assert client.ask("resources/unsubscribe", uri="diary://today").result == {}
        assert client.ask("resources/subscribe", uri="diary://today").result == {}
    with client.following() as told:
        client.call("diary__write")
        assert next(updated(told))["params"] == {"uri": "diary://today"}


def test_a_document_that_there_is_not_cannot_be_watched(served: Daemon) -> None:
    client = Client(served)
    assert client.ask("resources/subscribe", uri="diary://never").error["code"] == -32002
    assert client.ask("resources/subscribe").error["code"] == -32602
    assert client.post(asking("resources/unsubscribe", uri="diary://today")).result == {}, "it was not watched"
