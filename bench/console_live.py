"""Calls while five hundred pages of the console are open and live, against the same calls with none open.

Each page has two streams, as in a browser: the number beside the inbox, and its own content. A quarter of the pages
each show home, the list of calls, the inbox, and the plugin that is called.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Final

import uvloop
from _home import install, write_package
from _mcp_servers import Served, daemon
from _side_by_side import Report, options
from governed_call import METHOD, PLUGIN
from http_execute import IN_FLIGHT, Run, called, followers

PAGES: Final = 500
CONTENTS: Final = ("/home/live", "/activity/live", "/inbox/live", "/plugins/echo/live?part=overview")
STREAMS: Final = tuple(path for content in CONTENTS for path in ("/inbox-badge", content))
NONE, BADGES, WHOLE = "no page open", f"{PAGES} pages, the number alone", f"{PAGES} live pages"


async def measure(one: Served, rounds: int, few: int, many: int) -> dict[str, list[Run]]:
    await called(one, few, many)  # warms up
    found = {NONE: [await called(one, few, many) for _ in range(rounds)]}
    async with followers(one, PAGES, "/inbox-badge"):
        found[BADGES] = [await called(one, few, many) for _ in range(rounds)]
    async with followers(one, 2 * PAGES, *STREAMS):
        found[WHOLE] = [await called(one, few, many) for _ in range(rounds)]
    return found


def main() -> None:
    given = options(__doc__)
    rounds, few, many = (1, 100, 1_000) if given.quick else (9, 500, 4_000)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as written:
        folder = Path(written)
        fields = {"runtime": {"command": ["python3", "./main.py"]}, "capabilities": [], "methods": [METHOD]}
        install(folder / "home", write_package(folder / "echo", "echo", {"main.py": PLUGIN}, **fields))
        with daemon(folder / "home", "/api/v1/plugins/echo/execute") as served:
            found = uvloop.run(measure(served, rounds, few, many))
    report = Report(
        "console_live",
        given,
        f"{many:,} calls with {IN_FLIGHT} under way, {rounds} rounds, of which the medians are told.",
        ["what", f"p99 at {IN_FLIGHT}", f"calls/s at {IN_FLIGHT}", "memory"],
    )
    p99 = {name: statistics.median(run.p99 for run in runs) for name, runs in found.items()}
    for name, runs in found.items():
        rate, memory = (
            statistics.median(values) for values in zip(*((run.rate, run.memory) for run in runs), strict=True)
        )
        report.row(name, f"{p99[name] * 1e3:.1f} ms", f"{rate:,.0f}", f"{memory:.0f} MB")
    report.at_most("p99 with the number alone, against no page", p99[BADGES] / p99[NONE], 2)
    report.at_most("p99 with live pages, against no page", p99[WHOLE] / p99[NONE], 2)
    report.finish()


if __name__ == "__main__":
    main()
