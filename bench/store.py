"""How many rows a second are inserted durably by 1, 8 and 64 callers, against single-row commits with bare apsw."""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import apsw
from _side_by_side import Report, alternate, options, timed

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))

from paddock.store.database import Database, Transaction, open_database  # noqa: E402 - found by the line above

CALLERS = (1, 8, 64)
INSERT = "INSERT INTO plugin_values (tenant, plugin, key, value, size, changed_at) VALUES (?, ?, ?, ?, ?, ?)"


def main() -> None:
    given = options(__doc__)
    appends = 64 if given.quick else 1_024
    numbers = itertools.count()
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder, asyncio.Runner() as runner:
        opened = open_database(Path(folder) / "ours.db")
        database = runner.run(opened.__aenter__())
        try:
            ours = {
                f"ours, {callers} caller{'' if callers == 1 else 's'}": _ours(
                    runner, database, callers, appends, numbers
                )
                for callers in CALLERS
            }
            bare = {"bare apsw, one commit a row": _bare(Path(folder) / "bare.db", appends, numbers)}
            times = alternate(bare | ours, rounds=2 if given.quick else 9)
        finally:
            runner.run(opened.__aexit__(None, None, None))
    report = Report(
        "store",
        given,
        f"{appends:,} rows a run; write-ahead log, synced on every commit on both sides. Ours counts "
        "the event loop, the hand-over to the writer thread and back, and a savepoint for each unit of work.",
        ["what", "fastest", "median", "rows a second", "against bare apsw"],
    )
    floor = times["bare apsw, one commit a row"]
    for name, measured in times.items():
        speed = f"{appends / measured.best:,.0f}"
        report.row(
            name, f"{measured.best:.3f} s", f"{measured.median:.3f} s", speed, f"{floor.best / measured.best:.2f}×"
        )
    report.finish()


def _row(number: int) -> tuple[str | int, ...]:
    return ("default", "notes", f"note_{number:026}", '{"text": "remember the milk"}', 28, "2026-01-01T00:00:00+00:00")


def _ours(
    runner: asyncio.Runner, database: Database, callers: int, appends: int, numbers: itertools.count[int]
) -> Callable[[], float]:
    async def caller(count: int) -> None:
        for _ in range(count):
            row = _row(next(numbers))

            def unit(tx: Transaction, row: tuple[str | int, ...] = row) -> None:
                tx.execute(INSERT, row)

            await database.write(unit)

    async def everyone() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(caller(appends // callers))

    return lambda: timed(lambda: runner.run(everyone()))


def _bare(path: Path, appends: int, numbers: itertools.count[int]) -> Callable[[], float]:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "FULL")
    connection.execute(
        "CREATE TABLE plugin_values (tenant TEXT, plugin TEXT, key TEXT, value TEXT, size INTEGER, changed_at TEXT, "
        "PRIMARY KEY (tenant, plugin, key)) STRICT; CREATE INDEX plugin_values_by_plugin ON plugin_values (plugin)"
    )

    def work() -> None:
        for _ in range(appends):
            connection.execute(INSERT, _row(next(numbers)))

    return lambda: timed(work)


if __name__ == "__main__":
    main()
