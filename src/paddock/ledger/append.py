"""Putting entries at the end of their tenant's chain, in the unit of work that they tell about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from paddock.core.clock import Clock, Random
from paddock.core.event import Event
from paddock.core.ids import new_id
from paddock.ledger.breathing import breathing
from paddock.ledger.chain import BEGINNING, COLUMNS, Sealed, entry_hash
from paddock.ledger.entry import Draft, Prepared, mended, prepared, storable
from paddock.store.database import Transaction

_TOGETHER = (64, 16, 4, 1)  # rows of one statement: a few sizes, so that the statements are known
_MARKS = f"({', '.join('?' * len(Sealed._fields))})"
_INSERTS = {size: f"INSERT INTO ledger ({COLUMNS}) VALUES {', '.join([_MARKS] * size)}" for size in _TOGETHER}  # noqa: S608

_tenant_of = attrgetter("tenant")


@dataclass(frozen=True, slots=True)
class LedgerTable:
    """The seam that events leave through, for one unit of work; the ledger stands behind it.

    `call` is the one that they all belong to, where there is one; `by` is who does what they tell, where an event does
    not say so itself.
    """

    tx: Transaction
    clock: Clock
    random: Random
    tenant: str
    call: str | None = None
    by: str | None = None

    def publish(self, event: Event) -> None:
        self.record(event, call=self.call, principal=self.by)

    def record(
        self, event: Event, *, call: str | None = None, request: str | None = None, principal: str | None = None
    ) -> None:
        """Publish with what is known of the call that it belongs to."""
        name = new_id("evt", self.clock, self.random)
        draft = Draft(name, self.clock.now(), event, self.tenant, call, request, principal)
        append(self.tx, [draft], self.random, mend=True)


def append(
    tx: Transaction, drafts: Sequence[Draft], random: Random, *, again: bool = False, mend: bool = False
) -> None:
    """Put entries at the end of their chains, in this order.

    Args:
        tx: The unit of work that they belong to; all of it is kept, or nothing.
        drafts: The events.
        random: Gives the salts.
        again: They may be there already, since nobody knows what became of an earlier try; those that are stay as they
            are.
        mend: Look for names that no database keeps. Without it these fail the whole unit, with TypeError or
            `store.statement`.
    """
    if mend:
        drafts = [one._replace(tenant=storable(one.tenant)) for one in drafts]
    if again:
        drafts = [one for one in drafts if tx.one("SELECT seq FROM ledger WHERE id = ?", (one.id,)) is None]
    # In one order everywhere: two nodes that each hold a chain the other waits for would both be stuck.
    for tenant, found in groupby(sorted(drafts, key=_tenant_of), key=_tenant_of):
        entries = [prepared(one, random) for one in breathing(found)]
        _extend(tx, tenant, [mended(one) for one in entries] if mend else entries)


def _extend(tx: Transaction, tenant: str, entries: Sequence[Prepared]) -> None:
    seq, prev = _lead(tx, tenant, len(entries))
    rows: list[Any] = []
    for one in breathing(entries):
        seq += 1
        prev = entry_hash(prev, tenant, seq, one, one.facts)
        personal = None if one.personal is None else one.personal.decode()
        rows.append((tenant, seq, *one[:7], one.facts.decode(), personal, one.salt, one.commitment, prev))
    _insert(tx, rows)
    tx.execute("UPDATE ledger_heads SET hash = ? WHERE tenant = ?", (prev, tenant))


def _lead(tx: Transaction, tenant: str, count: int) -> tuple[int, bytes]:
    """Where a chain ends, which from now on nobody else can change; the head is moved on by so many."""
    move = "UPDATE ledger_heads SET seq = seq + ? WHERE tenant = ? RETURNING seq, hash"
    head = tx.one(move, (count, tenant))
    if head is None:
        tx.execute(
            "INSERT INTO ledger_heads (tenant, seq, hash) VALUES (?, 0, ?) ON CONFLICT (tenant) DO NOTHING",
            (tenant, BEGINNING),
        )
        head = tx.one(move, (count, tenant)) or {"seq": count, "hash": BEGINNING}
    return head["seq"] - count, head["hash"]


def _insert(tx: Transaction, rows: Iterable[tuple[Any, ...]]) -> None:
    left = list(rows)
    for size in _TOGETHER:
        while len(left) >= size:
            now, left = left[:size], left[size:]
            # Between two statements another thread may take the interpreter's lock, and the next one waits for it.
            tx.execute(_INSERTS[size], [value for row in now for value in row])
