"""Counts which principals called which plugins lately."""

from __future__ import annotations

from typing import Final, NamedTuple

from paddock.core.events.calls import CallEnded
from paddock.store.database import Transaction

MAX_SCANNED_CALLS: Final = 5_000
"""The newest calls that are counted; more would make a page of it slow on a busy host."""
_COUNT = (
    "SELECT plugin, principal, COUNT(*) AS calls FROM ("
    "SELECT plugin, principal, at FROM ledger WHERE tenant = ? AND type = ? AND seq >= 1 ORDER BY seq DESC LIMIT ?"
    ") AS newest WHERE at >= ? AND plugin IS NOT NULL AND principal IS NOT NULL GROUP BY plugin, principal "
    "ORDER BY calls DESC, plugin, principal"
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
    rows = tx.all(_COUNT, (tenant, CallEnded.type, max_scanned, since))
    return [CallerCount(row["plugin"], row["principal"], row["calls"]) for row in rows]
