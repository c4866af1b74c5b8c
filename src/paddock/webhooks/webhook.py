"""Webhooks as rows, each with its place in its tenant's ledger. Every function takes its unit of work."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import orjson

from paddock.core.errors import Conflict, NotFound
from paddock.core.events.event import EventSink
from paddock.core.events.webhooks import WebhookAdded, WebhookChanged, WebhookRemoved
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.ledger.read.entries import read_head
from paddock.queue import queue
from paddock.secrets.rows import AuditScope, remove_owner_secrets
from paddock.store.database import Row, Transaction

DELIVERY_JOB = "webhook.deliver"
"""The kind of work in the queue; its key is the webhook's id."""
MAX_WEBHOOKS = 50  # of one tenant
DISABLED_BY_OPERATOR = "operator"

# ruff: noqa: S608 - what is put together are names of our own

_COLUMNS = (
    "tenant, id, url, label, types, personal, enabled, disabled_why, created_at, created_by, before_until, position,"
    " attempts, reason, failing_at, delivered, delivered_at"
)
_THIS = "tenant = ? AND id = ?"


@dataclass(frozen=True, slots=True)
class Webhook:
    """Whom a tenant's events are sent to.

    Attributes:
        types: Which of them; see `patterns.py`.
        personal: Whether what entries say of people is sent too.
        disabled_why: `operator`, `gone` where the receiver said that it is, `dead_full` where it took nothing for long.
        before_until: Until when the signing secret before this one is used too.
        position: The last entry of the ledger that it needs not be told any more.
        attempts: How often the one after that was tried.
        reason: Why the last attempt failed, and `failing_at` when; both empty once one goes well.
    """

    tenant: Tenant
    id: str
    url: str
    label: str
    types: tuple[str, ...]
    personal: bool
    enabled: bool
    disabled_why: str | None
    created_at: str
    created_by: str
    before_until: str | None
    position: int
    attempts: int
    reason: str | None
    failing_at: str | None
    delivered: int
    delivered_at: str | None

    @property
    def owner(self) -> str:
        """Whose its signing secrets are: no person's and no tenant's, so that no plugin can ask for them."""
        return secret_owner(self.id)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"types": list(self.types)}


def secret_owner(webhook: str) -> str:
    return f"webhook:{webhook}"


def add(
    deed: AuditScope, name: str, url: str, host: str, label: str, types: tuple[str, ...], *, personal: bool
) -> Webhook:
    """Have a tenant's events sent somewhere, from the next one on.

    Raises:
        Conflict: `webhook.too_many`, there are as many as a tenant may have.
    """
    if len(list_webhooks(deed.tx, deed.tenant)) >= MAX_WEBHOOKS:
        raise Conflict(
            f"a tenant has {MAX_WEBHOOKS} webhooks at most", code="webhook.too_many", hint="paddock webhook remove ID"
        )
    deed.publish.publish(WebhookAdded(webhook=name, host=host, types=types, by=deed.by))
    head = read_head(deed.tx, deed.tenant)
    deed.tx.execute(
        "INSERT INTO webhooks (tenant, id, url, label, types, personal, enabled, created_at, created_by, position,"
        " attempts, delivered) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, 0, 0)",
        (
            deed.tenant,
            name,
            url,
            label,
            orjson.dumps(types).decode(),
            int(personal),
            deed.now,
            deed.by,
            head[0] if head else 0,
        ),
    )
    return require(deed.tx, deed.tenant, name)


def list_webhooks(tx: Transaction, tenant: str) -> list[Webhook]:
    """A tenant's webhooks, the oldest first."""
    rows = tx.all(f"SELECT {_COLUMNS} FROM webhooks WHERE tenant = ? ORDER BY created_at, id", (tenant,))
    return [_webhook_from_row(row) for row in rows]


def list_enabled(tx: Transaction) -> list[Webhook]:
    """The webhooks of every tenant that are switched on."""
    return [
        _webhook_from_row(row)
        for row in tx.all(f"SELECT {_COLUMNS} FROM webhooks WHERE enabled = 1 ORDER BY tenant, id")
    ]


def find(tx: Transaction, tenant: str, name: str) -> Webhook | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM webhooks WHERE {_THIS}", (tenant, name))
    return None if row is None else _webhook_from_row(row)


def require(tx: Transaction, tenant: str, name: str) -> Webhook:
    """One webhook of a tenant.

    Raises:
        NotFound: it has none of that name.
    """
    found = find(tx, tenant, name)
    if found is None:
        raise NotFound(
            f"there is no webhook {printable(name, 80)!r}", code="webhook.not_found", hint="paddock webhook list"
        )
    return found


def next_attempt_at(tx: Transaction, hook: Webhook) -> str | None:
    """When one that fails is tried again; a time that is over means now, or once a daemon runs. None: nothing is."""
    due = queue.find_due(tx, hook.tenant, DELIVERY_JOB, hook.id) if hook.enabled and hook.reason is not None else None
    return None if due is None else due.isoformat()


def remove(deed: AuditScope, name: str) -> Webhook:
    """Tell it nothing any more, and erase its signing secrets.

    Raises:
        NotFound: there is none.
    """
    found = require(deed.tx, deed.tenant, name)
    queue.remove(deed.tx, deed.tenant, DELIVERY_JOB, name)
    deed.tx.execute(f"DELETE FROM webhooks WHERE {_THIS}", (deed.tenant, name))
    remove_owner_secrets(deed, found.owner)
    deed.publish.publish(WebhookRemoved(webhook=name, by=deed.by))
    return found


def set_enabled(deed: AuditScope, name: str, *, on: bool, from_now: bool = False) -> Webhook:
    """Switch it on or off. Switched on again it is told what happened meanwhile, unless it is to begin from now.

    Raises:
        NotFound: there is none.
    """
    found = require(deed.tx, deed.tenant, name)
    if found.enabled != on:
        why = None if on else DISABLED_BY_OPERATOR
        change = "enabled" if on else "disabled"
        deed.publish.publish(WebhookChanged(webhook=name, change=change, reason=why, by=deed.by))
        _update_enabled(deed.tx, found, on=on, why=why)
    if on and from_now and (head := read_head(deed.tx, deed.tenant)):
        deed.tx.execute(f"UPDATE webhooks SET position = ? WHERE {_THIS}", (head[0], deed.tenant, name))
    return require(deed.tx, deed.tenant, name)


def disable(tx: Transaction, hook: Webhook, why: str, told: EventSink) -> None:
    """The host switches it off by itself."""
    _update_enabled(tx, hook, on=False, why=why)
    told.publish(WebhookChanged(webhook=hook.id, change="disabled", reason=why, by=None))


def _update_enabled(tx: Transaction, hook: Webhook, *, on: bool, why: str | None) -> None:
    # What is tried right now belongs to nobody any more, and when it is tried next does not count.
    queue.remove(tx, hook.tenant, DELIVERY_JOB, hook.id)
    tx.execute(
        f"UPDATE webhooks SET enabled = ?, disabled_why = ?, attempts = 0 WHERE {_THIS}",
        (int(on), why, hook.tenant, hook.id),
    )


def keep_previous_secret(tx: Transaction, tenant: str, name: str, until: str) -> None:
    """Note until when the signing secret before is used too."""
    tx.execute(f"UPDATE webhooks SET before_until = ? WHERE {_THIS}", (until, tenant, name))


def advance_position(tx: Transaction, hook: Webhook, position: int) -> None:
    """Nothing up to this entry is for it."""
    tx.execute(f"UPDATE webhooks SET position = ? WHERE {_THIS}", (position, hook.tenant, hook.id))


def record_delivery(tx: Transaction, hook: Webhook, now: str, *, position: int | None, count: int) -> None:
    """It took so many events; those of the entry in line where one is given, or else of a dead letter."""
    tx.execute(
        f"UPDATE webhooks SET delivered = delivered + ?, delivered_at = ?, reason = NULL, failing_at = NULL"
        f" WHERE {_THIS}",
        (count, now, hook.tenant, hook.id),
    )
    if position is not None:
        tx.execute(f"UPDATE webhooks SET position = ?, attempts = 0 WHERE {_THIS}", (position, hook.tenant, hook.id))


def record_failure(tx: Transaction, hook: Webhook, now: str, attempts: int, reason: str) -> None:
    """The next entry was tried so often by now, in vain."""
    tx.execute(
        f"UPDATE webhooks SET attempts = ?, reason = ?, failing_at = ? WHERE {_THIS}",
        (attempts, reason, now, hook.tenant, hook.id),
    )


def _webhook_from_row(row: Row) -> Webhook:
    flags = {name: bool(row[name]) for name in ("personal", "enabled")}
    values: dict[str, Any] = row | flags | {"types": tuple(orjson.loads(row["types"]))}
    return Webhook(**values)
