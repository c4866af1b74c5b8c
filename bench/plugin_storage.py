"""A plugin's own tables through the wire, against apsw in our own process.

One call loops inside a caged plugin; each turn is one request to the host and its answer. The wire alone is measured
the same way, with a request for which the host does next to nothing: the value of a key that its cache does not have.
What is left between the two is what storage adds: the turn, the statement's examination, a thread. The grant and the
rules are asked for both alike, and so are part of the wire's time. Everything lies in memory where the machine offers
that: waiting for a disk takes longer than all of this, and varies.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import uvloop
from _home import install, write_package
from _side_by_side import Report, options

from paddock import Config, open_host

FAIR = {"PADDOCK_LIMITS_CPU_WEIGHT": "1024", "PADDOCK_LIMITS_CALL_TIMEOUT_S": "900"}
MEMORY = Path("/dev/shm")
CREATE = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL, tag TEXT)"
INSERT = "INSERT INTO note (text, tag) VALUES (?, ?)"
QUERY = "SELECT id, text FROM note WHERE id = ?"
WORK = ("nothing", "insert", "query")
METHODS = {"create": "db_write", "nothing": "read_only", "insert": "db_write", "query": "read_only"}
PLUGIN = f"""
from time import perf_counter
from paddock_sdk import Plugin

plugin = Plugin("notes", "1.0.0", capabilities_used=["storage:write", "host:cache"])
tables = plugin.storage

@plugin.method("notes.create")
def create(params, context):
    tables.exec({CREATE!r})
    return {{}}

def timed(work, count):
    seconds = []
    for number in range(count):
        began = perf_counter()
        work(number)
        seconds.append(perf_counter() - began)
    return {{"seconds": seconds}}

@plugin.method("notes.nothing")
def nothing(params, context):
    return timed(lambda number: plugin.host.cache.get("absent").wait(), params["count"])

@plugin.method("notes.insert")
def insert(params, context):
    return timed(lambda number: tables.exec({INSERT!r}, ["Peat is old", "soil"]), params["count"])

@plugin.method("notes.query")
def query(params, context):
    return timed(lambda number: tables.query({QUERY!r}, [number + 1]), params["count"])

plugin.run()
"""


class Direct:
    """The same work with apsw and the same pragmas, nothing in between."""

    def __init__(self, file: Path) -> None:
        self._connection = apsw.Connection(str(file))
        for name, value in (("journal_mode", "wal"), ("synchronous", "FULL")):
            self._connection.pragma(name, value)
        self._connection.execute(CREATE)

    def insert(self, number: int) -> None:
        del number
        self._connection.execute(INSERT, ("Peat is old", "soil"))

    def query(self, number: int) -> None:
        self._connection.execute(QUERY, (number + 1,)).fetchall()

    def close(self) -> None:
        self._connection.close()


def timed(work: Callable[[int], None], count: int) -> list[float]:
    seconds: list[float] = []
    for number in range(count):
        began = time.perf_counter()
        work(number)
        seconds.append(time.perf_counter() - began)
    return seconds


async def measure(folder: Path, rounds: int, count: int) -> dict[str, list[float]]:
    """The median time of each operation in each round."""
    package = write_package(
        folder / "notes",
        "notes",
        {"main.py": PLUGIN},
        runtime={"command": ["python3", "./main.py"]},
        capabilities=["storage:write", "host:cache"],
        methods=[{"name": f"notes.{method}", "effects": [effect]} for method, effect in METHODS.items()],
    )
    install(folder / "home", package)
    medians: dict[str, list[float]] = {name: [] for name in (*WORK, "direct insert", "direct query")}
    direct = Direct(folder / "direct.db")
    async with open_host(Config(home=folder / "home", environ=FAIR)) as host:
        await host.call("notes.notes.create", {})
        for number in range(-1, rounds):
            spent: dict[str, list[float]] = {}
            for name in WORK:
                spent[name] = (await host.call(f"notes.notes.{name}", {"count": count}))["seconds"]
                if name != "nothing":
                    spent[f"direct {name}"] = timed(getattr(direct, name), count)
            for name, seconds in spent.items():
                if number >= 0:
                    medians[name].append(statistics.median(seconds))
    direct.close()
    return medians


def main() -> None:
    given = options(__doc__)
    rounds, count = (10, 100) if given.quick else (100, 100)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        found = uvloop.run(measure(Path(folder), rounds, count))
    report = Report(
        "plugin_storage",
        given,
        f"{rounds * count:,} of each, one after another, in {rounds} rounds of {count} in turn. An insert is a "
        "transaction by itself and synced when it is answered, on both sides. What the host adds is told for each "
        "round by itself, on a machine that is as busy for all its parts; everything is the median of the rounds.",
        ["what", "through the wire", "apsw in process", "one wire round trip", "what the host adds"],
    )
    for name in ("insert", "query"):
        parts = through, alone, wire = found[name], found[f"direct {name}"], found["nothing"]
        added = [one - two - three for one, two, three in zip(*parts, strict=True)]
        medians = [statistics.median(seconds) * 1e6 for seconds in (through, alone, wire, added)]
        report.row(name, *(f"{microseconds:.0f} µs" for microseconds in medians))
        report.at_most(f"what the host adds to each {name}", medians[-1], 100, unit=" µs")
    report.finish()


if __name__ == "__main__":
    main()
