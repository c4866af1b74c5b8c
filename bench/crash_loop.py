"""A healthy plugin's calls while fifty others crash, again and again, against the same calls on a quiet host."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from _plugins import Actor, count_events, on_stage, write_plugin
from _side_by_side import Report, options

CRASHING = 50

ECHO = """
from paddock_sdk import Plugin
plugin = Plugin("echo", "1.0.0")
@plugin.method("echo.it")
def echo(params, context):
    return {"ok": True}
plugin.run()
"""
# Answers the handshake and dies: the most work a plugin can make by dying.
CRASH = """
import json, os, sys
request = json.loads(sys.stdin.readline())
about = {"name": NAME, "version": "1.0.0", "api_version": 1, "methods": [], "capabilities_used": []}
print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": about}), flush=True)
sys.stdin.readline()
os._exit(1)
"""


async def latencies(actor: Actor, seconds: float) -> list[float]:
    """One call after another for so long."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        await actor.call("echo.it", {})
        found.append(time.perf_counter() - began)
        await asyncio.sleep(0.002)
    return found


def p99(found: list[float]) -> float:
    return statistics.quantiles(found, n=100)[98]


async def measure(folder: Path, seconds: float) -> tuple[list[float], list[float], int, int]:
    write_plugin(folder / "echo", "echo", ECHO, ["echo.it"])
    counted = count_events()
    async with on_stage(counted) as stage:
        healthy = await stage.start(folder / "echo")
        quiet = await latencies(healthy, seconds)
        actors: list[Actor] = []
        for number in range(CRASHING):
            name = f"crash-{number}"
            write_plugin(folder / name, name, f"NAME = {name!r}\n{CRASH}", [])
            actors.append(stage.deploy(folder / name))
        busy = await latencies(healthy, seconds)
        failures = sum(actor.status.failures for actor in actors)
        given_up = sum(actor.status.state == "failed" for actor in actors)
        return quiet, busy, failures, given_up


def main() -> None:
    given = options(__doc__)
    seconds = 3.0 if given.quick else 30.0
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        quiet, busy, failures, given_up = asyncio.run(measure(Path(folder), seconds))
    report = Report(
        "crash_loop",
        given,
        f"{seconds:g} s of calls to a caged plugin, 2 ms apart, on a quiet host; then again while {CRASHING} plugins "
        f"answer their handshake and exit, are started again after 1, 2, 4, 8 s and given up. Seen: {failures} deaths, "
        f"{given_up} given up.",
        ["what", "calls", "p50", "p99", "longest"],
    )
    for name, found in (("quiet", quiet), (f"{CRASHING} plugins crashing", busy)):
        shown = [f"{value * 1000:.2f} ms" for value in (statistics.median(found), p99(found), max(found))]
        report.row(name, f"{len(found):,}", *shown)
    report.at_most("p99 while they crash against quiet", p99(busy) / p99(quiet), 3)
    report.finish()


if __name__ == "__main__":
    main()
