"""Counts which principals called which plugins lately."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from paddock.ledger.read.search import ENDED_CALLS, find_rows
from paddock.store.database import Transaction

MAX_SCANNED_CALLS: Final = 5_000
"""The newest calls that are counted; more would make a page of it slow on a busy host."""


class CallerCount(NamedTuple):
    """How often a principal called a plugin."""

    plugin: str
    principal: str
    calls: int


def count_callers(
    tx: Transaction, tenant: str, since: str, *, max_scanned: int = MAX_SCANNED_CALLS
) -> list[CallerCount]:
    """Count the calls of each principal to each plugin since a time, most first, among the newest calls of a tenant."""
    rows = find_rows(tx, tenant, ENDED_CALLS, limit=max_scanned)
    counts = Counter(
        (row.plugin, row.principal)
        for row in rows
        if row.at >= since and row.plugin is not None and row.principal is not None
    )
    callers = [CallerCount(plugin, principal, calls) for (plugin, principal), calls in counts.items()]
    return sorted(callers, key=lambda one: (-one.calls, one.plugin, one.principal))
