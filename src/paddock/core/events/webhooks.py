"""Audit events of webhooks. Never a full address, and never a signing secret."""

from __future__ import annotations

from typing import Literal

from paddock.core.events.event import Event, event


@event("webhook.added")
class WebhookAdded(Event):
    """Events of these types are sent to a receiver at this host from now on."""

    webhook: str
    host: str
    types: tuple[str, ...]
    by: str


@event("webhook.changed")
class WebhookChanged(Event):
    """A webhook was switched on or off, or got another signing secret; without `by` the host did so by itself."""

    webhook: str
    change: Literal["enabled", "disabled", "rotated"]
    reason: str | None
    by: str | None


@event("webhook.removed")
class WebhookRemoved(Event):
    """A webhook is told nothing any more; its signing secrets are gone."""

    webhook: str
    by: str


@event("webhook.gave_up")
class WebhookGaveUp(Event):
    """An entry could not be delivered, however often it was tried; it is among the dead letters. Told to no webhook."""

    webhook: str
    event_id: str
    times: int
    error_code: str
