"""The same gateway on a pair of streams: lines in, lines out, whichever revision the client speaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.host.conftest import Home
from tests.mcp_server.speaking import FORMS, asking, calling, stamped, telling
from tests.runtime.stage import patiently

from fixtures.butler import butler
from fixtures.parrot import parrot
from paddock import Config, open_host
from paddock.core.call import CallContext
from paddock.core.clock import SystemClock
from paddock.core.ids import DEFAULT_TENANT
from paddock.host.host import Host
from paddock.mcp_server.server import McpServer
from paddock.mcp_server.stdio_transport import StdioTransport, open_stdio_transport
from paddock.plugins.manage.enable import enable
from paddock.web.daemon_address import ConsoleAddress


class Typed:
    """A client at the other end: what it types, and what it reads."""

    def __init__(self, lines: StdioTransport, read: asyncio.Queue[bytes], home: Home) -> None:
        self._lines = lines
        self._read = read
        self.home = home

    def type(self, message: Any) -> None:
        self._lines.receive_line(message if isinstance(message, bytes) else json.dumps(message).encode())

    async def read(self) -> Any:
        return json.loads(await patiently(self._read.get()))

    async def ask(self, message: dict[str, Any]) -> Any:
        self.type(message)
        return await self.read()

    async def next_answer(self, message: dict[str, Any]) -> Any:
        """The id of the first answer to come, whatever it is to."""
        self.type(message)
        while "method" in (told := await self.read()):
            pass
        return told["id"]

    async def greet(self, capabilities: dict[str, Any] | None = None) -> None:
        await self.ask(asking("initialize", 0, protocolVersion="2025-11-25", capabilities=capabilities or {}))
        self.type(telling("notifications/initialized"))


@pytest.fixture
async def typed(tmp_path: Path) -> AsyncGenerator[Typed, None]:
    home = Home(tmp_path)
    for make in (parrot, butler):
        home.take(make(tmp_path / make.__name__))
        home.changing(lambda plugins, name=make.__name__: enable(plugins, name))
    read: asyncio.Queue[bytes] = asyncio.Queue()
    async with open_host(Config(home=home.path)) as host:
        await patiently(host.plugins.processes.wait_settled())
        gateway = McpServer(host, _Nobody(), SystemClock(), lambda: ConsoleAddress(None, running=False))
        async with open_stdio_transport(gateway, DEFAULT_TENANT, lambda: _ann(host), read.put_nowait) as lines:
            yield Typed(lines, read, home)
        gateway.close()


async def _ann(host: Host) -> CallContext:
    return host.operator_context("ann")


class _Nobody:
    async def context_for(self, scope: Any) -> Any:
        raise AssertionError(f"nobody comes over HTTP here: {scope}")

    reauthenticate = context_for


async def test_a_client_shakes_hands_calls_hears_of_progress_and_cancels(typed: Typed) -> None:
    early = await typed.ask(asking("tools/list"))
    assert early["error"]["code"] == -32600
    await typed.greet()
    said = await typed.ask(calling("parrot__say", "a", text="hello"))
    assert (said["id"], said["result"]["structuredContent"]["said"]) == ("a", "hello")

    typed.type(calling("parrot__wait", 1, meta={"progressToken": "t"}))
    assert (await typed.read())["params"]["progressToken"] == "t"
    typed.type(telling("notifications/cancelled", requestId=1))
    assert await typed.next_answer(asking("ping", 2)) == 2, "nothing is said of what nobody wants"


async def test_a_plugin_asks_the_client_and_hears_what_it_says(typed: Typed) -> None:
    await typed.greet(FORMS)
    typed.type(calling("butler__paint", 7))
    asked = await typed.read()
    assert asked["method"] == "elicitation/create"
    typed.type({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "no"}})
    assert (await typed.read())["result"]["structuredContent"] == {"action": "cancel"}


async def test_requests_that_stand_for_themselves_need_no_handshake(typed: Typed) -> None:
    found = await typed.ask(stamped(asking("server/discover", 1)))
    assert found["result"]["supportedVersions"][0] == "2026-07-28"
    said = await typed.ask(stamped(calling("parrot__say", 2, text="hello")))
    assert said["result"]["structuredContent"]["said"] == "hello"
    typed.type(stamped(calling("parrot__wait", 3, meta={"progressToken": 1})))
    await typed.read()
    typed.type(telling("notifications/cancelled", requestId=3))
    assert await typed.next_answer(stamped(asking("tools/list", 4))) == 4


async def test_what_is_no_message_is_answered_and_ends_nothing(typed: Typed) -> None:
    assert (await typed.ask(b"hello"))["error"]["code"] == -32700  # type: ignore[arg-type]
    assert (await typed.ask({"jsonrpc": "2.0", "id": 1}))["error"]["code"] == -32600
    typed.type({"jsonrpc": "2.0", "id": "nobody asked", "result": {}})
    await typed.greet()
    assert (await typed.ask(asking("ping", 9))) == {"jsonrpc": "2.0", "id": 9, "result": {}}
