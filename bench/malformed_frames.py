"""What a flood of malformed lines costs: frames a second, and how long the event loop is held up meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from _side_by_side import Report, alternate, options

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))

from paddock.rpc.peer import Peer  # noqa: E402 - found by the line above
from paddock.rpc.pipes import open_pipes  # noqa: E402

SEED = 20_260_101
TICK = 0.001


def main() -> None:
    given = options(__doc__)
    frames = 20_000 if given.quick else 1_000_000
    ticks: list[tuple[float, float]] = []
    heard: Counter[str] = Counter()
    with tempfile.NamedTemporaryFile(prefix="paddock-bench-") as stream:
        size = _write(Path(stream.name), frames)
        times = alternate(
            {
                "paddock: a peer that judges and answers": lambda: asyncio.run(_ours(stream.name, ticks, heard)),
                "bare protocol and orjson, answers nothing": lambda: asyncio.run(_bare(stream.name)),
            },
            rounds=1 if given.quick else 3,
            warm_up=0,
        )
    report = Report(
        "malformed_frames",
        given,
        f"{frames:,} seeded lines, {size / frames:,.0f} bytes each on average, from another process over a real pipe: "
        "noise, half messages, batches, wrong ids and versions, broken answers, deep and dense nesting. Ours splits, "
        "reads and judges each, tells its owner, and answers what the rules say is answered; another process reads the "
        f"answers. How long the loop is held up is seen by a callback that is due every {TICK * 1000:g} ms: how late "
        "it is on the clock, to which all else on the machine adds, and how much CPU time was spent since the last.",
        ["what", "fastest", "median", "frames a second", "against bare"],
    )
    floor = times["bare protocol and orjson, answers nothing"]
    for name, measured in times.items():
        report.row(
            name,
            f"{measured.best:.2f} s",
            f"{measured.median:.2f} s",
            f"{frames / measured.best:,.0f}",
            f"{measured.best / floor.best:.2f}×",
        )
    for what, measured in (
        ("on the clock", [tick[0] for tick in ticks]),
        ("of our own CPU time", [tick[1] for tick in ticks]),
    ):
        late, worst = (share * 1000 for share in (sorted(measured)[int(len(measured) * 0.999)], max(measured)))
        passed = "PASS" if late < 50 else "FAIL"
        report.goals.append(
            f"{passed}  loop held up, p99.9, {what}: {late:.1f} ms, longest {worst:.1f} ms (goal: below 50 ms)"
        )
    judged = heard["noise"] + heard["violation"]
    expected = frames * len(times["paddock: a peer that judges and answers"].runs)
    passed = "PASS" if judged == expected and not heard["error"] else "FAIL"
    report.goals.append(f"{passed}  lines judged: {judged:,} of {expected:,}, errors in the loop: {heard['error']}")
    report.finish()


def _write(path: Path, frames: int) -> int:
    """Put the lines into a file, and say how many bytes they are."""
    chance = random.Random(SEED)
    with path.open("wb") as file:
        for _ in range(frames):
            file.write(_malformed(chance) + b"\n")
        return file.tell()


def _malformed(chance: random.Random) -> bytes:
    kind = chance.choices(range(len(KINDS)), WEIGHTS)[0]
    return KINDS[kind](chance)


def _text(chance: random.Random) -> str:
    return "".join(chance.choices("abcdef {}[],:\\ é漢", k=chance.randrange(1, 60)))


def _message(chance: random.Random, **members: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": chance.randrange(1, 1_000), **members})


def _nested(chance: random.Random) -> bytes:
    depth = chance.randrange(65, 2_000)
    return b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":' + b"[" * depth + b"]" * depth + b"}}"


KINDS: tuple[Callable[[random.Random], bytes], ...] = (
    lambda chance: b"log: " + _text(chance).encode(),
    lambda chance: b"\xff" + chance.randbytes(chance.randrange(1, 80)).replace(b"\n", b" ").replace(b"\r", b" "),
    lambda chance: _message(chance, method="m", params={"text": _text(chance)})[: -chance.randrange(1, 40)],
    lambda chance: b"[" + _message(chance, method="m") + b"]",
    lambda chance: orjson.dumps({"id": 1, "method": _text(chance)}),
    lambda chance: _message(chance, id=chance.choice([None, True, 1.5, [], {}, 2**64 - 0.5]), method="m"),
    lambda chance: _message(chance, method="m", params=chance.choice([None, 1, "a", [1, 2]])),
    lambda chance: _message(chance, method=chance.choice([None, 1, [], {}])),
    lambda chance: _message(chance, result=_text(chance)),
    lambda chance: _message(chance, result=1, error={"code": 1, "message": ""}),
    lambda chance: _message(chance, error=chance.choice([None, 1, {}, {"code": "1", "message": ""}])),
    _nested,
    lambda chance: b'{"jsonrpc":"2.0","id":1,"params":{"a":[' + b"[]," * chance.randrange(10, 20_000) + b"[]]}}",
)
WEIGHTS = (20, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 0.2, 0.02)


class _Owner:
    """Counts what it hears."""

    def __init__(self, heard: Counter[str]) -> None:
        self.heard = heard
        self.over = asyncio.Event()

    async def serve(self, method: str, params: dict[str, Any], request_id: int | str) -> Any:  # noqa: ARG002
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


async def _ours(path: str, ticks: list[tuple[float, float]], heard: Counter[str]) -> float:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, _context: heard.update(["error"]))
    due, spent_before = loop.time() + TICK, time.thread_time()

    def tick() -> None:
        nonlocal due, spent_before
        now, spent = loop.time(), time.thread_time()
        ticks.append((now - due, spent - spent_before))
        due, spent_before = now + TICK, spent
        loop.call_at(due, tick)

    owner = _Owner(heard)
    peer = Peer(owner)
    talker, reading = _talker(path)
    listener, writing = _listener()
    started = time.perf_counter()
    loop.call_at(due, tick)
    peer.attach(await open_pipes(reading, writing, peer))
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
