"""Rows of webhooks, each with its position in the tenant's ledger. Every function takes a transaction."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import orjson
from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import Conflict, NotFound
from paddock.core.events.event import EventSink
from paddock.core.events.webhooks import WebhookAdded, WebhookChanged, WebhookRemoved
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.core.schema_annotations import DateTime, NonNegativeInt
from paddock.ledger.read.entries import read_head
from paddock.queue import queue
from paddock.secrets.rows import remove_owner_secrets
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Row, Transaction

DELIVERY_JOB = "webhook.deliver"
"""Kind of the queue job; its key is the webhook's id."""
MAX_WEBHOOKS = 50  # per tenant
DISABLED_BY_OPERATOR = "operator"

# ruff: noqa: S608 - only our own column names are interpolated

_COLUMNS = (
    "tenant, id, url, label, types, personal, enabled, disabled_why, created_at, created_by, before_until, position,"
    " attempts, reason, failing_at, delivered, delivered_at"
)
_THIS = "tenant = ? AND id = ?"


class WebhookRecordJson(TypedDict):
    """A receiver of a tenant's events, as it is stored."""

    tenant: str
    id: str
    url: str
    label: str
    types: Annotated[list[str], "The event types that are sent: `call.ended`, `plugin.*`, or `*` for all."]
    personal: Annotated[bool, "Whether personal data is sent too."]
    enabled: bool
    disabled_why: Annotated[
        str | None,
        "`operator`; `gone`: the receiver answered 410; `dead_full`: the receiver failed until the dead letters"
        " reached their limit.",
    ]
    created_at: DateTime
    created_by: str
    before_until: Annotated[DateTime | None, "Until when events are also signed with the previous secret."]
    position: Annotated[NonNegativeInt, "The last ledger entry that needs no more delivery."]
    attempts: Annotated[NonNegativeInt, "Failed attempts to deliver the next entry."]
    reason: Annotated[str | None, "Why the last attempt failed."]
    failing_at: DateTime | None
    delivered: Annotated[NonNegativeInt, "The number of delivered events."]
    delivered_at: DateTime | None


class Webhook(Struct, frozen=True):
    """A receiver of a tenant's events.

    Attributes:
        types: Selected event types; see `cloud_event.parse_patterns`.
        personal: Whether personal data is sent too.
        disabled_why: `operator`; `gone`, the receiver answered 410; `dead_full`, it accepted nothing for too long.
        before_until: Until when the previous signing secret is used too.
        position: The last ledger entry that needs no more delivery.
        attempts: Failed attempts of the entry after it.
        reason: Why the last attempt failed, and `failing_at` when; both None after a success.
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
        """The owner of its signing secrets: no person or tenant, so that no plugin can ask for them."""
        return secret_owner(self.id)

    def to_json(self) -> WebhookRecordJson:
        return {
            "tenant": self.tenant,
            "id": self.id,
            "url": self.url,
            "label": self.label,
            "types": list(self.types),
            "personal": self.personal,
            "enabled": self.enabled,
            "disabled_why": self.disabled_why,
            "created_at": self.created_at,
            "created_by": self.created_by,
            "before_until": self.before_until,
            "position": self.position,
            "attempts": self.attempts,
            "reason": self.reason,
            "failing_at": self.failing_at,
            "delivered": self.delivered,
            "delivered_at": self.delivered_at,
        }


def secret_owner(webhook_id: str) -> str:
    return f"webhook:{webhook_id}"


def add(
    audit: AuditedTransaction,
    webhook_id: str,
    url: str,
    host: str,
    label: str,
    types: tuple[str, ...],
    *,
    personal: bool,
) -> Webhook:
    """Add a webhook that gets the tenant's events from the next one on.

    Raises:
        Conflict: `webhook.too_many`, the tenant has reached the limit.
    """
    if len(list_webhooks(audit.tx, audit.tenant)) >= MAX_WEBHOOKS:
        raise Conflict(
            f"a tenant has {MAX_WEBHOOKS} webhooks at most",
            code="webhook.too_many",
            action=Action.of("webhook.remove", tenant=audit.tenant),
        )
    audit.publish.publish(WebhookAdded(webhook=webhook_id, host=host, types=types, by=audit.by))
    head = read_head(audit.tx, audit.tenant)
    audit.tx.execute(
        "INSERT INTO webhooks (tenant, id, url, label, types, personal, enabled, created_at, created_by, position,"
        " attempts, delivered) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, 0, 0)",
        (
            audit.tenant,
            webhook_id,
            url,
            label,
            orjson.dumps(types).decode(),
            int(personal),
            audit.now,
            audit.by,
            head[0] if head else 0,
        ),
    )
    return require(audit.tx, audit.tenant, webhook_id)


def list_webhooks(tx: Transaction, tenant: str) -> list[Webhook]:
    """List a tenant's webhooks, oldest first."""
    rows = tx.all(f"SELECT {_COLUMNS} FROM webhooks WHERE tenant = ? ORDER BY created_at, id", (tenant,))
    return [_webhook_from_row(row) for row in rows]


def list_enabled(tx: Transaction) -> list[Webhook]:
    """List the enabled webhooks of all tenants."""
    return [
        _webhook_from_row(row)
        for row in tx.all(f"SELECT {_COLUMNS} FROM webhooks WHERE enabled = 1 ORDER BY tenant, id")
    ]


def find(tx: Transaction, tenant: str, webhook_id: str) -> Webhook | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM webhooks WHERE {_THIS}", (tenant, webhook_id))
    return None if row is None else _webhook_from_row(row)


def require(tx: Transaction, tenant: str, webhook_id: str) -> Webhook:
    """Return one webhook of a tenant.

    Raises:
        NotFound: there is no such webhook.
    """
    hook = find(tx, tenant, webhook_id)
    if hook is None:
        raise unknown_webhook_error(tenant, webhook_id)
    return hook


def unknown_webhook_error(tenant: str, webhook_id: str) -> NotFound:
    """Build the error for a webhook that does not exist."""
    return NotFound(
        f"there is no webhook {printable(webhook_id, 80)!r}",
        code="webhook.not_found",
        action=Action.of("webhook.list", tenant=tenant),
    )


def next_attempt_at(tx: Transaction, hook: Webhook) -> str | None:
    """Return when a failing webhook is tried again; None if nothing is pending.

    A time in the past means now, or as soon as a daemon runs.
    """
    due = queue.find_due(tx, hook.tenant, DELIVERY_JOB, hook.id) if hook.enabled and hook.reason is not None else None
    return None if due is None else due.isoformat()


def remove(audit: AuditedTransaction, webhook_id: str) -> Webhook:
    """Remove a webhook, its pending job and its signing secrets.

    Raises:
        NotFound: there is no such webhook.
    """
    hook = require(audit.tx, audit.tenant, webhook_id)
    queue.remove(audit.tx, audit.tenant, DELIVERY_JOB, webhook_id)
    audit.tx.execute(f"DELETE FROM webhooks WHERE {_THIS}", (audit.tenant, webhook_id))
    remove_owner_secrets(audit, hook.owner)
    audit.publish.publish(WebhookRemoved(webhook=webhook_id, by=audit.by))
    return hook


def set_enabled(audit: AuditedTransaction, webhook_id: str, *, on: bool, from_now: bool = False) -> Webhook:
    """Enable or disable a webhook. Once enabled it gets the events that it missed, unless `from_now`.

    Raises:
        NotFound: there is no such webhook.
    """
    hook = require(audit.tx, audit.tenant, webhook_id)
    if hook.enabled != on:
        reason = None if on else DISABLED_BY_OPERATOR
        change = "enabled" if on else "disabled"
        audit.publish.publish(WebhookChanged(webhook=webhook_id, change=change, reason=reason, by=audit.by))
        _update_enabled(audit.tx, hook, on=on, reason=reason)
    if on and from_now and (head := read_head(audit.tx, audit.tenant)):
        audit.tx.execute(f"UPDATE webhooks SET position = ? WHERE {_THIS}", (head[0], audit.tenant, webhook_id))
    return require(audit.tx, audit.tenant, webhook_id)


def disable(tx: Transaction, hook: Webhook, reason: str, sink: EventSink) -> None:
    """Disable a webhook on the host's own initiative."""
    _update_enabled(tx, hook, on=False, reason=reason)
    sink.publish(WebhookChanged(webhook=hook.id, change="disabled", reason=reason, by=None))


def _update_enabled(tx: Transaction, hook: Webhook, *, on: bool, reason: str | None) -> None:
    # Removing the job revokes the lease of a running delivery and cancels the scheduled retry.
    queue.remove(tx, hook.tenant, DELIVERY_JOB, hook.id)
    tx.execute(
        f"UPDATE webhooks SET enabled = ?, disabled_why = ?, attempts = 0 WHERE {_THIS}",
        (int(on), reason, hook.tenant, hook.id),
    )


def keep_previous_secret(tx: Transaction, tenant: str, webhook_id: str, until: str) -> None:
    """Set until when the previous signing secret is used too."""
    tx.execute(f"UPDATE webhooks SET before_until = ? WHERE {_THIS}", (until, tenant, webhook_id))


def advance_position(tx: Transaction, hook: Webhook, position: int) -> None:
    """Skip entries up to `position`, which have no events for the webhook."""
    tx.execute(f"UPDATE webhooks SET position = ? WHERE {_THIS}", (position, hook.tenant, hook.id))


def record_delivery(tx: Transaction, hook: Webhook, now: str, *, position: int | None, count: int) -> None:
    """Record delivered events, of the entry at `position`, or of a dead letter if it is None."""
    tx.execute(
        f"UPDATE webhooks SET delivered = delivered + ?, delivered_at = ?, reason = NULL, failing_at = NULL"
        f" WHERE {_THIS}",
        (count, now, hook.tenant, hook.id),
    )
    if position is not None:
        tx.execute(f"UPDATE webhooks SET position = ?, attempts = 0 WHERE {_THIS}", (position, hook.tenant, hook.id))


def record_failure(tx: Transaction, hook: Webhook, now: str, attempts: int, reason: str) -> None:
    """Record that the next entry has failed `attempts` times."""
    tx.execute(
        f"UPDATE webhooks SET attempts = ?, reason = ?, failing_at = ? WHERE {_THIS}",
        (attempts, reason, now, hook.tenant, hook.id),
    )


def _webhook_from_row(row: Row) -> Webhook:
    flags = {name: bool(row[name]) for name in ("personal", "enabled")}
    values: dict[str, Any] = row | flags | {"types": tuple(orjson.loads(row["types"]))}
    return Webhook(**values)
