"""A host with 100,000 calls that wait for a person, against one with none.

Each is measured in a process of its own that begins anew: how long it takes to be ready, what it holds in memory, how
long an answer takes until its call has ended, what the pages take on which people find what they may answer, and what
other calls see while 10,000 requests end at once. With BENCH_POSTGRESQL, the address of an empty PostgreSQL database,
it is done there too, with fewer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _side_by_side import Report, milliseconds, options

MANY, FEW, DUE = 100_000, 5_000, 10_000


def run(home: Path, mode: str, count: int, store: str, rounds: int, due: int) -> dict[str, Any]:
    script = Path(__file__).with_name("_waiting_host.py")
    command = [sys.executable, str(script), str(home), mode, str(count), store, str(rounds), str(due)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def disk_bytes(home: Path) -> int:
    return sum(file.stat().st_size for file in home.rglob("*") if file.is_file())


def main() -> None:
    given = options(__doc__)
    many, rounds, starts = (FEW, 20, 1) if given.quick else (MANY, 200, 3)
    due, report = min(DUE, many // 2), None
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as written:
        homes = {count: Path(written) / str(count) for count in (0, many)}
        sizes: dict[int, int] = {}
        filled: dict[int, float] = {}
        for count, home in homes.items():
            filled[count] = run(home, "fill", count, "-", rounds, 0)["seconds"]
            sizes[count] = disk_bytes(home)
        runs: dict[int, list[dict[str, Any]]] = {count: [] for count in homes}
        for number in range(starts):  # in turn
            for count, home in homes.items():
                last = number == starts - 1
                runs[count].append(run(home, "measure", count, "-", rounds, due if last else 0))
        report = Report(
            "waiting",
            given,
            f"Each in a process of its own, {starts} starts in turn, the fastest is told and the last does the "
            f"rest, {rounds} times each. An answer is timed from the approval until the call has ended, with the call "
            "followed, or with nobody following it. Memory is private to the process. A page has 50 rows; the inbox "
            "counts as well. Embedded store, synced.",
            ["what", "0 open", f"{many:,} open"],
        )
        tell(report, runs[0], runs[many], many)
        each_disk = (sizes[many] - sizes[0]) / many
        report.says(f"disk for each open request: {each_disk:,.0f} bytes, with its effect and indexes")
        if (store := os.environ.get("BENCH_POSTGRESQL")) is not None:
            fewer = many // 10
            home = Path(written) / "postgresql"
            run(home, "fill", fewer, store, rounds, 0)
            found = run(home, "measure", fewer, store, rounds, min(1_000, fewer // 2))
            report.says(f"PostgreSQL with {fewer:,} open: {brief(found)}")
            apart = run(Path(written) / "nodes", "across", 0, store, 20, 0)["across"]
            report.says(
                f"answered at one host and followed at another: {milliseconds(apart['p50'])}, worst"
                f" {milliseconds(apart['worst'])}"
            )
        report.finish()


def tell(report: Report, none: list[dict[str, Any]], full: list[dict[str, Any]], many: int) -> None:
    quickest = [min(one["ready_s"] for one in runs) for runs in (none, full)]
    memory = [min(one["memory_kb"] for one in runs) for runs in (none, full)]
    first, last = none[-1], full[-1]
    report.row("ready", *(f"{seconds:.2f} s" for seconds in quickest))
    report.row("memory when ready", *(f"{size / 1024:.1f} MB" for size in memory))
    report.row("tasks when ready", *(str(one["tasks"]) for one in (first, last)))
    for title, key in (
        ("answer until its followed call has ended, p50", "followed"),
        ("an operator's inbox", "inbox_operator"),
        ("an approver's inbox", "inbox_approver"),
        ("the inbox of one who may answer nothing", "inbox_nobody"),
        ("an operator's list of requests", "list_operator"),
        ("an approver's list of requests", "list_approver"),
    ):
        report.row(title, *(milliseconds(one[key]["p50"]) for one in (first, last)))
    report.at_most("ready later than with none open", quickest[1] - quickest[0], 2, " s")
    report.at_most("memory of each open request", (memory[1] - memory[0]) * 1024 / many, 1024, " B")
    report.at_most("memory of a call that was made here and waits", last["made_kb_each"] * 1024, 1024, " B")
    report.at_most("p99 of an answer until its call has ended, followed", last["followed"]["p99"] * 1e3, 100, " ms")
    report.at_most("p99 of an answer until its call has ended, not followed", last["stored"]["p99"] * 1e3, 100, " ms")
    report.at_most("tasks more than with none open", last["tasks"] - first["tasks"], 0, "")
    report.says(f"tasks after more calls began to wait: {last['tasks_after']}, {last['tasks']} before")
    if "expiry_s" in last:
        beside, alone = last["beside"], last["alone"]
        report.says(
            f"{min(DUE, many // 2):,} due at once ended in {last['expiry_s']:.1f} s; a read beside it took"
            f" {milliseconds(beside['p50'])}, p99 {milliseconds(beside['p99'])}, worst {milliseconds(beside['worst'])};"
            f" alone {milliseconds(alone['p50'])}, p99 {milliseconds(alone['p99'])}"
        )


def brief(found: dict[str, Any]) -> str:
    parts = [f"ready in {found['ready_s']:.2f} s", f"{found['tasks']} tasks"]
    for title, key in (
        ("followed", "followed"),
        ("not followed", "stored"),
        ("operator's inbox", "inbox_operator"),
        ("approver's inbox", "inbox_approver"),
        ("nobody's inbox", "inbox_nobody"),
        ("approver's list", "list_approver"),
    ):
        parts.append(f"{title} {milliseconds(found[key]['p50'])} (p99 {milliseconds(found[key]['p99'])})")
    if "expiry_s" in found:
        parts.append(f"1,000 due ended in {found['expiry_s']:.1f} s")
    return ", ".join(parts)


if __name__ == "__main__":
    main()
