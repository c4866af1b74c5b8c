"""A whole host with caged plugins: one writes malformed lines without end, one is called all the while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from _loop_ticks import Ticks
from _plugins import write_plugin

from paddock import Config, Host, open_host
from paddock.cli.client.event_loop import run_async
from paddock.core.errors import Unavailable
from paddock.daemon.run import tune_garbage_collector
from paddock.host.wiring.local_store import open_local_store
from paddock.plugins.install.commit import commit_install
from paddock.plugins.install.consent import full_consent
from paddock.plugins.install.resolve import resolve_package
from paddock.plugins.manage.enable import enable
from paddock.plugins.package.source import parse_source

CHUNK = 20_000  # lines of one call: its answer is behind them on the same pipe, so they were all judged when it comes
PAUSE = 0.002

ECHO = """
from paddock_sdk import Plugin
plugin = Plugin("echo", "1.0.0")
@plugin.method("echo.it")
def echo(params, context):
    return {"ok": True}
plugin.run()
"""
# Speaks for itself, since the SDK would not let it write such things. What the host answers is read, and dropped.
RAW = """
import json, os, queue, sys, threading
from malformed import malformed

asked = queue.SimpleQueue()

def read():
    for line in sys.stdin.buffer:
        if b'"method"' in line:
            asked.put(json.loads(line))
    os._exit(0)

def write(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]

threading.Thread(target=read, daemon=True).start()
lines = b""
while True:
    request = asked.get()
    method, params, result = request["method"], request.get("params", {}), {}
    if method == "initialize":
        result = {"name": NAME, "version": "1.0.0", "api_version": 1, "methods": METHODS, "capabilities_used": []}
    elif method.endswith(".make"):
        lines = b"".join(malformed(params["lines"], params["seed"]))
        result = {"bytes": len(lines)}
    elif method.endswith(".flood"):
        write(lines)
    elif method.endswith(".long"):
        write(b"x" * (5 << 20))
    elif method.endswith(".dense"):
        write(b'{"a":[' + b"[]," * 400_000)
    if "id" in request:
        write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\\n")
"""
SEVERE = ("long", "dense")


@dataclass(slots=True)
class Flood:
    """What was seen."""

    ticks: Ticks = field(default_factory=Ticks)
    lines: int = 0
    bytes: int = 0
    seconds: float = 0.0  # of flooding; making the lines is not counted
    quiet: list[float] = field(default_factory=list[float])
    busy: list[float] = field(default_factory=list[float])
    errors: int = 0
    restarts: int = 0  # of the plugin that floods: it must not be ended for what it does
    ended_for: dict[str, str] = field(default_factory=dict[str, str])  # by severe kind of line: why the plugin fell


def flooded_host(folder: Path, lines: int, seconds: float) -> Flood:
    """Open a host, call the healthy plugin for so many seconds, then let the other write so many lines meanwhile."""
    with _home(folder) as home:
        return run_async(_measured(home, lines, seconds))


@contextmanager
def _home(folder: Path) -> Generator[Path, None, None]:
    here = Path(__file__).parent
    packages = [write_plugin(folder / "echo", "echo", ECHO, ["echo.it"])]
    for name, methods in (("flood", ["make", "flood"]), *((severe, [severe]) for severe in SEVERE)):
        names = [f"{name}.{method}" for method in methods]
        program = f"NAME, METHODS = {name!r}, {names!r}\n{RAW}"
        packages.append(write_plugin(folder / name, name, program, names))
        (folder / name / "malformed.py").write_bytes((here / "_malformed.py").read_bytes())
    home = folder / "home"
    with open_local_store({"PADDOCK_HOME": str(home)}, folder) as host:
        for package in packages:
            with resolve_package(host.plugins, parse_source(str(package))) as prepared:
                commit_install(host.plugins, prepared, full_consent(prepared))
            enable(host.plugins, package.name)
    yield home


async def _measured(home: Path, lines: int, seconds: float) -> Flood:
    async with open_host(Config(home=home, environ={})) as host:
        loop = asyncio.get_running_loop()
        seen = Flood()

        def failed(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
            seen.errors += 1
            print(context)

        loop.set_exception_handler(failed)
        for status in await host.plugins.processes.wait_settled():
            assert status.state == "running", f"{status.key.plugin}: {status.reason}"
        tune_garbage_collector()  # as the daemon does when it is ready
        await _calls(host, seen.quiet, until=time.perf_counter() + seconds)
        severe = asyncio.gather(*(_severe(host, kind, seen) for kind in SEVERE))
        for number, first in enumerate(range(0, lines, CHUNK)):
            await _chunk(host, seen, number, min(CHUNK, lines - first))
        await severe
        seen.restarts = sum(
            status.failures for status in host.plugins.processes.statuses() if status.key.plugin == "flood"
        )
        return seen


async def _chunk(host: Host, seen: Flood, number: int, lines: int) -> None:
    made = await host.call("flood.flood.make", {"lines": lines, "seed": number})
    calling = asyncio.create_task(_calls(host, seen.busy, until=float("inf")))
    began = time.perf_counter()
    with seen.ticks.counted():
        await host.call("flood.flood.flood", {})
    seen.seconds += time.perf_counter() - began
    seen.lines += lines
    seen.bytes += made["bytes"]
    calling.cancel()
    await asyncio.wait({calling})


async def _calls(host: Host, found: list[float], *, until: float) -> None:
    """One call after another to the healthy plugin."""
    while (began := time.perf_counter()) < until:
        await host.call("echo.echo.it", {})
        found.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE)


async def _severe(host: Host, kind: str, seen: Flood) -> None:
    """A line after which nothing can be read: its plugin is ended, told why, and started again."""
    try:
        await host.call(f"{kind}.{kind}.{kind}", {})
    except Unavailable as fallen:
        async for status in host.plugins.processes.follow_states():
            if status.key.plugin == kind and status.state == "running":
                seen.ended_for[kind] = fallen.message
                return
