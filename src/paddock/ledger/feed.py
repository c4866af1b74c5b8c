"""Reading the ledger: pages of one tenant's entries, narrowed, either way round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from paddock.core.events_calls import SAID_BY
from paddock.core.ids import DEFAULT_TENANT
from paddock.ledger.chain import COLUMNS, Sealed
from paddock.ledger.entry import Entry, read
from paddock.store.database import Transaction

MOST = 1000
_SELECT = f"SELECT {COLUMNS} FROM ledger WHERE tenant = ?"  # noqa: S608 - column names are ours


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries; what is not said is not asked for.

    A `type` that ends in `.*` stands for all that begin like it, and entries that stand for such an event are found by
    its type too. `since` (including) and `until` (excluding) are ISO-8601 in UTC.
    """

    type: str | None = None
    plugin: str | None = None
    call: str | None = None
    request: str | None = None
    principal: str | None = None
    since: str | None = None
    until: str | None = None


ALL = Wanted()


def page(
    tx: Transaction,
    tenant: str = DEFAULT_TENANT,
    wanted: Wanted = ALL,
    *,
    after: int | None = None,
    before: int | None = None,
    newest_first: bool = True,
    limit: int = 50,
) -> list[Entry]:
    """Some entries, between two numbers where those are given. The next page begins at the last one's number."""
    conditions, values = _conditions(wanted, after, before)
    order = "DESC" if newest_first else "ASC"
    rows = tx.all(f"{_SELECT}{conditions} ORDER BY seq {order} LIMIT ?", (tenant, *values, max(0, min(limit, MOST))))
    return [read(Sealed(**row)) for row in rows]


def recent(
    tx: Transaction,
    *,
    event_type: str | None = None,
    plugin: str | None = None,
    tenant: str = DEFAULT_TENANT,
    limit: int = 100,
) -> list[Entry]:
    """The latest entries, newest first."""
    return page(tx, tenant, Wanted(type=event_type, plugin=plugin), limit=limit)


def told_of(tx: Transaction, name: str, tenant: str = DEFAULT_TENANT) -> list[Entry]:
    """The entry with this id, or everything that was recorded of the call or request with this id, in order."""
    rows = tx.all(f"{_SELECT} AND id = ?", (tenant, name))
    rows = rows or tx.all(f"{_SELECT} AND (call = ? OR request = ?) ORDER BY seq LIMIT ?", (tenant, name, name, MOST))
    return [read(Sealed(**row)) for row in rows]


def tenants(tx: Transaction) -> list[str]:
    """Everyone who has a chain, or should have."""
    found = tx.all(
        "SELECT tenant FROM ledger_heads UNION SELECT tenant FROM ledger_checkpoints "
        "UNION SELECT tenant FROM ledger ORDER BY tenant"
    )
    return [row["tenant"] for row in found]


def sealed(tx: Transaction, tenant: str, *, after: int, limit: int) -> Iterator[Sealed]:
    """Rows as they stand in the table, oldest first."""
    return (Sealed(**row) for row in tx.all(f"{_SELECT} AND seq > ? ORDER BY seq LIMIT ?", (tenant, after, limit)))


def last_seq(tx: Transaction, tenant: str) -> int:
    """The number of the last entry; 0 where there is none."""
    row = tx.one("SELECT max(seq) AS seq FROM ledger WHERE tenant = ?", (tenant,))
    return (row["seq"] if row else None) or 0


def _conditions(wanted: Wanted, after: int | None, before: int | None) -> tuple[str, list[Any]]:
    asked: list[tuple[str, tuple[Any, ...]]] = [] if wanted.type is None else [_of_type(wanted.type)]
    for column in ("plugin", "call", "request", "principal"):
        value = getattr(wanted, column)
        if value is not None:
            asked.append((f"{column} = ?", (value,)))
    numbers = (("at >= ?", wanted.since), ("at < ?", wanted.until), ("seq > ?", after), ("seq < ?", before))
    asked += [(condition, (value,)) for condition, value in numbers if value is not None]
    return "".join(f" AND {condition}" for condition, _ in asked), [one for _, values in asked for one in values]


def _of_type(kind: str) -> tuple[str, tuple[Any, ...]]:
    """The condition for entries of a type, and for those that stand for one of it."""
    if kind.endswith(".*"):
        begin = kind[:-1]
        of_type, values = "type >= ? AND type < ?", (begin, begin[:-1] + "/")  # the character after the dot
        said = [name for name in SAID_BY if name.startswith(begin)]
    else:
        of_type, values = "type = ?", (kind,)
        said = [kind] if kind in SAID_BY else []
    conditions, found = [f"({of_type})"], list[Any](values)
    for name in said:
        # Facts are canonical, so this is how it stands there. A plugin that writes the same into the metrics of its
        # answer is found by it as well, with that answer.
        conditions.append(f"(type IN ({', '.join('?' * len(SAID_BY[name]))}) AND facts LIKE ?)")
        found += [*SAID_BY[name], f'%"stands_for":[%"{name}"%']
    return f"({' OR '.join(conditions)})", tuple(found)
