"""The transport of 2024-11-05: clients that know no other get to the same tools, each to its own session."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from tests.mcp_server.speaking import asking, send
from tests.runtime.stage import patiently

from fixtures.commands import PATIENCE
from fixtures.daemons import Daemon


@pytest.mark.req("B-01", "any client")
async def test_the_official_client_lists_and_calls_over_one_stream(served: Daemon) -> None:
    def locally(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=str(served.socket)), timeout=PATIENCE)

    way = sse_client("http://localhost/mcp/sse", httpx_client_factory=locally)
    async with way as (read, write), ClientSession(read, write) as client:
        await patiently(client.initialize())
        assert "parrot__say" in [tool.name for tool in (await patiently(client.list_tools())).tools]
        said = await patiently(client.call_tool("parrot__say", {"text": "hello"}))
        assert "hello" in str(said.content)

        steps: list[float] = []

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        await patiently(client.call_tool("parrot__count", {}, progress_callback=heard))
        assert steps == [1, 2, 3]


def test_messages_are_for_a_session_that_there_is(served: Daemon) -> None:
    for where in ("/mcp/messages", "/mcp/messages?session=made-up"):
        assert send(served, "POST", asking("ping"), where=where).status == 404
    assert send(served, "POST", asking("ping"), where="/mcp/sse").status == 404
    assert send(served, "GET", where="/mcp/elsewhere").status == 404
    assert send(served, "GET", where="/mcp/sse", accept="application/json").status == 406
