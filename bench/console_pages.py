"""The console with many plugins and a long ledger: how long the server takes for each page, and what a page weighs.

Every page is asked for one after another over a kept connection, as a browser asks, packed. Held against it is the
smallest answer of the same daemon, `/healthz`: what HTTP costs here.
"""

from __future__ import annotations

import asyncio
import gzip
import http.client
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from _entries import CLOCK, RANDOM, ended, named
from _home import install, write_package
from _mcp_servers import Served, daemon
from _side_by_side import Report, milliseconds, options
from msgspec.structs import replace

from paddock.console.places import PERSONAL, PLACES
from paddock.ledger.write.lifespan import open_ledger
from paddock.ledger.write.writer import MAX_BATCH_ENTRIES
from paddock.store.database import open_database

FLOOR: Final = "/healthz"
LINKED: Final = re.compile(r'(?:href|src)="(/static/[^"]+)"')
HEADERS: Final = {"accept": "text/html", "accept-encoding": "gzip"}
PROGRAM: Final = """
from paddock_sdk import Plugin
plugin = Plugin({name!r}, "1.0.0")
@plugin.tool
def look(params, context):
    return params
plugin.run()
"""
SCHEMA: Final = {
    "type": "object",
    "properties": {f"field_{number}": {"type": "string", "title": f"Field {number}"} for number in range(12)},
}


def main() -> None:
    given = options(__doc__)
    plugins, rows, rounds = (10, 20_000, 5) if given.quick else (200, 1_000_000, 31)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as written:
        home = Path(written) / "home"
        names = [f"plugin-{number:03}" for number in range(plugins)]
        install(home, *(_package(Path(written) / name, name) for name in names))
        call = asyncio.run(_fill(home, rows, names))
        with daemon(home, "") as served:
            client = Browser(served)
            pages = _pages(names[0], call)
            taken = {path: [client.get(path)[0] for _ in range(rounds)] for path in (FLOOR, *pages)}
            weights = {path: client.weighed(path) for path in pages}
    floor = statistics.median(taken[FLOOR])
    report = Report(
        "console_pages",
        given,
        f"{plugins} plugins, enabled and started by their first call, and {rows:,} entries in the ledger, one of a "
        f"hundred about a failure. {rounds} requests for each page, one after another; the median, and the slowest but "
        "one in twenty. The weight is that of the page, packed, and with all that it loads on the first visit.",
        ["page", "median", "p95", "against /healthz", "page", "first visit"],
    )
    for path in (FLOOR, *pages):
        median, slow = statistics.median(taken[path]), statistics.quantiles(taken[path], n=20)[18]
        page, whole = weights.get(path, (0, 0))
        sizes = (f"{page / 1024:.1f} KB", f"{whole / 1024:.1f} KB") if whole else ("", "")
        report.row(
            path.replace(call, "CALL"), milliseconds(median), milliseconds(slow), f"{median / floor:.1f}×", *sizes
        )
    report.at_most("the slowest page, median", max(statistics.median(taken[path]) for path in pages) * 1000, 150, " ms")
    report.at_most("the first visit to the first page", weights["/"][1] / 1024, 60, " KB")
    report.finish()


def _package(folder: Path, name: str) -> Path:
    tool = {"name": "look", "description": "Looks", "effects": ["read_only"], "input_schema": SCHEMA}
    fields = {"runtime": {"command": ["python3", "./main.py"]}, "start": "lazy", "capabilities": [], "tools": [tool]}
    return write_package(folder, name, {"main.py": PROGRAM.format(name=name)}, **fields)


async def _fill(home: Path, rows: int, names: list[str]) -> str:
    """So many entries, as the daemon writes them; the call that the last one is about."""
    about: dict[str, Any] = {}
    async with (
        open_database(home / "data" / "paddock.db") as database,
        open_ledger(database, CLOCK, RANDOM, state=home / "state") as writer,
    ):
        for begin in range(0, rows, MAX_BATCH_ENTRIES):
            for number in range(begin, min(begin + MAX_BATCH_ENTRIES, rows)):
                event, about = replace(ended(number), name=names[number % len(names)]), named(number)
                if number % 100 == 0:
                    failed = {"error_code": "plugin.failed", "error_category": "plugin", "error_message": "no oats"}
                    event = replace(event, status="failed", success=False, result_hash=None, **failed)
                writer.enqueue(event, "default", **about)
            await writer.flush()
    return str(about["call"])


def _pages(plugin: str, call: str) -> list[str]:
    """Every tab of the navigation, some of their filters, and the pages of one plugin and one call."""
    tabs = [section.path for place in (*PLACES, PERSONAL) for section in place.sections]
    filtered = ["/ledger?wrong=1", f"/ledger?plugin={plugin}", "/find?q=plugin", "/map?all"]
    of_plugin = ["", "/run/look", "/settings", "/calls", "/versions", "/logs"]
    pages = [*tabs, *filtered, f"/calls/{call}", *(f"/plugins/{plugin}{part}" for part in of_plugin)]
    return list(dict.fromkeys(page for page in pages if page != "/ledger/verify"))  # which checks the whole chain


class Browser:
    """Asks for pages over one connection."""

    def __init__(self, served: Served) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=60)
        self._headers = {**served.headers, **HEADERS}

    def get(self, path: str) -> tuple[float, bytes]:
        """Seconds until the whole answer is there, and the answer as it came."""
        began = time.perf_counter()
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        took = time.perf_counter() - began
        if answer.status != 200:
            raise SystemExit(f"{path} answers {answer.status}")
        return took, content

    def weighed(self, path: str) -> tuple[int, int]:
        """Bytes of a page on the wire, and of it with all that it loads."""
        _, content = self.get(path)
        packed = content[:2] == b"\x1f\x8b"
        links = set(LINKED.findall((gzip.decompress(content) if packed else content).decode()))
        return len(content), len(content) + sum(len(self.get(link)[1]) for link in sorted(links))


if __name__ == "__main__":
    main()
