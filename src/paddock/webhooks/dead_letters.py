"""Dead letters: entries that a webhook did not accept after all attempts. Every function takes a transaction.

Only the ledger position is stored; a retry builds the event from the entry again.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import NotFound
from paddock.core.schema_annotations import DateTime, NonNegativeInt
from paddock.ledger.entry import LedgerEntry
from paddock.store.database import Row, Transaction
from paddock.webhooks.webhook import Webhook

MAX_DEAD_LETTERS = 1000  # per webhook; then it is disabled
MAX_LISTED = 1000

# ruff: noqa: S608 - only our own column names are interpolated

_COLUMNS = "seq, event_id, type, attempts, reason, died_at, again"
_OF_WEBHOOK = "tenant = ? AND webhook = ?"


class DeadLetterJson(TypedDict):
    """An event that a webhook did not accept after all attempts."""

    seq: NonNegativeInt
    event_id: str
    type: str
    attempts: NonNegativeInt
    reason: str
    died_at: DateTime
    again: Annotated[bool, "Whether a retry was requested and is pending."]


class DeadLetter(Struct, frozen=True):
    """An entry that could not be delivered; `again` if a retry was requested."""

    seq: int
    event_id: str
    type: str
    attempts: int
    reason: str
    died_at: str
    again: bool

    def to_json(self) -> DeadLetterJson:
        return {
            "seq": self.seq,
            "event_id": self.event_id,
            "type": self.type,
            "attempts": self.attempts,
            "reason": self.reason,
            "died_at": self.died_at,
            "again": self.again,
        }


def add(tx: Transaction, hook: Webhook, entry: LedgerEntry, attempts: int, reason: str, now: str) -> int:
    """Store a dead letter; returns how many the webhook has."""
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
    """Return the highest ledger position among the dead letters of a webhook; 0 if there are none."""
    row = tx.one(f"SELECT max(seq) AS seq FROM webhook_dead WHERE {_OF_WEBHOOK}", (tenant, webhook))
    return (row["seq"] or 0) if row else 0


def list_dead_letters(
    tx: Transaction, tenant: str, webhook: str, *, limit: int = 100, after: int = 0
) -> list[DeadLetter]:
    """List dead letters in ledger order."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM webhook_dead WHERE {_OF_WEBHOOK} AND seq > ? ORDER BY seq LIMIT ?",
        (tenant, webhook, after, max(0, min(limit, MAX_LISTED))),
    )
    return [_dead_letter_from_row(row) for row in rows]


def request_retry(tx: Transaction, tenant: str, webhook: str, event_id: str | None) -> int:
    """Request one more attempt for the dead letter of an event, or for all; returns their number.

    Raises:
        NotFound: `webhook.not_dead`, there is no dead letter of that event.
    """
    condition, arguments = (" AND event_id = ?", (event_id,)) if event_id is not None else ("", ())
    updated = tx.execute(
        f"UPDATE webhook_dead SET again = 1 WHERE {_OF_WEBHOOK}{condition}", (tenant, webhook, *arguments)
    )
    if event_id is not None and not updated:
        raise NotFound(
            "the webhook has no such undelivered event",
            code="webhook.not_dead",
            action=Action.of("webhook.dead_letter.list", webhook=webhook, tenant=tenant),
        )
    return updated


def next_retry(tx: Transaction, tenant: str, webhook: str) -> DeadLetter | None:
    """Return the first dead letter for which a retry was requested."""
    query = f"SELECT {_COLUMNS} FROM webhook_dead WHERE {_OF_WEBHOOK} AND again = 1 ORDER BY seq LIMIT 1"
    row = tx.one(query, (tenant, webhook))
    return None if row is None else _dead_letter_from_row(row)


def remove(tx: Transaction, hook: Webhook, seq: int) -> None:
    """Delete a dead letter that was delivered after all."""
    tx.execute(f"DELETE FROM webhook_dead WHERE {_OF_WEBHOOK} AND seq = ?", (hook.tenant, hook.id, seq))


def record_failed_retry(tx: Transaction, hook: Webhook, seq: int, reason: str) -> None:
    """Record a failed retry; the dead letter stays until the next request."""
    tx.execute(
        f"UPDATE webhook_dead SET again = 0, attempts = attempts + 1, reason = ? WHERE {_OF_WEBHOOK} AND seq = ?",
        (reason, hook.tenant, hook.id, seq),
    )


def _dead_letter_from_row(row: Row) -> DeadLetter:
    values: dict[str, Any] = row | {"again": bool(row["again"])}
    return DeadLetter(**values)
