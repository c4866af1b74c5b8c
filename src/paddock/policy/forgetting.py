"""Forgetting a person, in one unit of work: what the ledger says of them, and what lies beside it of their requests."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.ledger.erase import erase, known_as
from paddock.policy.approvals.forgetting import clear
from paddock.policy.approvals.unit import Unit
from paddock.principals.consents import forget_revoked


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many entries of the ledger, and other rows, told of somebody."""

    entries: int
    rows: int


def forget(unit: Unit, principal: str, *, by: str, explanation: str, beside: int = 0) -> Forgotten:
    """Erase what the record of a tenant says of somebody, with what their keys did. See `ledger/erase.py`.

    `beside` is how many rows were dropped elsewhere in this unit. What they still are and have is not touched: people,
    keys, consents and standing approvals go with `leaving.py`.

    Raises:
        NotFound: nothing tells of them.
    """
    names = known_as(unit.tx, unit.tenant, principal)
    cleared = beside + clear(unit, names) + forget_revoked(unit.tx, unit.tenant, principal)
    entries = erase(
        unit.tx,
        unit.tenant,
        principal,
        by=by,
        explanation=explanation,
        clock=unit.clock,
        random=unit.random,
        beside=cleared,
    )
    return Forgotten(entries, cleared)
