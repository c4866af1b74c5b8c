"""What the ledger costs: rows a second against the same bytes with bare apsw, verifying, a page of 50, bytes a row."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import apsw
from _entries import CLOCK, RANDOM, ended, named
from _side_by_side import Report, milliseconds, options

from paddock.ledger.chain.verify import verify_ledger
from paddock.ledger.read.entries import EntryFilter, list_entries
from paddock.ledger.write.append import TransactionLedger
from paddock.ledger.write.lifespan import open_ledger
from paddock.ledger.write.writer import MAX_BATCH_ENTRIES
from paddock.store.database import Database, Transaction, open_database, open_direct

CALLERS = 64


def main() -> None:
    given = options(__doc__)
    rows = 20_000 if given.quick else 1_000_000
    durable = 2_000 if given.quick else 50_000
    report = Report(
        "ledger",
        given,
        f"{rows:,} entries of read calls, each with a call, a request and a principal, written as the daemon does: "
        f"taken at once, in batches of up to {MAX_BATCH_ENTRIES:,}, with all indexes and a checkpoint each thousand. "
        "Bare apsw inserts the same finished rows, hashes and all, into the same table in transactions of the same "
        f"size: what SQLite alone needs. {durable:,} more are units of work of their own, and {CALLERS} callers wait.",
        ["what", "seconds", "rows a second", "CPU a row", "against bare apsw"],
    )
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        home = Path(folder)
        file = home / "ours.db"
        batched, batched_cpu, waited, waited_cpu = asyncio.run(_append(file, home / "state", rows, durable))
        bare, bare_cpu = _bare(file, home / "bare.db", rows)
        for name, count, seconds, cpu in (
            ("bare apsw, the same rows", rows, bare, bare_cpu),
            ("ours, in batches", rows, batched, batched_cpu),
            (f"ours, {CALLERS} callers that wait", durable, waited, waited_cpu),
        ):
            against = f"{(seconds / count) / (bare / rows):.2f}×"
            speed, each = f"{count / seconds:,.0f}", f"{cpu / count * 1e6:.1f} µs"
            report.row(name, f"{seconds:.2f} s", speed, each, against)
        verified = _verified(file, home / "state", rows + durable)
        report.row("verify", f"{verified:.2f} s", f"{(rows + durable) / verified:,.0f}", "", "")
        for name, wanted in (
            ("a page of 50, newest", EntryFilter()),
            ("a page of 50, one principal", EntryFilter(principal="p3")),
        ):
            report.row(name, milliseconds(_page(file, wanted)), "", "", "")
        size = file.stat().st_size / (rows + durable)
        report.row("bytes a row, with indexes", f"{size:,.0f}", "", "", "")
    report.finish()


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
        start, start_cpu = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for place in range(CALLERS):
                group.create_task(_wait_for_each(database, range(place, durable, CALLERS)))
        return spent, cpu, time.perf_counter() - start, time.process_time() - start_cpu


async def _wait_for_each(database: Database, numbers: range) -> None:
    def record(tx: Transaction) -> None:
        TransactionLedger(tx, CLOCK, RANDOM, "default").record(event, **about)

    for number in numbers:
        event, about = ended(number), named(number)
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
        query = "SELECT * FROM ledger WHERE tenant = 'default' AND seq BETWEEN ? AND ?"
        ready = source.execute(query, (begin + 1, begin + MAX_BATCH_ENTRIES)).fetchall()
        start, start_cpu = time.perf_counter(), time.process_time()
        with connection:
            connection.executemany(insert, ready)
        spent += time.perf_counter() - start
        cpu += time.process_time() - start_cpu
    connection.close()
    source.close()
    return spent, cpu


def _verified(file: Path, state: Path, rows: int) -> float:
    with open_direct(file) as database:
        start = time.perf_counter()
        (finding,) = verify_ledger(database, state)
        spent = time.perf_counter() - start
    if (finding.verdict, finding.rows) != ("sound", rows):
        raise SystemExit(f"the chain is not sound: {finding}")
    return spent


def _page(file: Path, wanted: EntryFilter) -> float:
    with open_direct(file) as database:
        times: list[float] = []
        for _ in range(21):
            start = time.perf_counter()
            found = database.read(lambda tx: list_entries(tx, entry_filter=wanted, limit=50))
            times.append(time.perf_counter() - start)
        if len(found) != 50:
            raise SystemExit("the page is not full")
    return sorted(times)[10]


if __name__ == "__main__":
    main()
