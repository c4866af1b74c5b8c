"""What the ledger costs: rows a second against the same bytes with bare apsw, verifying, pages, bytes a row."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
from _entries import CLOCK, RANDOM, ended, named
from _side_by_side import Report, milliseconds, options

from paddock.core.events.event import Event
from paddock.core.ids import new_id
from paddock.ledger.chain.verify import verify_ledger
from paddock.ledger.entry import EntryDraft, LedgerEntry
from paddock.ledger.read.entries import EntryFilter, find_entries, list_entries
from paddock.ledger.write.append import record_draft
from paddock.ledger.write.lifespan import open_ledger
from paddock.ledger.write.writer import MAX_BATCH_ENTRIES
from paddock.store.database import Database, DirectDatabase, Transaction, open_database, open_direct

CALLERS = 64
PAGE_ROWS = 50


def main() -> None:
    given = options(__doc__, large="with a ledger of ten million rows too: twenty minutes, and 15 GB of disk")
    sizes = (1_000, 5_000, 20_000) if given.quick else (1_000, 100_000, 1_000_000)
    sizes += (10_000_000,) if given.large else ()
    durable = 2_000 if given.quick else 50_000
    report = Report(
        "ledger",
        given,
        "Entries of calls of ten plugins, each with a call, a request and one of a hundred principals, two in a "
        "thousand failed or denied. They are written as the daemon does: taken at once, in batches of up to "
        f"{MAX_BATCH_ENTRIES:,}, with all indexes and a checkpoint each thousand. Then {CALLERS} callers wait for "
        f"{durable:,} more, each recorded in a unit of work of its own as that of an effect is. Bare apsw inserts the "
        "same finished rows, hashes and all, into the same table in transactions of the same size: what SQLite alone "
        "needs. Pages are those of 50 with each filter, the newest ones and those from before the first tenth of the "
        "ledger on, by time or by number; some have filters that no row meets together. The median of 21 is given.",
        ["what", *(f"{size:,} rows" for size in sizes)],
    )
    columns: list[dict[str, str]] = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
            columns.append(_measure(report, Path(folder), size, durable, goals=size == sizes[-1]))
    for name in columns[-1]:
        report.row(name, *(column[name] for column in columns))
    report.finish()


def _measure(report: Report, home: Path, rows: int, durable: int, *, goals: bool) -> dict[str, str]:
    file, total = home / "ours.db", rows + durable
    batched, batched_cpu, waited, waited_cpu = asyncio.run(_append(file, home / "state", rows, durable))
    size = file.stat().st_size / total
    bare, bare_cpu = _bare(file, home / "bare.db", rows)
    verified, verified_cpu = _verified(file, home / "state", total)
    pages = _pages(file)
    told = {
        "bare apsw, the same rows": _speed(rows, bare, bare_cpu),
        "ours, in batches": _speed(rows, batched, batched_cpu),
        "against bare apsw": f"{batched / bare:.2f}×",
        f"ours, {CALLERS} callers that wait": _speed(durable, waited, waited_cpu),
        "verify": f"{verified:.2f} s, {verified_cpu / total * 1e6:.1f} µs a row",
        "bytes a row, with indexes": f"{size:,.0f}",
        **{f"page: {name}": milliseconds(seconds) for name, seconds in pages.items()},
    }
    if goals:
        report.at_least(f"rows a second of {CALLERS} callers that wait", durable / waited, 15_000)
        report.at_most("verify a million rows", verified / total * 1e6, 10, " s")
        report.at_most("bytes a row with indexes", size, 700, "")
        slowest = max(pages, key=lambda name: pages[name])
        report.at_most(f"the slowest page ({slowest})", pages[slowest] * 1000, 20, " ms")
    return told


def _speed(rows: int, seconds: float, cpu: float) -> str:
    return f"{rows / seconds:,.0f}/s, {cpu / rows * 1e6:.1f} µs"


async def _append(file: Path, state: Path, rows: int, durable: int) -> tuple[float, float, float, float]:
    """Wall and CPU seconds of both ways; making the events is a part of neither."""
    async with (
        open_database(file) as database,
        open_ledger(database, CLOCK, RANDOM, state=state) as writer,
    ):
        spent = cpu = 0.0
        for begin in range(0, rows, MAX_BATCH_ENTRIES):
            ready = [(ended(number), named(number)) for number in range(begin, min(begin + MAX_BATCH_ENTRIES, rows))]
            start, start_cpu = time.perf_counter(), time.process_time()
            for event, about in ready:
                writer.enqueue(event, "default", **about)
            await writer.flush()
            spent += time.perf_counter() - start
            cpu += time.process_time() - start_cpu
        made = [(ended(number), named(number)) for number in range(rows, rows + durable)]
        start, start_cpu = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for place in range(CALLERS):
                group.create_task(_wait_for_each(database, made[place::CALLERS]))
        return spent, cpu, time.perf_counter() - start, time.process_time() - start_cpu


async def _wait_for_each(database: Database, made: Sequence[tuple[Event, dict[str, Any]]]) -> None:
    for event, about in made:

        def record(tx: Transaction, event: Event = event, about: dict[str, Any] = about) -> None:
            draft = EntryDraft(event, "default", CLOCK.now(), **about)
            record_draft(tx, (new_id("evt", CLOCK, RANDOM), draft), RANDOM)

        await database.write(record)


def _bare(ours: Path, path: Path, rows: int) -> tuple[float, float]:
    with open_direct(path):
        pass  # for the same table
    connection = apsw.Connection(str(path))
    connection.pragma("synchronous", "FULL")
    names = [row[1] for row in connection.execute("PRAGMA table_info(ledger)")]
    insert = f"INSERT INTO ledger VALUES ({', '.join('?' * len(names))})"
    source = apsw.Connection(str(ours), flags=apsw.SQLITE_OPEN_READONLY)
    spent = cpu = 0.0
    for begin in range(0, rows, MAX_BATCH_ENTRIES):
        query = "SELECT * FROM ledger WHERE chain = 1 AND seq BETWEEN ? AND ?"
        ready = source.execute(query, (begin + 1, begin + MAX_BATCH_ENTRIES)).fetchall()
        start, start_cpu = time.perf_counter(), time.process_time()
        with connection:
            connection.executemany(insert, ready)
        spent += time.perf_counter() - start
        cpu += time.process_time() - start_cpu
    connection.close()
    source.close()
    return spent, cpu


def _verified(file: Path, state: Path, rows: int) -> tuple[float, float]:
    with open_direct(file) as database:
        start, start_cpu = time.perf_counter(), _cpu_seconds()
        (finding,) = verify_ledger(database, state, address=file)  # as `paddock ledger verify` does
        spent, cpu = time.perf_counter() - start, _cpu_seconds() - start_cpu
    if (finding.verdict, finding.rows) != ("sound", rows):
        raise SystemExit(f"the chain is not sound: {finding}")
    return spent, cpu


def _cpu_seconds() -> float:
    """What this process has used, and those that it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _pages(file: Path) -> dict[str, float]:
    """The seconds of a page of each kind."""
    with open_direct(file) as database:
        ends = database.read(lambda tx: tx.one("SELECT max(seq) AS last FROM ledger"))
        tenth = max(200, ends["last"] // 10) if ends else 200
        row = database.read(lambda tx: tx.one("SELECT at, call, request FROM ledger WHERE seq = ?", (tenth,)))
        assert row is not None
        wanted: dict[str, dict[str, Any]] = {
            "all": {},
            "a type": {"type": "call.ended"},
            "types by prefix": {"type": "call.*"},
            "a type that it stands for": {"type": "plugin.method_called"},
            "a plugin": {"plugin": "plugin-3"},
            "a principal": {"principal": "p3"},
            "what went wrong": {"wrong": True},
            "an outcome": {"outcome": "denied"},
            "calls that succeeded": {"outcome": "succeeded"},
            "a plugin and a principal": {"plugin": "plugin-3", "principal": "p3"},
            "a principal and a type": {"principal": "p3", "type": "call.ended"},
            "a plugin, what went wrong": {"plugin": "plugin-7", "wrong": True},
        }
        pages: dict[str, float] = {}
        for name, given in wanted.items():
            pages[name] = _page(database, EntryFilter(**given))
            pages[f"{name}, far back in time"] = _page(database, EntryFilter(**given, until=row["at"]))
            pages[f"{name}, far back by number"] = _page(database, EntryFilter(**given), before=tenth)
        # The whole ledger is searched for what is not there.
        for name, given in {
            "a plugin without failures": {"plugin": "plugin-5", "wrong": True},
            "an outcome that a plugin never has": {"plugin": "plugin-7", "outcome": "denied"},
            "a plugin, a principal and failures": {"plugin": "plugin-5", "principal": "p3", "wrong": True},
        }.items():
            pages[f"none: {name}"] = _page(database, EntryFilter(**given), rows=0)
            pages[f"none: {name}, far back"] = _page(database, EntryFilter(**given, until=row["at"]), rows=0)
        pages["between two times, far back"] = _page(database, EntryFilter(since=row["at"], until=row["at"] + "~"))
        pages["since a time, oldest first"] = _page(database, EntryFilter(since=row["at"]), newest_first=False)
        pages["a call, far back"] = _page(database, EntryFilter(call=row["call"]), rows=1)
        pages["a request, far back"] = _page(database, EntryFilter(request=row["request"]), rows=1)
        pages["by an id, far back"] = _median(lambda: database.read(lambda tx: find_entries(tx, row["call"])), 1)
    return pages


def _page(
    database: DirectDatabase,
    wanted: EntryFilter,
    *,
    newest_first: bool = True,
    before: int | None = None,
    rows: int | None = None,
) -> float:
    """The seconds of a page with as many rows as it should have; some where it is not given."""
    return _median(
        lambda: database.read(
            lambda tx: list_entries(tx, entry_filter=wanted, newest_first=newest_first, before=before, limit=PAGE_ROWS)
        ),
        rows,
    )


def _median(work: Callable[[], list[LedgerEntry]], rows: int | None) -> float:
    times: list[float] = []
    for _ in range(21):
        start = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - start)
        if len(found) != rows and (rows is not None or not found):
            raise SystemExit(f"the page has {len(found)} rows")
    return sorted(times)[10]


if __name__ == "__main__":
    main()
