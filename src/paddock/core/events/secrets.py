"""Audit events of secrets: set, removed or used, by whom and for whom. Never a value."""

from __future__ import annotations

from typing import Literal

from paddock.core.events.event import Event, event


@event("secret.set")
class SecretSet(Event, frozen=True):
    """A secret was set; `owner` is null if it belongs to the whole tenant."""

    secret: str
    scope: Literal["user", "system"]
    version: int
    owner: str | None
    by: str


@event("secret.removed")
class SecretRemoved(Event, frozen=True):
    """A secret was removed, with its data key."""

    secret: str
    scope: Literal["user", "system"]
    owner: str | None
    by: str


@event("secret.used")
class SecretUsed(Event, frozen=True):
    """A plugin received a secret that it declares; recorded once for each call, and once a second outside of calls."""

    plugin: str
    secret: str
    scope: Literal["user", "system"]
    request_id: str | None
    owner: str | None
    call_id: str | None = None


@event("secret.rotated")
class SecretRotated(Event, frozen=True):
    """All secrets were rewrapped with a new key; recorded in the ledger of the default tenant."""

    key_id: str
    count: int
    by: str
