"""One tool through gateways: ours, FastMCP's proxy and ContextForge, in front of the same MCP server on its pipes.

Ours has the server in a cage, proves who calls by an API key, checks schemas, asks the rules and writes the ledger;
the others have the server as a bare child process. The server is as lean as one can be. Beside them stand the official
SDK's own HTTP server with a function in its process, and a bare Starlette route that answers by itself: what HTTP
costs. Each is called by the official client, and by one that does nothing beside the wire, since the official one takes
about a millisecond.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import uvloop
from _calls import Call, on_each_way
from _mcp_servers import Served, bare_starlette, context_forge, fastmcp_proxy, official_sdk, ours
from _peers import version_of
from _side_by_side import Report, options
from _thin_client import ThinClient
from mcp.client.streamable_http import streamable_http_client
from mcp_call import ARGUMENTS

from mcp import Client

IN_FLIGHT = 32
BARE, SDK, OURS, FASTMCP, FORGE = "bare Starlette", "official SDK", "ours", "FastMCP proxy", "ContextForge"
SERVERS = {BARE: bare_starlette, SDK: official_sdk, OURS: ours, FASTMCP: fastmcp_proxy, FORGE: context_forge}
SLOW = {FASTMCP: 5, FORGE: 20}  # how much fewer calls are made of them


@dataclass(slots=True)
class Found:
    """What was measured of one server with one client."""

    alone: list[float] = field(default_factory=list[float])  # p50 of each round, in seconds
    late: list[float] = field(default_factory=list[float])  # p99 with many under way
    rate: list[float] = field(default_factory=list[float])


@asynccontextmanager
async def thin(one: Served, count: int) -> AsyncGenerator[list[Call], None]:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ThinClient(one.url, one.headers)) for _ in range(count)]
        for client in clients:
            await client.greet()
        asked = {"name": one.tool, "arguments": ARGUMENTS}
        yield [lambda client=client: client.request("tools/call", asked) for client in clients]


@asynccontextmanager
async def bare(one: Served, count: int) -> AsyncGenerator[list[Call], None]:
    """The same for a route that knows no handshake."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ThinClient(one.url, one.headers)) for _ in range(count)]
        asked = {"name": one.tool, "arguments": ARGUMENTS}
        yield [lambda client=client: client.request("tools/call", asked) for client in clients]


@asynccontextmanager
async def official(one: Served, count: int) -> AsyncGenerator[list[Call], None]:
    limits = httpx2.Limits(max_connections=count, max_keepalive_connections=count)
    async with (
        httpx2.AsyncClient(headers=dict(one.headers), limits=limits, timeout=60) as http,
        Client(streamable_http_client(one.url, http_client=http), mode="legacy") as client,  # which all of them speak
    ):
        yield [lambda: client.call_tool(one.tool, ARGUMENTS)] * count


async def measure(servers: dict[str, Served], rounds: int, few: int, many: int) -> dict[tuple[str, str], Found]:
    found: dict[tuple[str, str], Found] = {}
    for number in range(-1, rounds):
        for name, one in servers.items():
            part = SLOW.get(name, 1)
            for way, client in (("thin", bare if name == BARE else thin), ("official", official)):
                if name == BARE and way == "official":
                    continue
                less = part * (1 if way == "thin" else 4)
                async with client(one, IN_FLIGHT) as calls:
                    alone, _ = await on_each_way(calls[:1], max(10, few // less))
                    taken, rate = await on_each_way(calls, max(2 * IN_FLIGHT, many // less))
                if number >= 0:
                    of = found.setdefault((name, way), Found())
                    of.alone.append(statistics.median(alone))
                    of.late.append(statistics.quantiles(taken, n=100)[98])
                    of.rate.append(rate)
    return found


def main() -> None:
    given = options(__doc__)
    rounds, few, many = (1, 200, 1_000) if given.quick else (5, 1_000, 5_000)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder, ExitStack() as stack:
        begun: dict[str, Served] = {}
        for name in (OURS, BARE, SDK, FASTMCP, FORGE):  # ours first: it writes the server that others use too
            begun[name] = stack.enter_context(SERVERS[name](Path(folder)))
        servers = {name: begun[name] for name in SERVERS}
        found = uvloop.run(measure(servers, rounds, few, many))
        memory = {name: one.memory() for name, one in servers.items()}
    report = Report(
        "mcp_gateway",
        given,
        f"{few:,} calls one after another, {many:,} with {IN_FLIGHT} under way, {rounds} rounds in turn; fewer of the "
        f"official client and of slow servers. FastMCP {version_of('fastmcp')}, ContextForge "
        f"{version_of('mcp-contextforge-gateway')}. Memory (PSS) is that of the process which speaks HTTP, at the end.",
        ["server", "client", "p50 alone", f"p99 at {IN_FLIGHT}", f"calls/s at {IN_FLIGHT}", "memory", "start"],
    )
    for (name, way), of in found.items():
        one = servers[name]
        report.row(
            name,
            way,
            f"{min(of.alone) * 1e3:.2f} ms",
            f"{min(of.late) * 1e3:.1f} ms",
            f"{max(of.rate):,.0f}",
            f"{memory[name]:.0f} MB",
            f"{one.started_in:.1f} s",
        )
    rate = {name: max(found[name, "thin"].rate) for name in SERVERS}
    report.at_least("times FastMCP's proxy", rate[OURS] / rate[FASTMCP], 6)
    report.at_least("times ContextForge", rate[OURS] / rate[FORGE], 30)
    report.at_least("percent of the official SDK's own server", 100 * rate[OURS] / rate[SDK], 100)
    added = min(found[OURS, "thin"].alone) - min(found[BARE, "thin"].alone)
    report.at_most("p50 that we add to a bare route", added * 1e3, 1, unit=" ms")
    report.finish()


if __name__ == "__main__":
    main()
