"""Runs of entries that say only that a plugin started and stopped, or crashed again and again, as one row of a list.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from paddock.core.printable import count_text

MIN_RUN_ENTRIES: Final = 4
_MIN_CRASHES: Final = 2  # a single crash is a row of its own
_CRASHED: Final = "plugin.crashed"
_VERBS: Final = {
    _CRASHED: "crashed",
    "plugin.spawned": "started",
    "plugin.connected": "connected",
    "plugin.initialized": "was ready",
    "plugin.stopped": "stopped",
    "plugin.exited": "ended",
}
_LIFECYCLE_TYPES: Final = frozenset({*_VERBS, "plugin.tool_registered", "plugin.embedded"})


def collapse_runs(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a list with each run of lifecycle entries of one plugin as a row that contains the run.

    A run with several crashes is as bad as they are, and says how many there were. No other failure is part of a run.
    """
    collapsed: list[dict[str, Any]] = []
    for plugin, run in groupby(rows, key=_lifecycle_plugin):
        members = [dict(row) for row in run]
        crashes = sum(row["type"] == _CRASHED for row in members)
        if plugin is None or not 0 < crashes < _MIN_CRASHES:
            collapsed += _collapse(plugin, members)
        else:
            for crashed, part in groupby(members, key=lambda row: row["type"] == _CRASHED):
                collapsed += _collapse(None if crashed else plugin, list(part))
    return collapsed


def _collapse(plugin: str | None, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if plugin is None or len(members) < MIN_RUN_ENTRIES:
        return [row | {"run": []} for row in members]
    mood = "bad" if any(row["mood"] == "bad" for row in members) else "calm"
    return [members[0] | {"run": members, "mood": mood, "sentence": _run_text(plugin, members)}]


def _lifecycle_plugin(row: Mapping[str, Any]) -> str | None:
    joins = row["type"] == _CRASHED or (row["type"] in _LIFECYCLE_TYPES and row["mood"] != "bad")
    return row["plugin"] if joins else None


def _run_text(plugin: str, members: Sequence[Mapping[str, Any]]) -> str:
    """Return what happened how often: `notes started and stopped 14 times`."""
    counts = Counter(str(row["type"]) for row in members)
    started, stopped = counts["plugin.spawned"], counts["plugin.stopped"]
    if started and stopped and started == stopped:
        return f"{plugin} started and stopped {_times(started)}"
    parts = [f"{verb} {_times(counts[kind])}" for kind, verb in _VERBS.items() if counts[kind]]
    return f"{plugin} {', '.join(parts)}" if parts else f"{plugin}: {count_text(len(members), 'entry', 'entries')}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")
