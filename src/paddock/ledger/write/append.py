"""Putting entries at the end of their tenant's chain, in the unit of work that they tell about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from paddock.core.clock import Clock, Random
from paddock.core.events.event import Event
from paddock.core.ids import CallId, Tenant, new_id, new_ids
from paddock.ledger.entry import EntryDraft, IdentifiedDraft, prepare_entry, sanitize_entry, storable_text
from paddock.ledger.entry_hash import COLUMNS, GENESIS_HASH, SealedEntry, entry_hash
from paddock.store.database import Transaction

_BATCH_SIZES = (16, 4, 1)  # rows of one statement: a few sizes, so that the statements are known
_PLACEHOLDERS = f"({', '.join('?' * len(SealedEntry._fields))})"
_INSERTS = {size: f"INSERT INTO ledger ({COLUMNS}) VALUES {', '.join([_PLACEHOLDERS] * size)}" for size in _BATCH_SIZES}  # noqa: S608


def _tenant_of(one: IdentifiedDraft) -> str:
    return one[1].tenant


@dataclass(frozen=True, slots=True)
class TransactionLedger:
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
        draft = EntryDraft(event, self.tenant, self.clock.now(), call, request, principal)
        append_entries(self.tx, [(name, draft)], self.random, mend=True)


def record_all(tx: Transaction, clock: Clock, random: Random, events: Sequence[tuple[Tenant, CallId, Event]]) -> None:
    """Record many events, each of a tenant and a call, in this order; for what was lost with a host, where each by
    itself would take too long."""
    names, now = new_ids("evt", len(events), clock, random), clock.now()
    drafts = [
        (name, EntryDraft(event, tenant, now, call)) for name, (tenant, call, event) in zip(names, events, strict=True)
    ]
    append_entries(tx, drafts, random, mend=True)


def append_entries(
    tx: Transaction, drafts: Sequence[IdentifiedDraft], random: Random, *, again: bool = False, mend: bool = False
) -> None:
    """Put entries at the end of their chains, in this order.

    Args:
        tx: The unit of work that they belong to; all of it is kept, or nothing.
        drafts: The events, each with the id that it will have.
        random: Gives the salts.
        again: They may be there already, since nobody knows what became of an earlier try; those that are stay as they
            are.
        mend: Look for names that no database keeps. Without it these fail the whole unit, with TypeError or
            `store.statement`.
    """
    if mend:
        drafts = [(name, one._replace(tenant=storable_text(one.tenant))) for name, one in drafts]
    if again:
        drafts = [one for one in drafts if tx.one("SELECT seq FROM ledger WHERE id = ?", (one[0],)) is None]
    # In one order everywhere: two nodes that each hold a chain the other waits for would both be stuck.
    for tenant, found in groupby(sorted(drafts, key=_tenant_of), key=_tenant_of):
        _extend_chain(tx, tenant, list(found), random, mend=mend)


def _extend_chain(
    tx: Transaction, tenant: str, drafts: Sequence[IdentifiedDraft], random: Random, *, mend: bool
) -> None:
    seq, prev = _advance_head(tx, tenant, len(drafts))
    for few in _split_batches(drafts):
        values: list[Any] = []
        for name, draft in few:
            one = prepare_entry(name, draft, random)
            if mend:
                one = sanitize_entry(one)
            seq += 1
            prev = entry_hash(prev, tenant, seq, one, one.facts)
            personal = None if one.personal is None else one.personal.decode()
            values += (tenant, seq, *one[:7], one.facts.decode(), personal, one.salt, one.commitment, prev)
        tx.execute(_INSERTS[len(few)], values)
    tx.execute("UPDATE ledger_heads SET hash = ? WHERE tenant = ?", (prev, tenant))


def _split_batches(drafts: Sequence[IdentifiedDraft]) -> Iterator[Sequence[IdentifiedDraft]]:
    """All of them, in pieces for which there is a statement.

    Small ones: what was made for one is given back before the next, and while SQLite writes it, calls go on.
    """
    begin = 0
    for size in _BATCH_SIZES:
        while len(drafts) - begin >= size:
            yield drafts[begin : begin + size]
            begin += size


def _advance_head(tx: Transaction, tenant: str, count: int) -> tuple[int, bytes]:
    """Where a chain ends, which from now on nobody else can change; the head is moved on by so many."""
    move = "UPDATE ledger_heads SET seq = seq + ? WHERE tenant = ? RETURNING seq, hash"
    head = tx.one(move, (count, tenant))
    if head is None:
        tx.execute(
            "INSERT INTO ledger_heads (tenant, seq, hash) VALUES (?, 0, ?) ON CONFLICT (tenant) DO NOTHING",
            (tenant, GENESIS_HASH),
        )
        head = tx.one(move, (count, tenant)) or {"seq": count, "hash": GENESIS_HASH}
    return head["seq"] - count, head["hash"]
