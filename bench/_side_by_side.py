"""Measuring two things against each other on a machine that others use too.

What is compared runs alternately in one process and many times, so that a busy minute slows both; ratios are taken
from the fastest runs, which are the ones that were disturbed least. Nothing here ever fails a test.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

RESULTS = Path(__file__).parent / "RESULTS.md"


@dataclass(frozen=True, slots=True)
class Times:
    """How long each run of one thing took, in seconds."""

    runs: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.runs)

    @property
    def median(self) -> float:
        return statistics.median(self.runs)


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line."""

    quick: bool
    save: bool
    large: bool = False


@dataclass(slots=True)
class Report:
    """The table of one measurement, printed, and kept in RESULTS.md when asked for."""

    name: str
    options: Options
    included: str
    headings: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list[Sequence[str]])
    goals: list[str] = field(default_factory=list[str])

    def row(self, *cells: str) -> None:
        self.rows.append(cells)

    def at_most(self, what: str, value: float, goal: float, unit: str = "×") -> None:
        verdict, digits = "PASS" if value <= goal else "FAIL", 2 if unit == "×" else 0
        self.goals.append(f"{verdict}  {what}: {value:.{digits}f}{unit} (goal: at most {goal:g}{unit})")

    def at_least(self, what: str, value: float, goal: float) -> None:
        self.goals.append(f"{'PASS' if value >= goal else 'FAIL'}  {what}: {value:,.0f} (goal: at least {goal:,.0f})")

    def says(self, what: str) -> None:
        """Something to know that has no goal, or none here."""
        self.goals.append(f"      {what}")

    def finish(self) -> None:
        text = "\n".join(
            [self.included, "", *_table(self.headings, self.rows), "", *(f"- {line}" for line in self.goals)]
        )
        print(machine())
        print(text.rstrip())
        if self.options.save:
            _keep(self.name, f"`{_command(self.name, self.options)}` on {machine()}.\n\n{text.rstrip()}")


def options(description: str | None, *, large: str = "") -> Options:
    """The options every measurement has, and `--large` where there is something to say about it."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it runs, not what it costs")
    parser.add_argument("--save", action="store_true", help="keep the result in RESULTS.md")
    if large:
        parser.add_argument("--large", action="store_true", help=large)
    given = parser.parse_args()
    return Options(given.quick, given.save, bool(large) and given.large)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def alternate(subjects: Mapping[str, Callable[[], float]], rounds: int, warm_up: int = 1) -> dict[str, Times]:
    """Run every subject once a round, in changing order, and give the seconds that each reported."""
    names = list(subjects)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-warm_up, rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            spent = subjects[name]()
            if number >= 0:
                seconds[name].append(spent)
    return {name: Times(tuple(runs)) for name, runs in seconds.items()}


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def machine() -> str:
    """The shape of the machine, without its name."""
    load = os.getloadavg()[0]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} cores, {python}, {platform.system()} {platform.machine()}, load {load:.1f}"


def _command(name: str, given: Options) -> str:
    flags = [flag for flag, on in (("--quick", given.quick), ("--large", given.large), ("--save", given.save)) if on]
    return " ".join(["./run", "bench", name, *flags])


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]

    def line(cells: Sequence[str]) -> str:
        first, *others = [*cells]
        shown = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        return f"| {' | '.join(shown)} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return [line(headings), line(rule), *(line(row) for row in rows)]


def _keep(name: str, text: str) -> None:
    """Put the section of one measurement into RESULTS.md, in the place of its last one."""
    before = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else "# Last results\n"
    opening, *found = re.split(r"^## ", before, flags=re.MULTILINE)
    sections = {section.partition("\n")[0]: section.partition("\n")[2].strip() for section in found}
    sections[name] = text
    body = "".join(f"\n## {title}\n\n{content}\n" for title, content in sorted(sections.items()))
    RESULTS.write_text(f"{opening.strip()}\n{body}", encoding="utf-8")
    print(f"kept in {RESULTS.name}", file=sys.stderr)
