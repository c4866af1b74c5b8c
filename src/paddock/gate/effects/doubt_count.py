"""How many effects of a tenant are in doubt, and how many of these only a person can settle."""

from __future__ import annotations

from typing import NamedTuple

from paddock.core.ids import Tenant
from paddock.gate.effects.machine import State
from paddock.gate.effects.records import RECOVER
from paddock.store.transaction import Transaction


class DoubtCount(NamedTuple):
    """Effects in doubt.

    Attributes:
        total: All of them.
        waiting: Those that no host finds out about by itself.
        latest: The call of these that came last; empty where there is none.
    """

    total: int = 0
    waiting: int = 0
    latest: str = ""


_SEARCHED = (
    "recovery <> 'none' AND EXISTS (SELECT 1 FROM queue WHERE queue.tenant = effects.tenant "  # noqa: S608
    f"AND queue.key = effects.call AND queue.kind IN ('{RECOVER}', '{RECOVER}:' || effects.node))"
)


def count_doubts(tx: Transaction, tenant: Tenant) -> DoubtCount:
    """Counted by an index that has only what is not over."""
    row = tx.one(
        f"SELECT COUNT(*) AS total, SUM(CASE WHEN {_SEARCHED} THEN 0 ELSE 1 END) AS waiting, "  # noqa: S608
        f"MAX(CASE WHEN {_SEARCHED} THEN '' ELSE call END) AS latest FROM effects WHERE state = ? AND tenant = ?",
        (State.IN_DOUBT, tenant),
    )
    return DoubtCount(row["total"], row["waiting"], row["latest"]) if row and row["total"] else DoubtCount()
