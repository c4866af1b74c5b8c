"""Counts which principals called which plugins lately."""

from __future__ import annotations

from collections import Counter
from heapq import nlargest
from typing import Final, NamedTuple

from paddock.core.events.calls import CallEnded
from paddock.ledger.read.rows import find_chain
from paddock.ledger.read.search import find_kinds
from paddock.store.database import Transaction

MAX_SCANNED_CALLS: Final = 5_000
"""The newest calls that are counted; more would make a page of it slow on a busy host."""

_NEWEST = (
    "SELECT seq, at, plugin, principal FROM ledger INDEXED BY ledger_by_kind "
    "WHERE chain = ? AND kind = ? AND seq >= 1 ORDER BY seq DESC LIMIT ?"
)


class CallerCount(NamedTuple):
    """How often a principal called a plugin."""

    plugin: str
    principal: str
    calls: int


def count_callers(
    tx: Transaction, tenant: str, since: str, *, max_scanned: int = MAX_SCANNED_CALLS
) -> list[CallerCount]:
    """Count the calls of each principal to each plugin since a time, most first, among the newest calls of a tenant."""
    chain = find_chain(tx, tenant) or 0
    rows = [
        row
        for kind in find_kinds(tx, chain, lambda kind, _: kind == CallEnded.type)
        for row in tx.tuples(_NEWEST, (chain, kind, max_scanned))
    ]
    counts = Counter(
        (plugin, principal)
        for _, at, plugin, principal in nlargest(max_scanned, rows)
        if at >= since and plugin is not None and principal is not None
    )
    callers = [CallerCount(plugin, principal, calls) for (plugin, principal), calls in counts.items()]
    return sorted(callers, key=lambda one: (-one.calls, one.plugin, one.principal))
