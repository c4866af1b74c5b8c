"""50 MB from a caged plugin to the host and back: on its pipes, as base64 in messages, and against bare pipes.

The floor is a child without a cage that writes the same bytes to a pipe, and a parent that reads them into a file: no
hash, nothing made durable, no record. Ours is the whole way: asked for through the door, hashed, synced to the disk,
written down, and its address answered. In messages the bytes go as they would without artifacts: a mebibyte at a time,
each in base64.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from _plugins import write_plugin
from _side_by_side import Report, Times, options

from paddock import Config, Host, open_host
from paddock.host.wiring.local_store import open_local_store
from paddock.plugins.install.commit import commit_install
from paddock.plugins.install.consent import full_consent
from paddock.plugins.install.resolve import resolve_package
from paddock.plugins.manage.enable import enable
from paddock.plugins.package.source import parse_source

PLUGIN = """
import base64, os, time
from paddock_sdk import Plugin
plugin = Plugin("mover", "1.0.0", capabilities_used=["host:artifacts"])
kept = {}
def content(size):
    if kept.get("size") != size:
        kept.update(size=size, bytes=os.urandom(size))
    return kept["bytes"]
def ask(method, **params):
    plugin.progress(0)  # a call that moves on may take as long as a busy machine needs
    return plugin.request("paddock.artifacts." + method, params)
@plugin.method("move.it")
def move(params, context):
    whole, way = content(params["size"]), params["way"]
    chunk = 1 << 20
    pieces = [whole[at:at + chunk] for at in range(0, len(whole), chunk)]
    began = time.perf_counter()
    if way == "pipes":
        uris = [plugin.host.artifacts.put(whole).wait()]
    else:
        uris = [ask("put", base64=base64.b64encode(piece).decode())["uri"] for piece in pieces]
    there = time.perf_counter()
    if way == "pipes":
        back = plugin.host.artifacts.get(uris[0]).wait()
    else:
        back = b"".join(base64.b64decode(ask("get", uri=uri, inline=True)["base64"]) for uri in uris)
    over = time.perf_counter()
    assert back == whole
    for uri in uris:
        ask("delete", uri=uri)
    return {"put": there - began, "get": over - there}
plugin.run()
"""
CHILD = "import os, sys\ndata = memoryview(os.urandom(int(sys.argv[1])))\nos.read(0, 1)\n" + (
    "while data: data = data[os.write(1, data):]"
)


def install(home: Path, package: Path) -> None:
    with open_local_store({"PADDOCK_HOME": str(home)}, home) as host:
        with resolve_package(host.plugins, parse_source(str(package))) as prepared:
            commit_install(host.plugins, prepared, full_consent(prepared))
        enable(host.plugins, "mover")


async def bare_pipe(folder: Path, size: int) -> float:
    """The seconds that reading so many bytes from a child into a file takes."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        "-c",
        CHILD,
        str(size),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    await asyncio.sleep(0.2)  # it makes up its bytes first
    began = time.perf_counter()
    child.stdin.write(b"g")
    await child.stdin.drain()
    file = os.open(folder / "copy", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    left = size
    while left:
        piece = await child.stdout.read(256 * 1024)
        os.write(file, piece)
        left -= len(piece)
    os.close(file)
    took = time.perf_counter() - began
    child.stdin.close()
    await child.wait()
    return took


async def longest_pause(work: Callable[[], Awaitable[Any]]) -> tuple[Any, float]:
    """The work's result, and the longest time that the event loop did nothing else meanwhile."""
    worst = 0.0

    async def ticking() -> None:
        nonlocal worst
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - began - 0.001)

    ticks = asyncio.ensure_future(ticking())
    result = await work()
    ticks.cancel()
    return result, worst


async def measure(folder: Path, size: int, rounds: int) -> tuple[dict[str, list[float]], float]:
    found: dict[str, list[float]] = {}
    pauses: list[float] = []
    package = write_plugin(folder / "mover", "mover", PLUGIN, ["move.it"], capabilities=("host:artifacts",))
    install(folder / "home", package)
    async with open_host(Config(home=folder / "home", environ={})) as host:
        for number in range(-1, rounds):
            runs = {"bare pipe": {"copied": await bare_pipe(folder, size)}}
            for way in ("pipes", "messages"):
                runs[way], pause = await longest_pause(lambda way=way: _moved(host, size, way))
                if way == "pipes":
                    pauses.append(pause)
            if number >= 0:
                for way, took in runs.items():
                    for direction, seconds in took.items():
                        found.setdefault(f"{way}, {direction}", []).append(seconds)
    return found, min(pauses)


async def _moved(host: Host, size: int, way: str) -> Any:
    return await host.call("mover.move.it", {"size": size, "way": way})


def main() -> None:
    given = options(__doc__)
    size, rounds = (10_000_000, 2) if given.quick else (50_000_000, 5)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        found, pause = asyncio.run(measure(Path(folder), size, rounds))
    report = Report(
        "artifacts",
        given,
        f"{size // 1_000_000} MB, {rounds} rounds in turn, the fastest of each. Put includes the hash, the sync to the "
        f"disk and the record; the bare pipe has none of them. While bytes moved on the pipes the event loop paused "
        f"for at most {pause * 1e3:.1f} ms in the best round.",
        ["what", "seconds", "MB a second"],
    )
    best = {name: Times(tuple(runs)).best for name, runs in found.items()}
    for name, seconds in best.items():
        report.row(name, f"{seconds:.3f}", f"{size / 1e6 / seconds:,.0f}")
    for direction in ("put", "get"):
        ours, messages = best[f"pipes, {direction}"], best[f"messages, {direction}"]
        report.at_most(f"{direction} on the pipes against base64 in messages", ours / messages, 0.5)
        report.at_most(f"{direction} on the pipes against the bare pipe", ours / best["bare pipe, copied"], 5)
    report.finish()


if __name__ == "__main__":
    main()
