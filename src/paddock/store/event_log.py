"""The events table: what happened, in the transaction in which it happened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from paddock.core.clock import Clock, Random
from paddock.core.event import Event, to_record
from paddock.core.ids import new_id

from .transaction import Transaction

_MOST = 1000
_TOGETHER = (64, 16, 4, 1)  # rows of one statement


class Recorded(NamedTuple):
    """An event as it was recorded."""

    id: str
    at: str
    type: str
    tenant: str
    plugin: str | None
    data: Mapping[str, Any]


def record(
    tx: Transaction,
    *,
    event_id: str,
    at: str,
    event_type: str,
    tenant: str,
    data: Mapping[str, Any],
    plugin: str | None = None,
) -> None:
    """Record one event. Recording the same id again changes nothing, so a retry is harmless.

    Args:
        tx: The unit of work the event belongs to; both are kept, or neither.
        event_id: Unique.
        at: ISO-8601 in UTC.
        event_type: What happened.
        tenant: Whose it is.
        data: The facts, without secrets.
        plugin: The plugin it is about, if it is about one.
    """
    record_all(tx, [Recorded(event_id, at, event_type, tenant, plugin, data)])


def record_all(tx: Transaction, events: Sequence[Recorded]) -> None:
    """Record many events, as `record` does one.

    Many rows go in with one statement: between two statements another thread may take the interpreter's lock, and the
    next one waits for it. The sizes are few, so that the statements are known.
    """
    left = list(events)
    for size in _TOGETHER:
        while len(left) >= size:
            now, left = left[:size], left[size:]
            values = ", ".join(["(?, ?, ?, ?, ?, ?)"] * size)
            tx.execute(
                f"INSERT INTO events (id, at, type, tenant, plugin, data) VALUES {values} ON CONFLICT (id) DO NOTHING",  # noqa: S608
                [value for one in now for value in (*one[:5], _text(one.data))],
            )


def _text(data: Mapping[str, Any]) -> str:
    import orjson  # only where something is recorded: listing plugins does without

    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()


@dataclass(frozen=True, slots=True)
class EventTable:
    """The seam that events leave through, for one unit of work; the table stands behind it."""

    tx: Transaction
    clock: Clock
    random: Random
    tenant: str

    def publish(self, event: Event) -> None:
        data = to_record(event)
        record(
            self.tx,
            event_id=new_id("evt", self.clock, self.random),
            at=self.clock.now().isoformat(),
            event_type=event.type,
            tenant=self.tenant,
            plugin=data.get("name"),
            data=data,
        )


def recent(
    tx: Transaction,
    *,
    event_type: str | None = None,
    plugin: str | None = None,
    tenant: str | None = None,
    limit: int = 100,
) -> list[Recorded]:
    """The latest events, newest first, narrowed by what is given."""
    wanted = {"type": event_type, "plugin": plugin, "tenant": tenant}
    asked = {column: value for column, value in wanted.items() if value is not None}
    where = " AND ".join(f"{column} = ?" for column in asked)
    rows = tx.all(
        "SELECT id, at, type, tenant, plugin, data FROM events"  # noqa: S608  # column names are ours
        + (f" WHERE {where}" if where else "")
        + " ORDER BY at DESC, id DESC LIMIT ?",
        (*asked.values(), max(0, min(limit, _MOST))),
    )
    return [Recorded(**{**row, "data": json.loads(row["data"])}) for row in rows]
