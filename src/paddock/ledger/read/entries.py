"""Queries over one tenant's ledger: filtered pages in either order, single calls, names and heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from paddock.core.action import Action
from paddock.core.errors import HostError
from paddock.core.events.calls import REPORTED_BY, CallEnded
from paddock.core.ids import DEFAULT_TENANT
from paddock.ledger.entry import LedgerEntry, read_entry
from paddock.ledger.entry_hash import COLUMNS, SealedEntry
from paddock.ledger.read.failures import failure_queries, outcome_query
from paddock.store.database import Row, Transaction

MAX_PAGE_ENTRIES = 1000
SEALED_PAGE_ROWS = 2_000  # for readers of whole chains
SqlCondition: TypeAlias = tuple[str, tuple[Any, ...]]
"""A part of a query, and its parameters."""

# A chain starts at row 1. Rows before it can only be forged: readers leave them out, and verification reports them.
# `+seq` keeps SQLite from walking the primary key where another index yields the order, or finds the rows of a call.
_SELECT = f"SELECT {COLUMNS} FROM ledger WHERE tenant = ? AND +seq >= 1"  # noqa: S608 - column names are ours
_SELECT_BEFORE_FIRST = f"SELECT {COLUMNS} FROM ledger WHERE tenant = ? AND seq < 1 ORDER BY seq LIMIT 1"  # noqa: S608
_NEXT_TYPE = "SELECT type FROM ledger WHERE tenant = ? AND type > ? AND type < ? AND +seq >= 1 ORDER BY type LIMIT 1"
_TENANT_QUERIES = (
    "SELECT name FROM tenants WHERE name = ?",
    "SELECT seq FROM ledger_heads WHERE tenant = ?",
    "SELECT to_seq FROM ledger_checkpoints WHERE tenant = ? LIMIT 1",
    "SELECT seq FROM ledger WHERE tenant = ? LIMIT 1",
)
_NO_CONDITION: list[SqlCondition] = [("", ())]
_OF_CALL = " AND call = ? AND seq IN (SELECT seq FROM ledger WHERE call = ?)"
_OF_REQUEST = " AND request = ? AND seq IN (SELECT seq FROM ledger WHERE request = ?)"


@dataclass(frozen=True, slots=True)
class EntryFilter:
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
    conditions, values = _filter_condition(entry_filter, after, before)
    order, page_size = "DESC" if newest_first else "ASC", max(0, min(limit, MAX_PAGE_ENTRIES))
    rows_by_seq: dict[int, Row] = {}
    if entry_filter.outcome is not None:
        type_conditions = [(f" AND {outcome_query(entry_filter.outcome)}", ())]
    elif entry_filter.wrong:
        type_conditions = _failure_conditions(entry_filter)
    else:
        type_conditions = (
            [one for kind in entry_filter.requested_types for one in _type_conditions(tx, tenant, kind)]
            if entry_filter.requested_types
            else _NO_CONDITION
        )
        if entry_filter.plugin is not None or entry_filter.principal is not None:
            type_conditions = [_any_of(type_conditions)]  # the index of plugins or principals yields them in order
    # Otherwise one query per type: the type index yields each in order, while one query for all would sort every row.
    for type_condition, type_values in type_conditions:
        query = f"{_SELECT}{type_condition}{conditions} ORDER BY seq {order} LIMIT ?"
        rows_by_seq |= {row["seq"]: row for row in _select_rows(tx, query, (tenant, *type_values, *values, page_size))}
    return [
        read_entry(SealedEntry(**rows_by_seq[seq])) for seq in sorted(rows_by_seq, reverse=newest_first)[:page_size]
    ]


def find_entries(tx: Transaction, entry_or_call_id: str, tenant: str = DEFAULT_TENANT) -> list[LedgerEntry]:
    """Return the entry with this id, or all entries of the call or request with this id, in order."""
    rows = _select_rows(tx, f"{_SELECT} AND id = ?", (tenant, entry_or_call_id))
    if not rows:
        # Two queries: a condition with OR would scan row by row.
        rows_by_seq = {
            row["seq"]: row
            for condition in (_OF_CALL, _OF_REQUEST)
            for row in _select_rows(tx, _SELECT + condition, (tenant, entry_or_call_id, entry_or_call_id))
        }
        rows = [rows_by_seq[seq] for seq in sorted(rows_by_seq)][:MAX_PAGE_ENTRIES]
    return [read_entry(SealedEntry(**row)) for row in rows]


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
    """Return the entry types in use, with one index lookup each."""
    return _types_between(tx, tenant, "", "~")  # sorts after every character of a type


def list_names(tx: Transaction, column: Literal["plugin", "principal"], tenant: str, limit: int) -> list[str]:
    """Return the first distinct plugins or principals in order, with one index lookup each."""
    query = (
        f"SELECT {column} AS name FROM ledger WHERE tenant = ? AND {column} > ? AND +seq >= 1 "  # noqa: S608
        f"ORDER BY {column} LIMIT 1"
    )
    names: list[str] = []
    while len(names) < limit and (row := tx.one(query, (tenant, names[-1] if names else ""))):
        names.append(row["name"])
    return names


def list_tenants(tx: Transaction) -> list[str]:
    """Return all tenants that the database knows: with a chain, with a former chain, or in the tenants table."""
    rows = tx.all(
        "SELECT tenant FROM ledger_heads UNION SELECT tenant FROM ledger_checkpoints "
        "UNION SELECT tenant FROM ledger UNION SELECT name FROM tenants"
    )
    return sorted(row["tenant"] for row in rows)


def has_chain(tx: Transaction, tenant: str) -> bool:
    """Whether the database knows this tenant."""
    return any(tx.one(query, (tenant,)) for query in _TENANT_QUERIES)


def read_sealed(tx: Transaction, tenant: str, *, after: int, limit: int) -> Iterator[SealedEntry]:
    """Return stored rows, oldest first."""
    return (SealedEntry(**row) for row in tx.all(f"{_SELECT} AND seq > ? ORDER BY seq LIMIT ?", (tenant, after, limit)))


def read_row_before_first(tx: Transaction, tenant: str) -> SealedEntry | None:
    """Return a row whose number is below 1, if there is one: the host never writes such a row."""
    row = tx.one(_SELECT_BEFORE_FIRST, (tenant,))
    return SealedEntry(**row) if row else None


def last_seq(tx: Transaction, tenant: str) -> int:
    """Return the number of the last entry; 0 if there is none."""
    row = tx.one("SELECT max(seq) AS seq FROM ledger WHERE tenant = ? AND seq >= 1", (tenant,))
    return (row["seq"] if row else None) or 0


def read_head(tx: Transaction, tenant: str) -> tuple[int, bytes] | None:
    """Return the recorded end of a chain: the number and hash of its last row."""
    head = tx.one("SELECT seq, hash FROM ledger_heads WHERE tenant = ?", (tenant,))
    return (head["seq"], head["hash"]) if head else None


def undecodable_row_error() -> HostError:
    """Return the error for a row with bytes that are not text, which SQLite lets other programs store."""
    return HostError("a row of the ledger is not valid text", code="ledger.broken", action=Action.of("ledger.verify"))


def _select_rows(tx: Transaction, query: str, values: Sequence[Any]) -> list[Row]:
    try:
        return tx.all(query, values)
    except UnicodeDecodeError as error:
        raise undecodable_row_error() from error


def _filter_condition(entry_filter: EntryFilter, after: int | None, before: int | None) -> SqlCondition:
    """Return the condition for everything but the type."""
    conditions: list[SqlCondition] = []
    # The few rows of a call are looked up first: otherwise SQLite walks through all rows in order.
    if entry_filter.call is not None:
        conditions.append((_OF_CALL, (entry_filter.call, entry_filter.call)))
    if entry_filter.request is not None:
        conditions.append((_OF_REQUEST, (entry_filter.request, entry_filter.request)))
    # Failures are rare and found by type. The plugin index would search all rows of a busy plugin.
    unindexed = " || ''" if entry_filter.wrong or entry_filter.outcome is not None else ""
    comparisons = {
        f"plugin{unindexed} = ?": entry_filter.plugin,
        f"principal{unindexed} = ?": entry_filter.principal,
        "at >= ?": entry_filter.since,
        "at < ?": entry_filter.until,
        "seq > ?": after,
        "seq < ?": before,
    }
    conditions += [(f" AND {condition}", (value,)) for condition, value in comparisons.items() if value is not None]
    return "".join(condition for condition, _ in conditions), tuple(one for _, values in conditions for one in values)


def _failure_conditions(entry_filter: EntryFilter) -> list[SqlCondition]:
    """Return the conditions for failures, each served by its own index.

    The type is a literal: the partial index of failed calls covers one type, and the planner does not see bound values.
    """
    return [
        (f" AND type = '{kind}'{f' AND {condition}' if condition else ''}", ())
        for kind, condition in failure_queries()
        if entry_filter.matches_type(kind)
    ]


def _type_conditions(tx: Transaction, tenant: str, kind: str) -> list[SqlCondition]:
    """Return the conditions for entries of a type and for entries that report it; an entry may match several."""
    if kind.endswith(".*"):
        prefix = kind[:-1]
        types = _types_between(tx, tenant, prefix, prefix[:-1] + "/")  # the character after the dot
        reported = [name for name in REPORTED_BY if name.startswith(kind[:-1])]
    else:
        types = [kind]
        reported = [kind] if kind in REPORTED_BY else []
    conditions: list[SqlCondition] = [(" AND type = ?", (one,)) for one in types]
    for name in reported:
        # Facts are canonical JSON, so this text matches. A plugin that writes the same into the metrics of its
        # result is matched too.
        pattern = f'%"stands!_for":[%"{name.replace("_", "!_")}"%'
        conditions += [(" AND type = ? AND facts LIKE ? ESCAPE '!'", (one, pattern)) for one in REPORTED_BY[name]]
    return conditions


def _any_of(conditions: Sequence[SqlCondition]) -> SqlCondition:
    sql = " OR ".join(sql.removeprefix(" AND ") for sql, _ in conditions)
    return (f" AND ({sql or '1 = 0'})" if conditions != _NO_CONDITION else ""), tuple(
        value for _, values in conditions for value in values
    )


def _types_between(tx: Transaction, tenant: str, start: str, end: str) -> list[str]:
    """Return the types in use between these two, with one index lookup each."""
    last = start
    types: list[str] = []
    while row := tx.one(_NEXT_TYPE, (tenant, last, end)):
        last = row["type"]
        types.append(last)
    return types


MAX_SCANNED_ENTRIES: Final = 4_000  # newest entries of a plugin that are scanned, of any type

# The type is filtered afterwards and not in SQL: the index covers plugins, and a rarely called plugin
# may have a million other entries.
_SELECT_NEWEST = (
    "SELECT at, type, facts, principal FROM ledger WHERE tenant = ? AND plugin = ? AND seq >= 1 "
    "ORDER BY seq DESC LIMIT ?"
)


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
    rows = tx.all(_SELECT_NEWEST, (tenant, plugin, max_scanned))
    calls = [
        _read_ended_call(row["at"], orjson.loads(row["facts"]), row["principal"])
        for row in rows
        if row["type"] == CallEnded.type
    ]
    return EndedCalls(calls, rows[-1]["at"] if len(rows) == max_scanned else None)


def _read_ended_call(at: str, facts: dict[str, Any], caller: str | None) -> EndedCall:
    return EndedCall(
        at,
        str(facts.get("status", "")),
        facts.get("success") is True,
        float(facts.get("duration_ms") or 0.0),
        str(facts.get("method", "")),
        caller or "",
    )
