"""One call to a caged plugin and back, against the bare pipe: one at a time, and 64 under way at once.

The floor is the least that two processes can do: an asyncio `Protocol`, orjson and line JSON on our side, an uncaged
child that reads a line, parses it and answers. Ours is the whole way: the supervisor's checks, the call's context, its
timer, its audit events, and a plugin written with the SDK in its cage.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson
from _calls import Measured, many_at_once, one_at_a_time
from _plugins import CONTEXT, count_events, on_stage, write_plugin
from _side_by_side import Report, options

IN_FLIGHT = 64

# What both plugins answer with: a small object, as most results are.
PLUGIN = """
from paddock_sdk import Plugin
plugin = Plugin("echo", "1.0.0")
@plugin.method("echo.it")
def echo(params, context):
    return {"ok": True}
plugin.run()
"""
CHILD = """
import sys, json
from os import write
loads, dumps = json.loads, json.dumps
for line in sys.stdin.buffer:
    request = loads(line)
    write(1, b'{"jsonrpc":"2.0","id":%d,"result":{"ok":true}}\\n' % request["id"])
"""
PARAMS = {"text": "hello", "count": 3}


class BarePipe(asyncio.Protocol):
    """The floor."""

    def __init__(self) -> None:
        self._partial = b""
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last = 0

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        read_in, write_in = os.pipe()
        read_out, write_out = os.pipe()
        self._child = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", CHILD, stdin=read_in, stdout=write_out
        )
        os.close(read_in)
        os.close(write_out)
        self._reading, _ = await loop.connect_read_pipe(lambda: self, os.fdopen(read_out, "rb", 0))
        self._writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(write_in, "wb", 0))

    async def stop(self) -> None:
        self._writing.close()
        await self._child.wait()
        self._reading.close()

    def data_received(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            answer = orjson.loads(line)
            self._waiting.pop(answer["id"]).set_result(answer["result"])

    async def call(self) -> Any:
        self._last += 1
        future = self._waiting[self._last] = asyncio.get_running_loop().create_future()
        request = {"jsonrpc": "2.0", "id": self._last, "method": "echo.it", "params": PARAMS}
        self._writing.write(orjson.dumps(request) + b"\n")
        return await future


async def measure(folder: Path, rounds: int, few: int, many: int) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {name: [] for name in ("floor 1", "ours 1", "floor 64", "ours 64")}
    write_plugin(folder / "echo", "echo", PLUGIN, ["echo.it"])
    bare = BarePipe()
    await bare.start()
    async with on_stage(count_events()) as stage:
        actor = await stage.start(folder / "echo")

        key, spec = actor.deployment.key, actor.spec("echo.it")

        async def ours() -> Any:
            return await stage.supervisor.call(key, spec, PARAMS, CONTEXT)

        for number in range(-1, rounds):
            runs = {
                "floor 1": await one_at_a_time(bare.call, few),
                "ours 1": await one_at_a_time(ours, few),
                "floor 64": await many_at_once(bare.call, many, IN_FLIGHT),
                "ours 64": await many_at_once(ours, many, IN_FLIGHT),
            }
            if number >= 0:
                for name, run in runs.items():
                    found[name].append(run)
    await bare.stop()
    return found


def main() -> None:
    given = options(__doc__)
    rounds, few, many = (2, 200, 2_000) if given.quick else (7, 2_000, 30_000)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        found = asyncio.run(measure(Path(folder), rounds, few, many))
    report = Report(
        "call_round_trip",
        given,
        f"{few:,} calls one after another, {many:,} with {IN_FLIGHT} under way, {rounds} rounds in turn. CPU is that "
        "of the calling process alone; the child has the other core. Audit events are made and counted, not written.",
        ["what", "p50", "calls a second", "CPU a call"],
    )
    best = {name: min(runs, key=lambda run: run.seconds) for name, runs in found.items()}
    p50 = {name: min(run.p50 for run in runs) for name, runs in found.items() if name.endswith(" 1")}
    for name, run in best.items():
        latency = f"{p50[name] * 1e6:.0f} µs" if name in p50 else ""
        report.row(name, latency, f"{run.rate:,.0f}", f"{run.cpu / run.calls * 1e6:.1f} µs")
    report.at_most("sequential p50 against the floor", p50["ours 1"] / p50["floor 1"], 1.5)
    report.at_least("percent of the floor's throughput at 64", 100 * best["ours 64"].rate / best["floor 64"].rate, 30)
    report.finish()


if __name__ == "__main__":
    main()
