"""What a flood of malformed lines costs: frames a second, how long the loop is held up, and what other calls notice."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
from _loop_ticks import TICK, Ticks
from _malformed import malformed
from _side_by_side import Report, alternate, options

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))

from _flooded_host import SEVERE, Flood, flooded_host  # noqa: E402 - found by the line above

from paddock.rpc.peer import JsonRpcPeer  # noqa: E402
from paddock.rpc.pipe_transport import open_pipe_transport  # noqa: E402

PEER = "paddock: a peer that judges and answers"
BARE = "bare protocol and orjson, answers nothing"
HOST = "paddock: a whole host, from a caged plugin"


def main() -> None:
    given = options(__doc__)
    frames = 20_000 if given.quick else 1_000_000
    ticks = Ticks()
    heard: Counter[str] = Counter()
    with tempfile.NamedTemporaryFile(prefix="paddock-bench-") as stream:
        stream.writelines(malformed(frames))
        stream.flush()
        size = stream.tell()
        times = alternate(
            {
                PEER: lambda: asyncio.run(_ours(stream.name, ticks, heard)),
                BARE: lambda: asyncio.run(_bare(stream.name)),
            },
            rounds=1 if given.quick else 3,
            warm_up=0,
        )
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        flood = flooded_host(Path(folder), frames, 1.0 if given.quick else 10.0)
    report = Report(
        "malformed_frames",
        given,
        f"{frames:,} seeded lines, {size / frames:,.0f} bytes each on average, from another process over a real pipe: "
        "noise, half messages, batches, wrong ids and versions, broken answers, deep and dense nesting. Ours splits, "
        "reads and judges each, tells its owner, and answers what the rules say is answered; another process reads the "
        "answers. Through a whole host the same kinds come from a plugin in its cage, while a healthy one is called "
        "every 2 ms. How long the loop is held up is seen by a callback that is due every "
        f"{TICK * 1000:g} ms: how late it is on the clock, to which all else on the machine adds, and how much CPU "
        "time was spent since the last.",
        ["what", "fastest", "median", "frames a second", "against bare"],
    )
    floor = times[BARE]
    for name, measured in times.items():
        report.row(
            name,
            f"{measured.best:.2f} s",
            f"{measured.median:.2f} s",
            f"{frames / measured.best:,.0f}",
            f"{measured.best / floor.best:.2f}×",
        )
    once = f"{flood.seconds:.2f} s"
    report.row(HOST, once, once, f"{frames / flood.seconds:,.0f}", f"{flood.seconds / floor.best:.2f}×")
    report.goals += ticks.goals("a peer")
    judged = heard["noise"] + heard["violation"]
    expected = frames * len(times[PEER].runs)
    report.goals.append(
        f"{_passed(judged == expected and not heard['error'])}  lines judged by a peer: {judged:,} of {expected:,}, "
        f"errors in the loop: {heard['error']}"
    )
    report.goals += _goals_of(flood, frames)
    report.finish()


def _goals_of(flood: Flood, frames: int) -> list[str]:
    judged = flood.lines == frames and not flood.errors and not flood.restarts
    severe = ", ".join(f"{kind}: {why}" for kind, why in flood.ended_for.items())
    quiet, busy = ([statistics.median(found), _p99(found), max(found)] for found in (flood.quiet, flood.busy))
    shown = [" / ".join(f"{value * 1000:.2f}" for value in values) for values in (quiet, busy)]
    return [
        *flood.ticks.goals("a whole host"),
        f"{_passed(judged)}  lines judged by a whole host: {flood.lines:,} of {frames:,} "
        f"({flood.bytes / 1e6:,.0f} MB), errors in the loop: {flood.errors}, "
        f"restarts of the plugin that writes them: {flood.restarts}",
        f"{_passed(len(flood.ended_for) == len(SEVERE))}  plugins that were ended for a line after which nothing "
        f"can be read, and run again: {len(flood.ended_for)} of {len(SEVERE)} ({severe})",
        f"a healthy plugin's calls, median / p99 / longest: {shown[0]} ms on the quiet host "
        f"({len(flood.quiet):,} calls), {shown[1]} ms during the flood ({len(flood.busy):,}); "
        f"p99 {busy[1] / quiet[1]:.1f}×",
    ]


def _p99(found: list[float]) -> float:
    return statistics.quantiles(found, n=100)[98]


def _passed(held: bool) -> str:
    return "PASS" if held else "FAIL"


class _Owner:
    """Counts what it hears."""

    def __init__(self, heard: Counter[str]) -> None:
        self.heard = heard
        self.over = asyncio.Event()

    async def serve(self, method: str, params: dict[str, Any], asked: object) -> Any:  # noqa: ARG002
        self.heard["request"] += 1

    def notified(self, method: str, params: dict[str, Any]) -> None:  # noqa: ARG002
        self.heard["notification"] += 1

    def noise(self, line: bytes) -> None:  # noqa: ARG002
        self.heard["noise"] += 1

    def violated(self, kind: str, detail: str) -> None:  # noqa: ARG002
        self.heard["unread" if kind == "unread_answers" else "violation"] += 1

    def stalled(self) -> None:
        self.heard["error"] += 1

    def lost(self, reason: str) -> None:  # noqa: ARG002
        self.over.set()


async def _ours(path: str, ticks: Ticks, heard: Counter[str]) -> float:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, _context: heard.update(["error"]))
    owner = _Owner(heard)
    peer = JsonRpcPeer(owner)
    talker, reading = _talker(path)
    listener, writing = _listener()
    started = time.perf_counter()
    with ticks.counted():
        peer.attach(await open_pipe_transport(reading, writing, peer))
        await owner.over.wait()
    spent = time.perf_counter() - started
    await peer.wait_closed()
    talker.wait()
    listener.wait()
    return spent


class _Bare(asyncio.Protocol):
    """Splits and parses, and nothing else."""

    def __init__(self) -> None:
        self.rest = b""
        self.over = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            try:
                orjson.loads(line)
            except orjson.JSONDecodeError:
                continue

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.over.set()


async def _bare(path: str) -> float:
    talker, reading = _talker(path)
    started = time.perf_counter()
    _, protocol = await asyncio.get_running_loop().connect_read_pipe(_Bare, os.fdopen(reading, "rb", buffering=0))
    await protocol.over.wait()
    spent = time.perf_counter() - started
    talker.wait()
    return spent


def _talker(path: str) -> tuple[subprocess.Popen[bytes], int]:
    reading, stdout = os.pipe()
    process = subprocess.Popen(["cat", path], stdin=subprocess.DEVNULL, stdout=stdout)
    os.close(stdout)
    return process, reading


def _listener() -> tuple[subprocess.Popen[bytes], int]:
    stdin, writing = os.pipe()
    process = subprocess.Popen(["cat"], stdin=stdin, stdout=subprocess.DEVNULL)
    os.close(stdin)
    return process, writing


if __name__ == "__main__":
    main()
