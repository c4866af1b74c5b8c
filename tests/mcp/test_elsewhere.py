"""Servers elsewhere that answer over HTTP in ways both right and wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from tests.mcp.odd_http import FOUND, Request, odd_server, usual
from tests.mcp.playing import connected
from tests.runtime.stage import Stage, patiently

from paddock.core.errors import PluginError, Unavailable
from paddock.core.events.capabilities import PluginConnected
from paddock.core.events.contracts import OversizeMessage, PluginStopped
from paddock.core.events.plugin_runtime import PluginCrashed, PluginInitialized, PluginSpawned
from paddock.runtime.lifecycle import PluginState

IN_JSON = b'{"jsonrpc":"2.0","id":null,"error":{"code":5,"message":"no such colour"}}'


async def test_a_server_elsewhere_has_no_process_and_its_beginning_and_end_are_recorded(stage: Stage) -> None:
    async with odd_server() as odd:
        server = connected(stage, odd.url, runtime={"headers": {"Authorization": "Bearer x", "Mcp-Session-Id": "mine"}})
        status = await server.actor.settled()
        assert (status.state, status.pid, status.cage_id) == (PluginState.RUNNING, None, None)
        assert await server.said("echo", {"text": "hi"}) == "hi"
        await patiently(stage.supervisor.stop(server.actor.key))

        began = stage.audience.of(PluginConnected)
        assert [(one.name, one.host) for one in began] == [("server", f"127.0.0.1:{odd.port}")]
        assert not stage.audience.of(PluginSpawned) and stage.audience.of(PluginStopped)
        assert {request.headers["authorization"] for request in odd.requests} == {"Bearer x"}
        called, left = odd.asked("tools/call")[0], odd.asked("DELETE")[0]
        assert called.headers["mcp-session-id"] == left.headers["mcp-session-id"] == "s-1", "the server's, not ours"
        assert called.headers["mcp-protocol-version"] == "2025-06-18"
        assert "mcp-session-id" not in odd.asked("initialize")[0].headers


async def test_a_stateless_server_is_told_in_headers_what_the_body_says(stage: Stage) -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "x-mcp-header": "City"},
            "at": {"type": "object", "properties": {"floor": {"type": "integer", "x-mcp-header": "Floor"}}},
        },
    }

    def stateless(request: Request) -> None:
        match request.asks:
            case "server/discover":
                request.result(FOUND)
            case "tools/list":
                request.result({"tools": [{"name": "find", "inputSchema": schema}]})
            case _:
                request.result({"resultType": "complete", "content": [{"type": "text", "text": "found"}]})

    async with odd_server(stateless) as odd:
        server = connected(stage, odd.url)
        assert await server.said("find", {"city": "Zürich", "at": {"floor": 3}}) == "found"
        headers = odd.asked("tools/call")[0].headers
        assert headers["mcp-method"] == "tools/call" and headers["mcp-name"] == "find"
        assert headers["mcp-protocol-version"] == "2026-07-28" and "mcp-session-id" not in headers
        assert headers["mcp-param-city"] == "=?base64?WsO8cmljaA==?=" and headers["mcp-param-floor"] == "3"


@pytest.mark.parametrize(
    ("status", "location", "reason"),
    [
        ("307 Temporary Redirect", "http://127.0.0.2:{port}/mcp", "127.0.0.2"),
        ("308 Permanent Redirect", "https://127.0.0.1:{port}/mcp", "https"),
        ("302 Found", "/elsewhere", "/elsewhere"),
        ("307 Temporary Redirect", "http://user@127.0.0.1:{port}/mcp", "user@"),
        ("307 Temporary Redirect", "http://[", "http://["),
    ],
    ids=["another host", "another scheme", "another method", "a name in it", "no address at all"],
)
async def test_a_redirect_to_another_place_is_not_followed(
    stage: Stage, status: str, location: str, reason: str
) -> None:
    def away(request: Request) -> None:
        request.answer(status, Location=location.format(port=odd.port))

    async with odd_server(away) as odd:
        server = connected(stage, odd.url)
        settled = await server.actor.settled()
        assert settled.state is PluginState.FAILED and "is not followed" in settled.reason and reason in settled.reason


async def test_a_redirect_within_the_same_place_is_followed_with_its_body(stage: Stage) -> None:
    def moved(request: Request) -> None:
        if request.target == "/mcp":
            request.answer("307 Temporary Redirect", Location="/v2/mcp?x=1")
        else:
            usual(request)

    async with odd_server(moved) as odd:
        server = connected(stage, odd.url)
        assert await server.said("echo", {"text": "hi"}) == "hi"
        assert odd.asked("tools/call")[-1].target == "/v2/mcp?x=1"


async def test_a_server_that_wants_credentials_fails_with_that_and_is_not_bothered_again(stage: Stage) -> None:
    async with odd_server(lambda request: request.answer("401 Unauthorized")) as odd:
        server = connected(stage, odd.url)
        status = await server.actor.settled()
        assert (status.state, status.error_code) == (PluginState.FAILED, "remote.unauthorized")
        assert "headers" in status.hint


async def test_a_server_that_cannot_be_reached_is_tried_again_and_costs_it_nothing(stage: Stage) -> None:
    async with odd_server() as odd:
        url = odd.url
    server = connected(stage, url)
    status = await server.actor.until(PluginState.CRASHED)
    assert "cannot be reached" in status.reason and status.failures == 0
    with pytest.raises(Unavailable, match="cannot be reached"):
        await server.said("echo")


async def test_a_session_that_the_server_forgot_is_begun_anew(stage: Stage) -> None:
    forgotten: list[bool] = []

    def forgetful(request: Request) -> None:
        if request.asks == "tools/call" and not forgotten:
            forgotten.append(True)
            request.answer("404 Not Found")
        else:
            usual(request)

    async with odd_server(forgetful) as odd:
        server = connected(stage, odd.url)
        with pytest.raises(Unavailable, match="ended the session"):
            await server.said("echo")
        await stage.audience.event(PluginInitialized, 2)
        await server.actor.until(PluginState.RUNNING)
        assert await server.said("echo", {"text": "hi"}) == "hi"
        assert stage.audience.of(PluginCrashed)[0].exit_code is None
        assert len(odd.asked("server/discover")) == 1, "what it speaks is known by now"


async def test_a_server_elsewhere_that_hangs_up_on_what_it_does_not_know_is_met_by_handshake(stage: Stage) -> None:
    def curt(request: Request) -> None:
        if request.asks == "server/discover":
            request.writer.close()
        else:
            usual(request)

    async with odd_server(curt) as odd:
        server = connected(stage, odd.url)
        status = await server.actor.until(PluginState.RUNNING)
        assert status.features == ("mcp:2025-06-18",) and status.failures == 1
        assert await server.said("echo", {"text": "hi"}) == "hi"
        assert len(odd.asked("server/discover")) == 1


async def test_one_that_leaves_such_a_question_unanswered_is_met_by_handshake_in_the_same_life(stage: Stage) -> None:
    def deaf(request: Request) -> None:
        if request.asks != "server/discover":
            usual(request)

    async with odd_server(deaf) as odd:
        server = connected(stage, odd.url)
        status = await server.actor.until(PluginState.RUNNING)
        assert status.features == ("mcp:2025-06-18",) and status.failures == 0


async def test_a_server_elsewhere_that_wants_credentials_is_asked_twice_and_no_more(stage: Stage) -> None:
    async with odd_server(lambda request: request.answer("401 Unauthorized")) as odd:
        status = await connected(stage, odd.url).actor.settled()
        assert status.error_code == "remote.unauthorized"
        assert [request.asks for request in odd.requests] == ["server/discover", "initialize"]


async def test_a_stream_that_breaks_is_taken_up_where_it_broke(stage: Stage) -> None:
    waiting: list[Request] = []

    def breaking(request: Request) -> None:
        if request.asks == "tools/call":
            waiting.append(request)
            request.stream()
            request.chunk(b": hello\nid: e1\nretry: 100\nevent: message\ndata:\n\n")
            request.chunk(b'id: e2\ndata: {"jsonrpc":"2.0","method":"notifications/message",\ndata: "params":{}}\n\n')
            request.writer.close()
        elif request.headers.get("last-event-id") == "e2":
            request.stream()
            answer = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}' % waiting[0].message["id"]
            request.chunk(b"id: e3\rdata: " + answer + b"\r\r")
        else:
            usual(request)

    async with odd_server(breaking) as odd:
        server = connected(stage, odd.url)
        assert await server.call("echo") == {"content": []}
        assert len(stage.audience.of(PluginInitialized)) == 1


@pytest.mark.parametrize(
    ("raw", "failure"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello", "something else"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello", "text/html"),
        (b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", "status 202"),
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy", "status 503"),
        (
            b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (len(IN_JSON), IN_JSON),
            "no such colour",
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "status 503"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "without an answer",
        ),
    ],
    ids=["no JSON", "a page", "taken and no answer", "an error", "an error in JSON", "an interim answer", "an end"],
)
async def test_an_answer_that_is_none_fails_the_call_alone(stage: Stage, raw: bytes, failure: str) -> None:
    async with odd_server(lambda request: request.send(raw) if request.asks == "tools/call" else usual(request)) as odd:
        server = connected(stage, odd.url)
        await server.actor.settled()
        with pytest.raises(PluginError, match=failure):
            await server.said("echo")
        odd.handler = usual
        assert await server.said("echo", {"text": "hi"}) == "hi"
        assert len(stage.audience.of(PluginInitialized)) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"this is no HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx",
        b"",
    ],
    ids=["no HTTP", "half of it", "compressed", "nothing"],
)
async def test_a_connection_that_breaks_ends_this_life_and_the_next_begins(stage: Stage, raw: bytes) -> None:
    def broken(request: Request) -> None:
        if request.asks != "tools/call":
            return usual(request)
        request.send(raw)
        return request.writer.close()

    async with odd_server(broken) as odd:
        server = connected(stage, odd.url)
        await server.actor.settled()
        with pytest.raises(Unavailable):
            await server.said("echo")
        odd.handler = usual
        await stage.audience.event(PluginInitialized, 2)
        await server.actor.until(PluginState.RUNNING)
        assert await server.said("echo", {"text": "hi"}) == "hi"


FLOODS = {
    "body": b"z" * 60_000,
    "event": b"data: " + b"z" * 60_000 + b"\n",
    "endless line": b"z" * 60_000,
    "empty lines": b"data\n" * 12_000,
    "trailer": b"x-more: " + b"y" * 60_000 + b"\r\n",
}


@pytest.mark.parametrize("way", ["head", *FLOODS])
async def test_nothing_that_a_server_sends_is_kept_without_a_bound(stage: Stage, way: str) -> None:
    async def flooding(request: Request) -> None:
        if request.asks != "tools/call":
            return usual(request)
        if way == "head":
            return request.send(b"HTTP/1.1 200 OK\r\n" + b"x-more: " + b"y" * 1_000_000)
        if way == "body":
            request.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        else:
            request.stream()
        if way == "trailer":
            request.send(b"0\r\n")
        while True:
            (request.send if way == "trailer" else request.chunk)(FLOODS[way])
            await request.writer.drain()

    async with odd_server(flooding) as odd:
        server = connected(stage, odd.url)
        await server.actor.settled()
        with pytest.raises(Unavailable):
            await server.said("echo")
        assert await stage.audience.event(OversizeMessage)


DEEP = b'{"jsonrpc":"2.0","id":"q","method":"x","params":{"a":' + b"[" * 300 + b"]" * 300 + b"}}"


async def test_a_request_that_nests_too_deep_is_refused_and_the_call_around_it_goes_on(stage: Stage) -> None:
    refusals: asyncio.Queue[Any] = asyncio.Queue()

    def nesting(request: Request) -> None:
        if request.asks == "tools/call":
            request.stream()
            request.chunk(b"data: " + DEEP + b"\n\n")
            answer = {"jsonrpc": "2.0", "id": request.message["id"], "result": {"content": [{"type": "text"}]}}
            request.chunk(b"data: " + orjson.dumps(answer) + b"\n\n")
        elif "error" in request.message:
            refusals.put_nowait(request.message)
            request.answer("202 Accepted")
        else:
            usual(request)

    async with odd_server(nesting) as odd:
        server = connected(stage, odd.url)
        assert (await server.call("echo"))["content"] == [{"type": "text"}]
        refused = await patiently(refusals.get())
        assert refused["id"] == "q" and "deep" in refused["error"]["message"]


FORGED = (
    b'data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m",'
    b'"requestedSchema":{"type":"object"},"_meta":{"paddock/askedDuring":%d}}}\n\n'
)
LOGGED = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"hello"}}\n\n'


async def test_a_question_that_a_server_asks_by_itself_belongs_to_no_call_whatever_it_says(stage: Stage) -> None:
    answers: asyncio.Queue[Any] = asyncio.Queue()
    streams: list[Request] = []

    def telling(request: Request) -> None:
        if request.method == "GET":
            request.stream()
            request.chunk(LOGGED)
            streams.append(request)
        elif "method" not in request.message and request.message:
            answers.put_nowait((request.message["id"], request.message["result"]))
            request.answer("202 Accepted")
        elif request.asks == "tools/call":
            if request.message["params"]["name"] == "second":
                streams[0].chunk(FORGED % request.message["id"])
        else:
            usual(request)

    async def ask(question: Any) -> Any:
        raise AssertionError(question)

    async with odd_server(telling) as odd:
        server = connected(stage, odd.url)
        await server.actor.settled()
        await stage.audience.until(lambda: "[info] hello" in stage.audience.lines)
        calls = [asyncio.ensure_future(server.said(name, ask=ask)) for name in ("first", "second")]
        assert await patiently(answers.get()) == ("q", {"action": "cancel"})
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)


@pytest.mark.parametrize("endpoint", [b"http://127.0.0.2:9/take", b"//127.0.0.2/take", b"ftp://127.0.0.1/", b"\xff"])
async def test_on_the_former_transport_messages_go_nowhere_but_to_the_server_itself(
    stage: Stage, endpoint: bytes
) -> None:
    def sending_away(request: Request) -> None:
        request.stream()
        request.chunk(b"event: endpoint\ndata: " + endpoint + b"\n\n")

    async with odd_server(sending_away) as odd:
        server = connected(stage, odd.url, runtime={"transport": "sse"})
        status = await server.actor.until(PluginState.CRASHED)
        assert "another place" in status.reason
        assert {request.method for request in odd.requests} == {"GET"}


async def test_an_address_or_header_that_could_be_something_else_is_refused(stage: Stage) -> None:
    server = connected(stage, "http://127.0.0.1:9/mcp", runtime={"headers": {"X-Key": "a\r\nHost: b"}})
    status = await server.actor.settled()
    assert (status.state, status.error_code) == (PluginState.FAILED, "remote.address")
