"""Entries that a webhook did not take, however often they were tried. Every function takes its unit of work.

Only where they stand in the ledger is kept: what is sent when one is tried again is made from there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from paddock.core.errors import NotFound
from paddock.ledger.entry import LedgerEntry
from paddock.store.database import Row, Transaction
from paddock.webhooks.webhook import Webhook

MAX_DEAD_LETTERS = 1000  # of one webhook; then it is switched off
MAX_LISTED = 1000

# ruff: noqa: S608 - what is put together are names of our own

_COLUMNS = "seq, event_id, type, attempts, reason, died_at, again"
_OF_WEBHOOK = "tenant = ? AND webhook = ?"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One entry that could not be delivered; `again` once somebody asked for another try."""

    seq: int
    event_id: str
    type: str
    attempts: int
    reason: str
    died_at: str
    again: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def add(tx: Transaction, hook: Webhook, entry: LedgerEntry, attempts: int, reason: str, now: str) -> int:
    """Give an entry up. How many there are by now."""
    tx.execute(
        f"INSERT INTO webhook_dead (tenant, webhook, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)"
        " ON CONFLICT DO NOTHING",
        (hook.tenant, hook.id, entry.seq, entry.id, entry.type, attempts, reason, now),
    )
    return count(tx, hook.tenant, hook.id)


def count(tx: Transaction, tenant: str, webhook: str) -> int:
    row = tx.one(f"SELECT count(*) AS n FROM webhook_dead WHERE {_OF_WEBHOOK}", (tenant, webhook))
    return row["n"] if row else 0


def last_seq(tx: Transaction, tenant: str, webhook: str) -> int:
    """The number of the last entry among them; 0 where there is none."""
    row = tx.one(f"SELECT max(seq) AS seq FROM webhook_dead WHERE {_OF_WEBHOOK}", (tenant, webhook))
    return (row["seq"] or 0) if row else 0


def list_dead_letters(
    tx: Transaction, tenant: str, webhook: str, *, limit: int = 100, after: int = 0
) -> list[DeadLetter]:
    """Some of them, in the order of the ledger."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM webhook_dead WHERE {_OF_WEBHOOK} AND seq > ? ORDER BY seq LIMIT ?",
        (tenant, webhook, after, max(0, min(limit, MAX_LISTED))),
    )
    return [_dead_letter_from_row(row) for row in rows]


def request_retry(tx: Transaction, tenant: str, webhook: str, event: str | None) -> int:
    """Have one tried once more, by its event's id, or all of them. How many that are.

    Raises:
        NotFound: `webhook.not_dead`, there is none of that event.
    """
    one, more = (" AND event_id = ?", (event,)) if event is not None else ("", ())
    asked = tx.execute(f"UPDATE webhook_dead SET again = 1 WHERE {_OF_WEBHOOK}{one}", (tenant, webhook, *more))
    if event is not None and not asked:
        raise NotFound(
            "no such event is among its dead letters", code="webhook.not_dead", hint=f"paddock webhook dead {webhook}"
        )
    return asked


def next_retry(tx: Transaction, tenant: str, webhook: str) -> DeadLetter | None:
    """The first one that somebody asked another try of."""
    first = f"SELECT {_COLUMNS} FROM webhook_dead WHERE {_OF_WEBHOOK} AND again = 1 ORDER BY seq LIMIT 1"
    row = tx.one(first, (tenant, webhook))
    return None if row is None else _dead_letter_from_row(row)


def remove(tx: Transaction, hook: Webhook, seq: int) -> None:
    """It was taken after all."""
    tx.execute(f"DELETE FROM webhook_dead WHERE {_OF_WEBHOOK} AND seq = ?", (hook.tenant, hook.id, seq))


def record_failed_retry(tx: Transaction, hook: Webhook, seq: int, reason: str) -> None:
    """Another try was in vain; it stays until somebody asks for the next."""
    tx.execute(
        f"UPDATE webhook_dead SET again = 0, attempts = attempts + 1, reason = ? WHERE {_OF_WEBHOOK} AND seq = ?",
        (reason, hook.tenant, hook.id, seq),
    )


def _dead_letter_from_row(row: Row) -> DeadLetter:
    values: dict[str, Any] = row | {"again": bool(row["again"])}
    return DeadLetter(**values)
