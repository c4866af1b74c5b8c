"""A host after 200,000 calls of every kind: its memory grows by less than 5 %, descriptors and threads stay as many.

Reads, effects with and without a key, the same key again, parameters that do not fit, names that do not exist, and
answers that break what was promised, mixed by a seeded choice, 32 under way. What counts as grown is measured from the
end of the first tenth on, when everything that is kept for later is in its place.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop
from _home import opened
from _notes import KEEP, LIE, LOOK, home_with_notes
from _side_by_side import Report, options

from paddock.core.errors import PaddockError
from paddock.host.host import Host

IN_FLIGHT = 32
LOOKS = 10
GROWTH = 5.0  # percent


def _kinds(chance: random.Random) -> dict[str, Callable[[Host, int], Any]]:
    """What a call may be; reads are half of them."""

    def keyed(number: int) -> str:
        return f"key-{number if chance.random() < 0.5 else chance.randrange(max(1, number))}"

    def keep(host: Host, number: int) -> Any:
        key = keyed(number)
        return host.call(KEEP, {"text": key}, idempotency_key=key)

    return {
        "reads": lambda host, number: host.call(LOOK, {"text": f"hello {number}"}),
        "effects": lambda host, number: host.call(KEEP, {"text": f"hello {number}"}),
        "effects under a key": keep,
        "do not fit": lambda host, _: host.call(LOOK, {"text": 5}),
        "not there": lambda host, number: host.call(f"notes.nothing{number}", {}),
        "broken promises": lambda host, _: host.call(LIE, {"text": "x"}),
    }


class Size:
    """What the process holds."""

    def __init__(self) -> None:
        gc.collect()
        fields = dict(
            line.split(":", 1) for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:] if ":" in line
        )
        self.memory = int(fields["Pss"].split()[0]) / 1024
        self.descriptors = len(list(Path("/proc/self/fd").iterdir()))
        self.threads = threading.active_count()


async def soak(folder: Path, calls: int) -> tuple[list[Size], Counter[str], float]:
    home = home_with_notes(folder)
    logging.getLogger("paddock.calls").setLevel(logging.CRITICAL)  # broken promises are told one by one
    chance = random.Random(1)  # the same mix each time
    kinds = _kinds(chance)
    ended: Counter[str] = Counter()
    sizes: list[Size] = []
    begun = time.perf_counter()
    async with opened(home, {}) as host:
        left = iter(range(calls))

        async def caller(until: int) -> None:
            for number in left:
                kind = chance.choices(list(kinds), weights=(50, 12, 18, 8, 4, 8))[0]
                try:
                    await kinds[kind](host, number)
                except PaddockError as error:
                    ended[f"{kind}: {error.error_code}"] += 1
                else:
                    ended[f"{kind}: answered"] += 1
                if number >= until:
                    return

        for look in range(1, LOOKS + 1):
            until = calls * look // LOOKS - IN_FLIGHT
            await asyncio.gather(*(caller(until) for _ in range(IN_FLIGHT)))
            await host._gate.audit_log.flush()  # pyright: ignore[reportPrivateUsage]
            sizes.append(Size())
    return sizes, ended, time.perf_counter() - begun


def main() -> None:
    given = options(__doc__)
    calls = 5_000 if given.quick else 200_000
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        sizes, ended, seconds = uvloop.run(soak(Path(folder), calls))
    first, last = sizes[0], sizes[-1]
    report = Report(
        "soak",
        given,
        f"{calls:,} calls, {IN_FLIGHT} under way, in {seconds:.0f} s: "
        + ", ".join(f"{kind} {count:,}" for kind, count in sorted(ended.items()))
        + ". Memory is PSS of the host's process, after a search for garbage.",
        ["after so many calls", "memory", "descriptors", "threads"],
    )
    for look, size in enumerate(sizes, 1):
        report.row(f"{calls * look // LOOKS:,}", f"{size.memory:.1f} MiB", str(size.descriptors), str(size.threads))
    report.at_most("growth of memory since the first tenth", (last.memory / first.memory - 1) * 100, GROWTH, " %")
    report.at_most("descriptors more than then", last.descriptors - first.descriptors, 0, "")
    report.at_most("threads more than then", last.threads - first.threads, 0, "")
    report.finish()


if __name__ == "__main__":
    main()
