"""The calls of one plugin that ended last, read in bounded time however much was recorded."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

from paddock.core.events_calls import CallEnded
from paddock.store.database import Transaction

LOOKED_AT: Final = 4_000  # entries of the plugin, of whatever type: what is older is not looked at

# The type is asked of what was found, and no part of the search: the index is of plugins, and a plugin that is hardly
# ever called may have a million other entries.
_NEWEST = "SELECT at, type, facts FROM ledger WHERE tenant = ? AND plugin = ? ORDER BY seq DESC LIMIT ?"


class Ended(NamedTuple):
    """One call that is over."""

    at: str
    status: str
    success: bool
    duration_ms: float


class EndedCalls(NamedTuple):
    """Those that were found, newest first; `since` is where looking stopped, if it did before the beginning."""

    calls: list[Ended]
    since: str | None


def ended_calls(tx: Transaction, tenant: str, plugin: str, *, most: int = LOOKED_AT) -> EndedCalls:
    """What became of the last calls of a plugin."""
    rows = tx.all(_NEWEST, (tenant, plugin, most))
    calls = [_read(row["at"], orjson.loads(row["facts"])) for row in rows if row["type"] == CallEnded.type]
    return EndedCalls(calls, rows[-1]["at"] if len(rows) == most else None)


def _read(at: str, facts: dict[str, Any]) -> Ended:
    return Ended(at, str(facts.get("status", "")), facts.get("success") is True, float(facts.get("duration_ms") or 0.0))
