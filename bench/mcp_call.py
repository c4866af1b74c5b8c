"""The same tool through us and through the official MCP client without us; and a Python function through us.

Both talk to the same server, written with the official SDK, on its standard streams. The official client runs it as
a bare child process. We run it in a cage, its definitions pinned, and every call goes the whole way: the gate's
checks against the tool's schemas, the supervisor, the call's timer, and two audit events written to the store.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import uvloop
from _calls import Measured, many_at_once, one_at_a_time
from _home import install, write_package
from _side_by_side import Report, options

from mcp import Client, StdioServerParameters
from paddock import Config, open_host

IN_FLIGHT = 32
WAYS = ("the official client", "ours", "ours, a Python function")
# Plugins step back for others when the CPU is contended; the official client's child does not.
FAIR = {"PADDOCK_LIMITS_CPU_WEIGHT": "1024"}
ARGUMENTS = {"text": "hello", "count": 3}
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["text"],
}
SERVER = f"""
import anyio, mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="echo", description="Says it again", input_schema={SCHEMA!r})])

async def call_tool(ctx, params):
    return types.CallToolResult(content=[types.TextContent(text=params.arguments["text"])])

async def main():
    server = Server("echo", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""
FUNCTION = """
def echo(text: str, count: int) -> dict:
    return {"text": text}
"""


def site_packages() -> str:
    """Where the official SDK is."""
    spec = find_spec("mcp_types")
    assert spec is not None and spec.origin is not None
    return str(Path(spec.origin).parents[1])


def packages(folder: Path) -> tuple[Path, Path]:
    """The server as a plugin of ours, and a function that does the same."""
    site = site_packages()
    server = write_package(
        folder / "server",
        "server",
        {"server.py": SERVER},
        runtime={"command": ["python3", "./server.py"], "protocol": "mcp", "env": {"PYTHONPATH": site}},
        capabilities=[f"read:fs:{site}"],
    )
    function = write_package(
        folder / "function",
        "function",
        {"echoing.py": FUNCTION},
        runtime={"python": {"echo": "echoing:echo"}},
        capabilities=[],
        tools=[{"name": "echo", "description": "Says it again", "effects": ["read_only"], "input_schema": SCHEMA}],
    )
    return server, function


async def measure(folder: Path, rounds: int, few: int, many: int) -> dict[str, list[Measured]]:
    server, function = packages(folder)
    install(folder / "home", server, function)
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")  # the one that is found in a cage
    assert python is not None
    bare = StdioServerParameters(command=python, args=[str(server / "server.py")], env={"PYTHONPATH": site_packages()})
    found: dict[str, list[Measured]] = {f"{name}, {count}": [] for count in (1, IN_FLIGHT) for name in WAYS}
    async with open_host(Config(home=folder / "home", environ=FAIR)) as host:
        for number in range(rounds):
            # Two processes of one program differ by several percent, by where their memory happens to lie: each
            # round has new ones.
            await host.plugins.lifecycle.disable("server")
            await host.plugins.lifecycle.enable("server")
            async with Client(bare) as client:
                ways: list[Callable[[], Awaitable[Any]]] = [
                    lambda client=client: client.call_tool("echo", ARGUMENTS),
                    lambda: host.call("server.echo", ARGUMENTS),
                    lambda: host.call("function.echo", ARGUMENTS),
                ]
                named = list(zip(WAYS, ways, strict=True))
                turn = number % len(named)
                for name, call in named[turn:] + named[:turn]:
                    await many_at_once(call, IN_FLIGHT, IN_FLIGHT)
                    found[f"{name}, 1"].append(await one_at_a_time(call, few))
                    found[f"{name}, {IN_FLIGHT}"].append(await many_at_once(call, many, IN_FLIGHT))
    return found


def main() -> None:
    given = options(__doc__)
    rounds, few, many = (2, 100, 500) if given.quick else (12, 500, 2_000)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        found = uvloop.run(measure(Path(folder), rounds, few, many))
    report = Report(
        "mcp_call",
        given,
        f"{few:,} calls one after another, {many:,} with {IN_FLIGHT} under way, {rounds} rounds in turn, each with "
        "new processes, on one event loop. CPU is that of the calling process alone; in ours it includes writing the "
        "audit events.",
        ["what", "p50", "calls a second", "CPU a call"],
    )
    best = {name: min(runs, key=lambda run: run.seconds) for name, runs in found.items()}
    p50 = {name: min(run.p50 for run in runs) for name, runs in found.items() if name.endswith(" 1")}
    for name, run in best.items():
        latency = f"{p50[name] * 1e6:.0f} µs" if name in p50 else ""
        report.row(name, latency, f"{run.rate:,.0f}", f"{run.cpu / run.calls * 1e6:.1f} µs")
    theirs = best[f"the official client, {IN_FLIGHT}"].rate
    report.at_most("sequential p50 against the official client", p50["ours, 1"] / p50["the official client, 1"], 1.1)
    report.at_least(f"percent of its throughput at {IN_FLIGHT}", 100 * best[f"ours, {IN_FLIGHT}"].rate / theirs, 100)
    report.at_least(
        f"percent of its throughput at {IN_FLIGHT}, in Python",
        100 * best[f"ours, a Python function, {IN_FLIGHT}"].rate / theirs,
        1_000,
    )
    report.finish()


if __name__ == "__main__":
    main()
