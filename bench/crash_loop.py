"""A healthy plugin's calls while fifty others crash, again and again, against the same calls on a quiet host.

It is the whole host as `paddock serve` has it: every call passes the gate and is recorded, every crashed plugin is
looked at, caged, started and recorded again.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import uvloop
from _home import install, write_package
from _side_by_side import Report, options

from paddock import Config, Host, open_host

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


def write_packages(folder: Path) -> tuple[Path, list[Path]]:
    """The healthy plugin and those that crash."""
    echo, *crashing = (
        write_package(
            folder / name,
            name,
            {"main.py": program},
            runtime={"command": ["python3", "./main.py"]},
            capabilities=[],
            methods=methods,
        )
        for name, program, methods in (
            ("echo", ECHO, [{"name": "echo.it", "effects": ["read_only"]}]),
            *((name, f"NAME = {name!r}\n{CRASH}", []) for name in map("crash-{}".format, range(CRASHING))),
        )
    )
    return echo, crashing


async def latencies(host: Host, seconds: float) -> list[float]:
    """One call after another for so long."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        await host.call("echo.echo.it", {})
        found.append(time.perf_counter() - began)
        await asyncio.sleep(0.002)
    return found


def p99(found: list[float]) -> float:
    return statistics.quantiles(found, n=100)[98]


async def measure(folder: Path, seconds: float) -> tuple[list[float], list[float], int, int]:
    echo, crashing = write_packages(folder)
    install(folder / "home", echo)
    install(folder / "home", *crashing, enabled=False)
    async with open_host(Config(home=folder / "home", environ={})) as host, asyncio.TaskGroup() as enabling:
        await host.call("echo.echo.it", {})
        quiet = await latencies(host, seconds / 2)
        for package in crashing:
            enabling.create_task(host.plugins.lifecycle.enable(package.name))
        busy = await latencies(host, seconds)
        crashed = [status for status in host.plugins.processes.statuses() if status.key.plugin != "echo"]
        quiet += await latencies(host, seconds / 2)
        return quiet, busy, sum(one.failures for one in crashed), sum(one.state == "failed" for one in crashed)


def main() -> None:
    given = options(__doc__)
    seconds = 3.0 if given.quick else 30.0
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        quiet, busy, failures, given_up = uvloop.run(measure(Path(folder), seconds))
    report = Report(
        "crash_loop",
        given,
        f"{seconds:g} s of calls to a caged plugin, 2 ms apart, while {CRASHING} plugins answer their handshake and "
        "exit, are started again after 1, 2, 4, 8 s and given up; and as long on a quiet host, half of it before and "
        f"half of it after. Seen: {failures} deaths, {given_up} given up.",
        ["what", "calls", "p50", "p99", "longest"],
    )
    for name, found in (("quiet", quiet), (f"{CRASHING} plugins crashing", busy)):
        shown = [f"{value * 1000:.2f} ms" for value in (statistics.median(found), p99(found), max(found))]
        report.row(name, f"{len(found):,}", *shown)
    report.at_most("p99 while they crash against quiet", p99(busy) / p99(quiet), 3)
    report.finish()


if __name__ == "__main__":
    main()
