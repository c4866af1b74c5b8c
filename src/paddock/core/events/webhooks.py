"""Audit events of webhooks. Never a full address, and never a signing secret."""

from __future__ import annotations

from typing import Literal

from paddock.core.events.event import Event, event


@event("webhook.added")
class WebhookAdded(Event, frozen=True):
    """A webhook was added: a receiver at this host gets events of these types."""

    webhook: str
    host: str
    types: tuple[str, ...]
    by: str


@event("webhook.changed")
class WebhookChanged(Event, frozen=True):
    """A webhook was enabled or disabled, or its signing secret rotated; `by` is null if the host did it."""

    webhook: str
    change: Literal["enabled", "disabled", "rotated"]
    reason: str | None
    by: str | None


@event("webhook.removed")
class WebhookRemoved(Event, frozen=True):
    """A webhook was removed, with its signing secrets."""

    webhook: str
    by: str


@event("webhook.gave_up")
class WebhookGaveUp(Event, frozen=True):
    """An event could not be delivered and became a dead letter. Not sent to webhooks."""

    webhook: str
    event_id: str
    times: int
    error_code: str
