"""Queries over one tenant's ledger: filtered pages in either order, single calls, names and heads."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import HostError
from paddock.core.events.calls import CallEnded
from paddock.core.ids import DEFAULT_TENANT
from paddock.ledger.entry import LedgerEntry, parse_object, read_entry
from paddock.ledger.entry_hash import SealedEntry
from paddock.ledger.read.failures import has_outcome, is_failure
from paddock.ledger.read.rows import ChainRows, find_chain, read_kinds
from paddock.ledger.read.search import KindCondition, RowFilter, find_rows
from paddock.store.database import DirectDatabase, Transaction

MAX_PAGE_ENTRIES = 1000
SEALED_PAGE_ROWS = 2_000  # for readers of whole chains
_EMBEDDED_PAGE_ROWS: Final = 250
_NO_CHAIN: Final = 0  # numbers of chains begin at 1

_TENANT_QUERIES = (
    "SELECT name FROM tenants WHERE name = ?",
    "SELECT seq FROM ledger_heads WHERE tenant = ?",
    "SELECT to_seq FROM ledger_checkpoints WHERE tenant = ? LIMIT 1",
    "SELECT chain FROM ledger_chains WHERE tenant = ?",
)


class EntryFilter(Struct, frozen=True):
    """Which entries to list; fields left out do not filter.

    A `type` that ends in `.*` matches every type with that prefix. Entries that report another event (`stands_for`) are
    found by that event's type too. `types` adds more such types. `since` (inclusive) and `until` (exclusive) are
    ISO-8601 in UTC. `wrong` limits the list to failures. `outcome`, one of `CALL_OUTCOMES`, limits it to calls that
    ended so.
    """

    type: str | None = None
    plugin: str | None = None
    call: str | None = None
    request: str | None = None
    principal: str | None = None
    since: str | None = None
    until: str | None = None
    types: tuple[str, ...] = ()
    wrong: bool = False
    outcome: str | None = None

    @property
    def requested_types(self) -> tuple[str, ...]:
        """All types to match; empty means every type."""
        return ((self.type,) if self.type is not None else ()) + self.types

    def matches_type(self, kind: str) -> bool:
        """Whether the filter accepts this entry type."""
        return not self.requested_types or any(
            kind.startswith(one[:-1]) if one.endswith(".*") else kind == one for one in self.requested_types
        )


ALL_ENTRIES = EntryFilter()


def list_entries(
    tx: Transaction,
    tenant: str = DEFAULT_TENANT,
    entry_filter: EntryFilter = ALL_ENTRIES,
    *,
    after: int | None = None,
    before: int | None = None,
    newest_first: bool = True,
    limit: int = 50,
) -> list[LedgerEntry]:
    """Return one page of entries, between two sequence numbers if given.

    The next page starts at the `seq` of the last entry.
    """
    try:
        rows = find_rows(
            tx,
            tenant,
            _row_filter(entry_filter),
            after=after,
            before=before,
            newest_first=newest_first,
            limit=max(0, min(limit, MAX_PAGE_ENTRIES)),
        )
    except UnicodeDecodeError as error:
        raise undecodable_row_error() from error
    return [read_entry(row) for row in rows]


def find_entries(tx: Transaction, entry_or_call_id: str, tenant: str = DEFAULT_TENANT) -> list[LedgerEntry]:
    """Return the entry with this id, or all entries of the call or request with this id, in order."""
    try:
        rows = open_chain(tx, tenant).select(tx, "id = ? AND seq >= 1", (entry_or_call_id,))
        if not rows:
            # Two queries: a condition with OR would scan row by row.
            by_id = (RowFilter(call=entry_or_call_id), RowFilter(request=entry_or_call_id))
            found = {
                row.seq: row
                for wanted in by_id
                for row in find_rows(tx, tenant, wanted, newest_first=False, limit=MAX_PAGE_ENTRIES)
            }
            rows = [found[seq] for seq in sorted(found)][:MAX_PAGE_ENTRIES]
    except UnicodeDecodeError as error:
        raise undecodable_row_error() from error
    return [read_entry(row) for row in rows]


def call_history(tx: Transaction, call: str, tenant: str = DEFAULT_TENANT) -> list[LedgerEntry]:
    """Return all entries of a call, and those of its request that belong to no call."""
    entries = {entry.seq: entry for entry in find_entries(tx, call, tenant)}
    if all(entry.id != call for entry in entries.values()):  # the id of a single entry yields only that entry
        requests = {entry.request for entry in entries.values() if entry.request}
        outside_calls = [
            entry for request in sorted(requests) for entry in find_entries(tx, request, tenant) if entry.call is None
        ]
        entries |= {entry.seq: entry for entry in outside_calls}
    return [entries[seq] for seq in sorted(entries)]


def list_types(tx: Transaction, tenant: str = DEFAULT_TENANT) -> list[str]:
    """Return the types of entries that a tenant has."""
    chain = find_chain(tx, tenant)
    return [] if chain is None else sorted({kind.type for kind in read_kinds(tx, chain).values()})


def list_names(tx: Transaction, column: Literal["plugin", "principal"], tenant: str, limit: int) -> list[str]:
    """Return the first distinct plugins or principals in order, with one index lookup each."""
    query = (
        f"SELECT {column} AS name FROM ledger INDEXED BY ledger_by_{column} "  # noqa: S608
        f"WHERE chain = ? AND {column} > ? AND seq + 0 >= 1 "
        f"ORDER BY {column} LIMIT 1"
    )
    chain = find_chain(tx, tenant)
    names: list[str] = []
    while len(names) < limit and (row := tx.one(query, (chain, names[-1] if names else ""))):
        names.append(row["name"])
    return names


def list_tenants(tx: Transaction) -> list[str]:
    """Return all tenants that the database knows: with a chain, with a former chain, or in the tenants table."""
    rows = tx.all(
        "SELECT tenant FROM ledger_heads UNION SELECT tenant FROM ledger_checkpoints "
        "UNION SELECT tenant FROM ledger_chains UNION SELECT name FROM tenants"
    )
    return sorted(row["tenant"] for row in rows)


def has_chain(tx: Transaction, tenant: str) -> bool:
    """Whether the database knows this tenant."""
    return any(tx.one(query, (tenant,)) for query in _TENANT_QUERIES)


def open_chain(tx: Transaction, tenant: str) -> ChainRows:
    """Return the reader of a tenant's rows; it finds none if there is no chain."""
    chain = find_chain(tx, tenant)
    return ChainRows(tenant, _NO_CHAIN if chain is None else chain)


def read_sealed(tx: Transaction, rows: ChainRows, *, after: int, limit: int) -> list[SealedEntry]:
    """Return stored rows, oldest first."""
    return rows.select(tx, "seq > ? AND seq >= 1 ORDER BY seq LIMIT ?", (after, limit))


def sealed_page_rows(database: DirectDatabase) -> int:
    """Return how many rows to verify at a time: few stay in the processor's cache, but each page asks a server."""
    return _EMBEDDED_PAGE_ROWS if database.engine == "sqlite" else SEALED_PAGE_ROWS


def read_row_before_first(tx: Transaction, tenant: str) -> SealedEntry | None:
    """Return a row whose number is below 1, if there is one: the host never writes such a row."""
    return next(iter(open_chain(tx, tenant).select(tx, "seq < 1 ORDER BY seq LIMIT 1", ())), None)


def last_seq(tx: Transaction, tenant: str) -> int:
    """Return the number of the last entry; 0 if there is none."""
    row = tx.one(
        "SELECT max(seq) AS seq FROM ledger WHERE chain = (SELECT chain FROM ledger_chains WHERE tenant = ?) "
        "AND seq >= 1",
        (tenant,),
    )
    return (row["seq"] if row else None) or 0


def read_head(tx: Transaction, tenant: str) -> tuple[int, bytes] | None:
    """Return the recorded end of a chain: the number and hash of its last row."""
    head = tx.one("SELECT seq, hash FROM ledger_heads WHERE tenant = ?", (tenant,))
    return (head["seq"], head["hash"]) if head else None


def read_hash(tx: Transaction, tenant: str, seq: int) -> bytes | None:
    """Return the hash of a row; None if there is no such row."""
    row = tx.one(
        "SELECT hash FROM ledger WHERE chain = (SELECT chain FROM ledger_chains WHERE tenant = ?) AND seq = ?",
        (tenant, seq),
    )
    return row["hash"] if row else None


def read_hashes(tx: Transaction, tenant: str, *, after: int, limit: int) -> list[tuple[int, bytes]]:
    """Return the numbers and hashes of rows, oldest first."""
    rows = tx.all(
        "SELECT seq, hash FROM ledger WHERE chain = (SELECT chain FROM ledger_chains WHERE tenant = ?) AND seq > ? "
        "ORDER BY seq LIMIT ?",
        (tenant, after, limit),
    )
    return [(row["seq"], row["hash"]) for row in rows]


def undecodable_row_error() -> HostError:
    """Return the error for a row with bytes that are not text, which SQLite lets other programs store."""
    return HostError("a row of the ledger is not valid text", code="ledger.broken", action=Action.of("ledger.verify"))


def _row_filter(entry_filter: EntryFilter) -> RowFilter:
    principal = entry_filter.principal
    return RowFilter(
        _kind_condition(entry_filter),
        entry_filter.plugin,
        None if principal is None else (principal,),
        entry_filter.call,
        entry_filter.request,
        entry_filter.since,
        entry_filter.until,
    )


def _kind_condition(entry_filter: EntryFilter) -> KindCondition | None:
    """Return the condition on the type of an entry, and on the facts by which it is listed."""
    outcome, types = entry_filter.outcome, entry_filter.requested_types
    if outcome is not None:
        return lambda kind, listed: has_outcome(outcome, kind, listed)
    if entry_filter.wrong:
        return lambda kind, listed: entry_filter.matches_type(kind) and is_failure(kind, listed)
    if not types:
        return None

    def matches(kind: str, listed: dict[str, Any]) -> bool:
        # An entry may stand for events that are not recorded by themselves.
        return entry_filter.matches_type(kind) or any(
            isinstance(one, str) and entry_filter.matches_type(one) for one in listed.get("stands_for") or ()
        )

    return matches


MAX_SCANNED_ENTRIES: Final = 4_000  # newest entries of a plugin that are scanned, of any type


class EndedCall(NamedTuple):
    """One finished call."""

    at: str
    status: str
    success: bool
    duration_ms: float
    tool: str = ""
    caller: str = ""  # empty if it has been erased


class EndedCalls(NamedTuple):
    """Finished calls, newest first. `since` is the time where the scan stopped, if it stopped early."""

    calls: list[EndedCall]
    since: str | None


def list_ended_calls(
    tx: Transaction, tenant: str, plugin: str, *, max_scanned: int = MAX_SCANNED_ENTRIES
) -> EndedCalls:
    """Return the outcomes of a plugin's last calls."""
    # The type is filtered afterwards and not in SQL: a rarely called plugin may have a million other entries.
    rows = find_rows(tx, tenant, RowFilter(plugin=plugin), limit=max_scanned)
    calls = [
        _read_ended_call(row.at, parse_object(row.facts), row.principal) for row in rows if row.type == CallEnded.type
    ]
    return EndedCalls(calls, rows[-1].at if len(rows) == max_scanned else None)


def _read_ended_call(at: str, facts: dict[str, Any], caller: str | None) -> EndedCall:
    return EndedCall(
        at,
        str(facts.get("status", "")),
        facts.get("success") is True,
        float(facts.get("duration_ms") or 0.0),
        str(facts.get("method", "")),
        caller or "",
    )
