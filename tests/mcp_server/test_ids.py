"""Ids are each client's own: however many use the same ones at once, everybody gets their own answers."""

from __future__ import annotations

import json
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.mcp_server.speaking import Client, alone, asking, calling, telling

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import write_file, write_json

SESSIONS = 32
SHUFFLER = r"""
import json, sys, threading
lock = threading.Lock()
def send(**message):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def answer(number, arguments):
    send(id=number, result={"content": [{"type": "text", "text": arguments["word"]}]})
turn = 0
for line in sys.stdin:
    heard = json.loads(line)
    if "id" not in heard:
        continue
    if heard["method"] == "initialize":
        send(id=heard["id"], result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                     "serverInfo": {"name": "shuffler", "version": "1"}})
    elif heard["method"] == "tools/list":
        send(id=heard["id"], result={"tools": [{"name": "say", "inputSchema": {"type": "object"}}]})
    elif heard["method"] == "tools/call":
        turn += 1
        # Later ones are often answered first.
        threading.Timer((turn * 7 % 5) / 100, answer, (heard["id"], heard["params"]["arguments"])).start()
    else:
        send(id=heard["id"], result={})
"""


@pytest.fixture(scope="module")
def shuffling(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    """A daemon with a caged MCP server that answers in another order than it is asked."""
    folder = tmp_path_factory.mktemp("shuffling")
    paddock = Paddock(folder / "home")
    paddock.quickly("plugin", "install", shuffler(folder / "shuffler"), "--yes")
    paddock.quickly("plugin", "enable", "shuffler")
    with daemon(paddock) as started:
        yield started


def shuffler(root: Path) -> Path:
    manifest = {
        "paddock": 1,
        "name": "shuffler",
        "version": "1.0.0",
        "description": "Answers in another order",
        "runtime": {"command": ["python3", "./main.py"], "protocol": "mcp"},
        "capabilities": [],
    }
    write_json(root / "paddock.yaml", manifest)
    write_file(root / "main.py", SHUFFLER)
    return root


def test_32_sessions_that_all_use_the_ids_1_and_text_1_get_their_own_answers(shuffling: Daemon) -> None:
    clients = [Client(shuffling) for _ in range(SESSIONS)]

    def said(client: int, number: object, turn: int) -> tuple[str, object, str]:
        word = f"{client} {number!r} {turn}"
        answer = clients[client].call("shuffler__say", number, word=word).message
        return word, number, json.dumps([answer["id"], answer["result"]["content"][0]["text"]])

    for turn in range(3):
        with ThreadPoolExecutor(2 * SESSIONS) as pool:
            asked = [pool.submit(said, one, number, turn) for one in range(SESSIONS) for number in (1, "1")]
            for word, number, told in (one.result(PATIENCE) for one in asked):
                assert told == json.dumps([number, word])


def test_requests_that_stand_alone_have_ids_of_their_own_too(shuffling: Daemon) -> None:
    def said(word: str) -> tuple[str, str]:
        answer = alone(shuffling, calling("shuffler__say", 1, word=word)).message
        assert answer["id"] == 1
        return word, answer["result"]["content"][0]["text"]

    with ThreadPoolExecutor(SESSIONS) as pool:
        for word, told in pool.map(said, [f"alone {one}" for one in range(2 * SESSIONS)]):
            assert told == word


def test_a_second_request_with_the_id_of_one_that_is_under_way_is_refused_and_the_first_goes_on(
    served: Daemon,
) -> None:
    client = Client(served)
    meta = {"progressToken": 7}
    with client.posting(calling("parrot__wait", "same", meta=meta)) as events:
        assert next(events)["data"] is None  # the stream begins
        assert next(events)["data"]["params"]["progressToken"] == 7
        second = client.call("parrot__say", "same", text="hello")
        assert (second.status, second.error["code"]) == (200, -32600)
        assert client.ask("ping", 5).result == {}

        assert client.post(telling("notifications/cancelled", requestId="same")).status == 202
        last = [event["data"] for event in events][-1]
        assert (last["id"], last["error"]["code"]) == ("same", -32800)
    assert client.ask("ping", "same").result == {}


def test_cancelling_what_is_over_or_somebody_elses_does_nothing(served: Daemon) -> None:
    mine, theirs = Client(served), Client(served)
    with mine.posting(calling("parrot__wait", 1, meta={"progressToken": "t"})) as events:
        next(events)
        assert theirs.post(telling("notifications/cancelled", requestId=1)).status == 202
        assert mine.post(telling("notifications/cancelled", requestId="1")).status == 202
        assert mine.post(telling("notifications/cancelled", requestId=99)).status == 202
        assert next(events)["data"]["method"] == "notifications/progress"
        assert mine.post(asking("ping", 2)).result == {}
        mine.post(telling("notifications/cancelled", requestId=1))
        assert [event["data"] for event in events][-1]["error"]["code"] == -32800
