"""`POST /plugins/NAME/execute` over TCP against a bare Starlette route that calls the same plugin through the runtime.

Ours proves an API key, checks Host and limits, and goes through the door, with one entry in the ledger; the bare route
does nothing of it. Each has a process of its own with the plugin in a cage, and both are called by the same client,
which does nothing beside the wire. Then the same calls while 500 clients follow events.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import uvloop
from _calls import THIS_THREAD, on_each_way, on_two_cores
from _home import install, write_package
from _mcp_servers import Served, daemon, script_at
from _side_by_side import Report, options
from _thin_client import ThinClient
from governed_call import METHOD, PARAMS, PLUGIN

IN_FLIGHT = 32
FOLLOWERS = 500
BARE, OURS, FOLLOWED = "bare route", "ours", f"ours, {FOLLOWERS} followers"


@asynccontextmanager
async def clients(one: Served, count: int) -> AsyncGenerator[list[ThinClient], None]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(ThinClient(one.url, one.headers)) for _ in range(count)]


@asynccontextmanager
async def followers(one: Served, count: int, *paths: str) -> AsyncGenerator[None, None]:
    """So many clients that follow events, or in turn these paths, each on a connection of its own."""
    address = one.url.split("/")[2]
    host, port = address.split(":")
    lines = [f"host: {address}", "accept: text/event-stream"]
    head = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in one.headers.items()), "", ""])
    followed = paths or ("/api/v1/events",)

    async def follow(path: str, opened: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET {path} HTTP/1.1\r\n{head}".encode())
        status = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in status.split(b"\r\n")[0] + b" ", status
        opened.set()
        try:
            while await reader.read(1 << 16):
                pass
        finally:
            writer.close()

    async with asyncio.TaskGroup() as tasks:
        following: list[asyncio.Task[None]] = []
        for number in range(count):
            opened = asyncio.Event()
            following.append(tasks.create_task(follow(followed[number % len(followed)], opened)))
            await opened.wait()
        yield
        for task in following:
            task.cancel()


class Run(NamedTuple):
    """One round with one server."""

    p50: float
    p99: float  # with many under way
    rate: float
    memory: float


async def measure(servers: dict[str, Served], rounds: int, few: int, many: int) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {BARE: [], OURS: [], FOLLOWED: []}
    for number in range(-1, rounds):
        for name in (BARE, OURS):
            run = await called(servers[name], few, many)
            if number >= 0:
                found[name].append(run)
    async with followers(servers[OURS], FOLLOWERS):  # last: what they take is held against what was taken before
        for _ in range(rounds):
            found[FOLLOWED].append(await called(servers[OURS], few, many))
    return found


def programs_of(plugin: str, server: int) -> list[int]:
    """The processes of a plugin that a server runs."""
    parents: dict[int, int] = {}
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            parents[int(place.name)] = int(place.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            if f"/plugins/{plugin}/" in place.joinpath("cmdline").read_text():
                found.append(int(place.name))

    def within(pid: int) -> bool:
        return pid == server or (pid in parents and within(parents[pid]))

    return [pid for pid in found if within(pid)]


async def called(one: Served, few: int, many: int) -> Run:
    async with clients(one, IN_FLIGHT) as opened:
        ways = [partial(client.post, {"params": PARAMS}) for client in opened]
        with on_two_cores([one.pid], [THIS_THREAD, *programs_of("echo", one.pid)]):
            alone, _ = await on_each_way(ways[:1], few)
        taken, rate = await on_each_way(ways, many)
        return Run(statistics.median(alone), statistics.quantiles(taken, n=100)[98], rate, one.memory())


def main() -> None:
    given = options(__doc__)
    rounds, few, many = (1, 200, 1_000) if given.quick else (15, 500, 4_000)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as written, ExitStack() as stack:
        folder = Path(written)
        fields = {"runtime": {"command": ["python3", "./main.py"]}, "capabilities": [], "methods": [METHOD]}
        package = write_package(folder / "echo", "echo", {"main.py": PLUGIN}, **fields)
        install(folder / "home", package)
        shutil.copytree(folder / "home", folder / "bare", symlinks=True)
        path = "/api/v1/plugins/echo/execute"
        script = [sys.executable, str(Path(__file__).with_name("_bare_route.py")), str(folder / "bare")]
        servers = {
            BARE: stack.enter_context(script_at(script, path)),
            OURS: stack.enter_context(daemon(folder / "home", path)),
        }
        found = uvloop.run(measure(servers, rounds, few, many))
    report = Report(
        "http_execute",
        given,
        f"{few:,} calls one after another, {many:,} with {IN_FLIGHT} under way, {rounds} rounds in turn, of which the "
        "medians are told. One after another, the server has a core for itself, and p50 is held against that of the "
        "same round. Memory (PSS) is that of the process which speaks HTTP. Followers are sent an event for each call.",
        ["what", "p50 alone", f"p99 at {IN_FLIGHT}", f"calls/s at {IN_FLIGHT}", "memory"],
    )
    for name, runs in found.items():
        p50, p99, rate, memory = (statistics.median(values) for values in zip(*runs, strict=True))
        report.row(name, f"{p50 * 1e6:.0f} µs", f"{p99 * 1e3:.1f} ms", f"{rate:,.0f}", f"{memory:.0f} MB")
    ratio = statistics.median(ours.p50 / bare.p50 for bare, ours in zip(found[BARE], found[OURS], strict=True))
    report.at_most("sequential p50 against the bare route", ratio, 1.5)
    held = found[FOLLOWED][-1].memory - found[OURS][-1].memory
    report.says(f"memory of a client that follows events: {held * 1024 / FOLLOWERS:.0f} KB")
    report.finish()


if __name__ == "__main__":
    main()
