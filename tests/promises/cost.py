"""What each test costs in CPU seconds, and whether each room keeps to its budget.

A test's cost is what its worker used until its teardown ended: the worker itself, the children that it reaped, and the
commands that `fixtures/ready_commands.py` forked elsewhere. Budgets stand in tests/budgets.toml. The table is printed
at the end of a run, and the seconds of each test are kept in `.run/last-test.json`.
"""

from __future__ import annotations

import os
import tomllib
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

_PROPERTY = "cpu_s"
_foreign_cpu_s = 0.0


def add_foreign_cpu(seconds: float) -> None:
    """Count CPU time of a process that this one started through another."""
    global _foreign_cpu_s
    _foreign_cpu_s += seconds


def used_cpu_s() -> float:
    """CPU seconds of this process, its reaped children and the processes that were counted by hand."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + _foreign_cpu_s


def room_of(nodeid: str) -> str:
    """The folder below tests/ that a test stands in, or the file where it stands in none."""
    parts = nodeid.partition("::")[0].split("/")
    return parts[1].removesuffix(".py") if len(parts) > 1 else parts[0]


class Meter:
    """In each process that runs tests: attaches to each test's last report what it cost."""

    def __init__(self) -> None:
        self._before = 0.0  # so that the first test of a worker carries its collection; it is taken out below
        self._collected: float | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "setup" and self._collected is None:
            self._collected = self._before = used_cpu_s()
            report.user_properties.append(("collection_cpu_s", self._collected))
        if report.when == "teardown":
            now = used_cpu_s()
            report.user_properties.append((_PROPERTY, round(now - self._before, 3)))
            self._before = now
        return report


def cost_of(report: pytest.TestReport, name: str = _PROPERTY) -> float | None:
    """The CPU seconds that a worker attached to a report."""
    return next((float(value) for key, value in report.user_properties if key == name), None)  # type: ignore[arg-type]


def read_budgets(path: Path) -> Mapping[str, float]:
    """CPU seconds by room; `default` counts for rooms that are not named."""
    return tomllib.loads(path.read_text(encoding="utf-8"))["cpu_seconds"]


def table(costs: Mapping[str, float], collection: float, budgets: Mapping[str, float]) -> list[str]:
    """The CPU seconds of each room beside its budget, dearest first."""
    rooms: dict[str, float] = defaultdict(float)
    for nodeid, seconds in costs.items():
        rooms[room_of(nodeid)] += seconds
    lines = [f"{'room':20} {'CPU s':>7} {'budget':>7}"]
    for room, seconds in sorted(rooms.items(), key=lambda pair: -pair[1]):
        lines.append(_line(room, seconds, budgets.get(room, budgets["default"])))
    total = sum(rooms.values()) + collection
    lines.append(f"{'collecting':20} {collection:7.1f}")
    lines.append(_line("together", total, budgets["together"]))
    return lines


def _line(name: str, seconds: float, budget: float) -> str:
    return f"{name:20} {seconds:7.1f} {budget:7.0f}{'  over budget' if seconds > budget else ''}"
