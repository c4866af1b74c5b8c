"""Appends entries to their tenant's chain, in the transaction of the change that they record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from paddock.core.clock import Clock, Random
from paddock.core.events.event import Event
from paddock.core.ids import CallId, Tenant, new_id, new_ids
from paddock.ledger.entry import EntryDraft, IdentifiedDraft, prepare_entry, sanitize_entry, storable_text
from paddock.ledger.entry_hash import GENESIS_HASH, entry_hash
from paddock.ledger.stored_row import BLOCK_ROWS, COLUMN_NAMES, COLUMNS
from paddock.ledger.write.chain_dictionary import ChainDictionary, add_chain
from paddock.store.database import Transaction

_BATCH_SIZES = (64, 16, 4, 1)  # rows per INSERT: few sizes, so that the statements can be prepared
_PLACEHOLDERS = f"({', '.join('?' * len(COLUMN_NAMES))})"
_INSERTS = {size: f"INSERT INTO ledger ({COLUMNS}) VALUES {', '.join([_PLACEHOLDERS] * size)}" for size in _BATCH_SIZES}  # noqa: S608
_NOTE_TIME = (
    "INSERT INTO ledger_times (chain, block, first_at, last_at) VALUES (?, ?, ?, ?) ON CONFLICT (chain, block) "
    "DO UPDATE SET first_at = CASE WHEN excluded.first_at < ledger_times.first_at THEN excluded.first_at "
    "ELSE ledger_times.first_at END, last_at = CASE WHEN excluded.last_at > ledger_times.last_at "
    "THEN excluded.last_at ELSE ledger_times.last_at END"
)
_ADVANCE = (
    "UPDATE ledger_heads SET seq = seq + ? WHERE tenant = ? RETURNING seq, hash, "
    "(SELECT chain FROM ledger_chains WHERE ledger_chains.tenant = ledger_heads.tenant) AS chain"
)


def _tenant_of(draft: IdentifiedDraft) -> str:
    return draft[1].tenant


class TransactionLedger(Struct, frozen=True):
    """The `Publish` implementation for one unit of work; it writes to the ledger.

    `call` is the call that all events belong to, if there is one. `by` is the actor of events that do not name one.
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
        """Publish an event with what is known of its call."""
        entry_id = new_id("evt", self.clock, self.random)
        draft = EntryDraft(event, self.tenant, self.clock.now(), call, request, principal)
        append_entries(self.tx, [(entry_id, draft)], self.random, sanitize=True)


def record_draft(tx: Transaction, draft: IdentifiedDraft, random: Random) -> None:
    """Append an entry when the transaction commits, together with those of other units of work.

    For calls, many of which start and end at the same time: appending their entries together takes only a few
    statements for all of them. A unit that reads what it recorded uses `TransactionLedger`.
    """
    tx.before_commit(_append_recorded, (draft, random))


def _append_recorded(tx: Transaction, recorded: Sequence[tuple[IdentifiedDraft, Random]]) -> None:
    append_entries(tx, [draft for draft, _ in recorded], recorded[0][1], sanitize=True)


def record_all(tx: Transaction, clock: Clock, random: Random, events: Sequence[tuple[Tenant, CallId, Event]]) -> None:
    """Record many events in this order, each with its tenant and call.

    Used for calls lost with a host, where one transaction each would take too long.
    """
    entry_ids, now = new_ids("evt", len(events), clock, random), clock.now()
    drafts = [
        (entry_id, EntryDraft(event, tenant, now, call))
        for entry_id, (tenant, call, event) in zip(entry_ids, events, strict=True)
    ]
    append_entries(tx, drafts, random, sanitize=True)


def append_entries(
    tx: Transaction,
    drafts: Sequence[IdentifiedDraft],
    random: Random,
    *,
    check_existing: bool = False,
    sanitize: bool = False,
) -> None:
    """Append entries to their chains, in this order.

    Args:
        tx: The unit of work that they belong to; all of it is committed, or nothing.
        drafts: The events, each with the id that its entry will have.
        random: Source of the salts.
        check_existing: Skip ids that are stored already. Needed after an attempt whose outcome is unknown.
        sanitize: Replace ids and tenants that no database can store. Otherwise such a value fails the whole unit, with
            TypeError or `store.statement`.
    """
    if sanitize:
        drafts = [
            one if one[1].tenant.isprintable() else (one[0], one[1]._replace(tenant=storable_text(one[1].tenant)))
            for one in drafts
        ]
    if check_existing:
        drafts = [draft for draft in drafts if tx.one("SELECT seq FROM ledger WHERE id = ?", (draft[0],)) is None]
    # Sorted, so that all nodes lock chains in the same order and cannot deadlock.
    for tenant, group in groupby(sorted(drafts, key=_tenant_of), key=_tenant_of):
        _extend_chain(tx, tenant, list(group), random, sanitize=sanitize)


def _extend_chain(
    tx: Transaction, tenant: str, drafts: Sequence[IdentifiedDraft], random: Random, *, sanitize: bool
) -> None:
    chain, seq, prev = _advance_head(tx, tenant, len(drafts))
    dictionary = ChainDictionary(tx, chain)
    times = _TimeNotes()
    for batch in _split_batches(drafts):
        values: list[Any] = []
        for entry_id, draft in batch:
            entry = prepare_entry(entry_id, draft, random)
            if sanitize:
                entry = sanitize_entry(entry)
            seq += 1
            prev = entry_hash(prev, tenant, seq, entry, entry.facts)
            template, facts = entry.stored
            values += (
                chain,
                seq,
                entry.id,
                entry.at,
                dictionary.kind(entry.type, entry.listed),
                entry.plugin,
                entry.call,
                entry.request,
                entry.principal,
                None if template is None else dictionary.template(template),
                facts.decode(),
                None if entry.personal is None else entry.personal.decode(),
                entry.salt,
                # It follows from the two before, as long as they are not erased.
                None,
                prev,
            )
            times.add(seq, entry.at)
        tx.execute(_INSERTS[len(batch)], values)
    for block, first_at, last_at in times.earliest_and_latest():
        tx.execute(_NOTE_TIME, (chain, block, first_at, last_at))
    tx.execute("UPDATE ledger_heads SET hash = ? WHERE tenant = ?", (prev, tenant))


class _TimeNotes:
    """The times in each block of rows."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[str]] = {}

    def add(self, seq: int, at: str) -> None:
        self._blocks.setdefault(seq // BLOCK_ROWS, []).append(at)

    def earliest_and_latest(self) -> Iterator[tuple[int, str, str]]:
        """Yield each block with its earliest and latest time."""
        return ((block, min(times), max(times)) for block, times in self._blocks.items())


def _split_batches(drafts: Sequence[IdentifiedDraft]) -> Iterator[Sequence[IdentifiedDraft]]:
    """Yield all drafts, in batches for which there is a statement.

    The batches are small: memory of one is freed before the next, and calls go on while SQLite writes it.
    """
    begin = 0
    for size in _BATCH_SIZES:
        while len(drafts) - begin >= size:
            yield drafts[begin : begin + size]
            begin += size


def _advance_head(tx: Transaction, tenant: str, count: int) -> tuple[int, int, bytes]:
    """Lock the chain, move its head forward by `count` rows, and return its number and the previous end."""
    head = tx.one(_ADVANCE, (count, tenant))
    if head is None:
        tx.execute(
            "INSERT INTO ledger_heads (tenant, seq, hash) VALUES (?, 0, ?) ON CONFLICT (tenant) DO NOTHING",
            (tenant, GENESIS_HASH),
        )
        head = tx.one(_ADVANCE, (count, tenant)) or {"seq": count, "hash": GENESIS_HASH, "chain": None}
    chain = add_chain(tx, tenant) if head["chain"] is None else head["chain"]
    return chain, head["seq"] - count, head["hash"]
