"""Audit events of principals: tenants, people, groups, keys and consents. Never a token."""

from __future__ import annotations

from typing import Literal

from paddock.core.events.event import Event, event


@event("tenant.created")
class TenantCreated(Event, frozen=True):
    """A tenant was created; recorded in the ledger of the default tenant."""

    tenant: str
    by: str


@event("tenant.removed")
class TenantRemoved(Event, frozen=True):
    """An empty tenant was removed; recorded in the ledger of the default tenant."""

    tenant: str
    by: str


@event("person.added")
class PersonAdded(Event, frozen=True):
    """A person was added to a tenant."""

    person: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    by: str


@event("person.changed")
class PersonChanged(Event, frozen=True):
    """A person's permissions or display name changed; `roles` and `scopes` are those that they have now."""

    person: str
    change: Literal["roles", "scopes", "renamed", "disabled", "enabled", "removed"]
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    by: str


@event("group.changed")
class GroupChanged(Event, frozen=True):
    """A group was added or removed, or `person` joined or left it."""

    group: str
    change: Literal["added", "removed", "member_added", "member_removed"]
    person: str | None
    by: str


@event("api_key.created")
class ApiKeyCreated(Event, frozen=True):
    """An API key was created. Its token is not recorded."""

    key_id: str
    owner: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    expires_at: str | None
    by: str


@event("api_key.revoked")
class ApiKeyRevoked(Event, frozen=True):
    """An API key was revoked."""

    key_id: str
    owner: str
    by: str


@event("identity.linked")
class IdentityLinked(Event, frozen=True):
    """A person was linked to an account at an identity provider, or unlinked."""

    person: str
    issuer: str
    change: Literal["linked", "unlinked"]
    by: str


@event("sign_in.refused")
class SignInRefused(Event, frozen=True):
    """A person whom an identity provider authenticated was not let in; `person` is the account it would be."""

    issuer: str
    person: str | None
    reason: str


@event("session.opened")
class SessionOpened(Event, frozen=True):
    """A person signed in to the console; `via` is the method. The token is not recorded."""

    session: str
    person: str
    via: str
    expires_at: str


@event("session.ended")
class SessionEnded(Event, frozen=True):
    """A console session ended: the person signed out, or was signed out."""

    session: str
    person: str
    by: str


@event("login_link.made")
class LoginLinkMade(Event, frozen=True):
    """A one-time login link was created."""

    link: str
    person: str
    expires_at: str
    by: str


@event("login_link.refused")
class LoginLinkRefused(Event, frozen=True):
    """A used or expired login link was refused. Recorded once for each link."""

    link: str
    person: str
    reason: str


@event("consent.given")
class ConsentGiven(Event, frozen=True):
    """A person enabled one callable for themselves and consented to its effects."""

    person: str
    plugin: str
    callable: str
    by: str


@event("consent.revoked")
class ConsentRevoked(Event, frozen=True):
    """A person's consent to one callable was revoked, or removed with its plugin or with the person."""

    person: str
    plugin: str
    callable: str
    by: str
