"""Reading the ledger: pages of one tenant's entries, narrowed, either way round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from paddock.core.errors import HostError
from paddock.core.events.calls import REPORTED_BY, CallEnded
from paddock.core.ids import DEFAULT_TENANT
from paddock.ledger.entry import LedgerEntry, read_entry
from paddock.ledger.entry_hash import COLUMNS, SealedEntry
from paddock.ledger.read.failures import failure_queries
from paddock.store.database import Row, Transaction

MAX_PAGE_ENTRIES = 1000
SqlCondition: TypeAlias = tuple[str, tuple[Any, ...]]
"""A part of a query, and its values."""

_SELECT = f"SELECT {COLUMNS} FROM ledger WHERE tenant = ?"  # noqa: S608 - column names are ours
_NEXT_TYPE = "SELECT type FROM ledger WHERE tenant = ? AND type > ? AND type < ? ORDER BY type LIMIT 1"
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
    """Which entries; what is not said is not asked for.

    A `type` that ends in `.*` stands for all that begin like it, and entries that stand for such an event are found by
    its type too; `types` are several such. `since` (including) and `until` (excluding) are ISO-8601 in UTC. `wrong`
    asks only for what went wrong.
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

    @property
    def requested_types(self) -> tuple[str, ...]:
        """Every type that is asked for; none where all are."""
        return ((self.type,) if self.type is not None else ()) + self.types

    def matches_type(self, kind: str) -> bool:
        """Whether entries of this type are asked for, as far as types go."""
        return not self.requested_types or any(
            kind.startswith(one[:-1]) if one.endswith(".*") else kind == one for one in self.requested_types
        )


ALL_ENTRIES = EntryFilter()


def list_entries(
    tx: Transaction,
    tenant: str = DEFAULT_TENANT,
    wanted: EntryFilter = ALL_ENTRIES,
    *,
    after: int | None = None,
    before: int | None = None,
    newest_first: bool = True,
    limit: int = 50,
) -> list[LedgerEntry]:
    """Some entries, between two numbers where those are given. The next page begins at the last one's number."""
    conditions, values = _filter_condition(wanted, after, before)
    order, most = "DESC" if newest_first else "ASC", max(0, min(limit, MAX_PAGE_ENTRIES))
    found: dict[int, Row] = {}
    if wanted.wrong:
        types = _failure_conditions(wanted)
    else:
        types = (
            [one for kind in wanted.requested_types for one in _type_conditions(tx, tenant, kind)]
            if wanted.requested_types
            else _NO_CONDITION
        )
        if wanted.plugin is not None or wanted.principal is not None:
            types = [_any_of(types)]  # found in their order by the index of those
    # Otherwise each type is found in its order by its own index; asked for together, they would all be sorted first.
    for of_type, more in types:
        query = f"{_SELECT}{of_type}{conditions} ORDER BY seq {order} LIMIT ?"
        found |= {row["seq"]: row for row in _select_rows(tx, query, (tenant, *more, *values, most))}
    return [read_entry(SealedEntry(**found[seq])) for seq in sorted(found, reverse=newest_first)[:most]]


def list_recent(
    tx: Transaction,
    *,
    event_type: str | None = None,
    plugin: str | None = None,
    tenant: str = DEFAULT_TENANT,
    limit: int = 100,
) -> list[LedgerEntry]:
    """The latest entries, newest first."""
    return list_entries(tx, tenant, EntryFilter(type=event_type, plugin=plugin), limit=limit)


def find_entries(tx: Transaction, name: str, tenant: str = DEFAULT_TENANT) -> list[LedgerEntry]:
    """The entry with this id, or everything that was recorded of the call or request with this id, in order."""
    rows = _select_rows(tx, f"{_SELECT} AND id = ?", (tenant, name))
    if not rows:
        # By one and then by the other: both at once are looked for row by row.
        found = {
            row["seq"]: row
            for part in (_OF_CALL, _OF_REQUEST)
            for row in _select_rows(tx, _SELECT + part, (tenant, name, name))
        }
        rows = [found[seq] for seq in sorted(found)][:MAX_PAGE_ENTRIES]
    return [read_entry(SealedEntry(**row)) for row in rows]


def call_history(tx: Transaction, call: str, tenant: str = DEFAULT_TENANT) -> list[LedgerEntry]:
    """Everything that was recorded of a call, and what happened in its request outside any call."""
    found = {entry.seq: entry for entry in find_entries(tx, call, tenant)}
    if all(entry.id != call for entry in found.values()):  # an entry by itself is just that
        requests = {entry.request for entry in found.values() if entry.request}
        beside = [entry for one in sorted(requests) for entry in find_entries(tx, one, tenant) if entry.call is None]
        found |= {entry.seq: entry for entry in beside}
    return [found[seq] for seq in sorted(found)]


def list_types(tx: Transaction, tenant: str = DEFAULT_TENANT) -> list[str]:
    """The types that there are entries of, each found by a step in the index."""
    return _types_between(tx, tenant, "", "~")  # behind every letter that a type is written with


def list_names(tx: Transaction, column: Literal["plugin", "principal"], tenant: str, most: int) -> list[str]:
    """The first names that entries are filed under, in their order, each found by a step in the index."""
    query = f"SELECT {column} AS name FROM ledger WHERE tenant = ? AND {column} > ? ORDER BY {column} LIMIT 1"  # noqa: S608
    found: list[str] = []
    while len(found) < most and (row := tx.one(query, (tenant, found[-1] if found else ""))):
        found.append(row["name"])
    return found


def list_tenants(tx: Transaction) -> list[str]:
    """Everyone whom the database knows: who has a chain, had one, or may have one."""
    found = tx.all(
        "SELECT tenant FROM ledger_heads UNION SELECT tenant FROM ledger_checkpoints "
        "UNION SELECT tenant FROM ledger UNION SELECT name FROM tenants"
    )
    return sorted(row["tenant"] for row in found)


def has_chain(tx: Transaction, tenant: str) -> bool:
    """Whether the database knows this one."""
    return any(tx.one(query, (tenant,)) for query in _TENANT_QUERIES)


def read_sealed(tx: Transaction, tenant: str, *, after: int, limit: int) -> Iterator[SealedEntry]:
    """Rows as they stand in the table, oldest first."""
    return (SealedEntry(**row) for row in tx.all(f"{_SELECT} AND seq > ? ORDER BY seq LIMIT ?", (tenant, after, limit)))


def last_seq(tx: Transaction, tenant: str) -> int:
    """The number of the last entry; 0 where there is none."""
    row = tx.one("SELECT max(seq) AS seq FROM ledger WHERE tenant = ?", (tenant,))
    return (row["seq"] if row else None) or 0


def read_head(tx: Transaction, tenant: str) -> tuple[int, bytes] | None:
    """Where the database says that a chain ends: the number and the hash of its last row."""
    head = tx.one("SELECT seq, hash FROM ledger_heads WHERE tenant = ?", (tenant,))
    return (head["seq"], head["hash"]) if head else None


def undecodable_row_error() -> HostError:
    """What to say of a row that SQLite has let somebody else put bytes into."""
    return HostError(
        "a row of the ledger holds what is no text", code="ledger.broken", hint="paddock ledger verify names it"
    )


def _select_rows(tx: Transaction, query: str, values: Sequence[Any]) -> list[Row]:
    try:
        return tx.all(query, values)
    except UnicodeDecodeError as error:
        raise undecodable_row_error() from error


def _filter_condition(wanted: EntryFilter, after: int | None, before: int | None) -> SqlCondition:
    """Everything but the type."""
    asked: list[SqlCondition] = []
    # A call's few rows are looked up first: otherwise SQLite walks through all rows in their order.
    if wanted.call is not None:
        asked.append((_OF_CALL, (wanted.call, wanted.call)))
    if wanted.request is not None:
        asked.append((_OF_REQUEST, (wanted.request, wanted.request)))
    # What went wrong is rare, and found by its type: of a busy plugin it would be looked for among all of its rows.
    beside = " || ''" if wanted.wrong else ""
    others = {
        f"plugin{beside} = ?": wanted.plugin,
        f"principal{beside} = ?": wanted.principal,
        "at >= ?": wanted.since,
        "at < ?": wanted.until,
        "seq > ?": after,
        "seq < ?": before,
    }
    asked += [(f" AND {condition}", (value,)) for condition, value in others.items() if value is not None]
    return "".join(condition for condition, _ in asked), tuple(one for _, values in asked for one in values)


def _failure_conditions(wanted: EntryFilter) -> list[SqlCondition]:
    """The conditions for what went wrong, each found by its own index. The type is written into them: the index of
    calls that failed is for calls alone, and an engine knows no value that is bound."""
    return [
        (f" AND type = '{kind}'{f' AND {more}' if more else ''}", ())
        for kind, more in failure_queries()
        if wanted.matches_type(kind)
    ]


def _type_conditions(tx: Transaction, tenant: str, kind: str) -> list[SqlCondition]:
    """The conditions for entries of a type, and for those that stand for one of it; an entry may fit several."""
    if kind.endswith(".*"):
        begin = kind[:-1]
        types = _types_between(tx, tenant, begin, begin[:-1] + "/")  # the character after the dot
        said = [name for name in REPORTED_BY if name.startswith(kind[:-1])]
    else:
        types = [kind]
        said = [kind] if kind in REPORTED_BY else []
    conditions: list[SqlCondition] = [(" AND type = ?", (one,)) for one in types]
    for name in said:
        # Facts are canonical, so this is how it stands there. A plugin that writes the same into the metrics of its
        # answer is found by it as well, with that answer.
        pattern = f'%"stands!_for":[%"{name.replace("_", "!_")}"%'
        conditions += [(" AND type = ? AND facts LIKE ? ESCAPE '!'", (one, pattern)) for one in REPORTED_BY[name]]
    return conditions


def _any_of(conditions: Sequence[SqlCondition]) -> SqlCondition:
    words = " OR ".join(words.removeprefix(" AND ") for words, _ in conditions)
    return (f" AND ({words or '1 = 0'})" if conditions != _NO_CONDITION else ""), tuple(
        value for _, values in conditions for value in values
    )


def _types_between(tx: Transaction, tenant: str, begin: str, end: str) -> list[str]:
    """The types between these two that there are entries of, each found by a step in the index."""
    last = begin
    found: list[str] = []
    while row := tx.one(_NEXT_TYPE, (tenant, last, end)):
        last = row["type"]
        found.append(last)
    return found


MAX_SCANNED_ENTRIES: Final = 4_000  # entries of the plugin, of whatever type: what is older is not looked at

# The type is asked of what was found, and no part of the search: the index is of plugins, and a plugin that is hardly
# ever called may have a million other entries.
_SELECT_NEWEST = "SELECT at, type, facts FROM ledger WHERE tenant = ? AND plugin = ? ORDER BY seq DESC LIMIT ?"


class EndedCall(NamedTuple):
    """One call that is over."""

    at: str
    status: str
    success: bool
    duration_ms: float


class EndedCalls(NamedTuple):
    """Those that were found, newest first; `since` is where looking stopped, if it did before the beginning."""

    calls: list[EndedCall]
    since: str | None


def list_ended_calls(tx: Transaction, tenant: str, plugin: str, *, most: int = MAX_SCANNED_ENTRIES) -> EndedCalls:
    """What became of the last calls of a plugin."""
    rows = tx.all(_SELECT_NEWEST, (tenant, plugin, most))
    calls = [_read_ended_call(row["at"], orjson.loads(row["facts"])) for row in rows if row["type"] == CallEnded.type]
    return EndedCalls(calls, rows[-1]["at"] if len(rows) == most else None)


def _read_ended_call(at: str, facts: dict[str, Any]) -> EndedCall:
    return EndedCall(
        at, str(facts.get("status", "")), facts.get("success") is True, float(facts.get("duration_ms") or 0.0)
    )
