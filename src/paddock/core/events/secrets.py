"""Audit events of secrets: set, removed or used, by whom and for whom. Never a value."""

from __future__ import annotations

from typing import Literal

from paddock.core.events.event import Event, event


@event("secret.set")
class SecretSet(Event):
    """A secret got a value; `owner` is whose it is, where it is not the whole tenant's."""

    secret: str
    scope: Literal["user", "system"]
    version: int
    owner: str | None
    by: str


@event("secret.removed")
class SecretRemoved(Event):
    """A secret was removed, and its data key with it."""

    secret: str
    scope: Literal["user", "system"]
    owner: str | None
    by: str


@event("secret.used")
class SecretUsed(Event):
    """A plugin was given a secret that it declares; recorded once for each call, and outside of calls once a second."""

    plugin: str
    secret: str
    scope: Literal["user", "system"]
    request_id: str | None
    owner: str | None
    call_id: str | None = None


@event("secret.rotated")
class SecretRotated(Event):
    """Every secret is wrapped with another key than before; recorded with the default tenant."""

    key_id: str
    count: int
    by: str
