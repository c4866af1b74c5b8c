"""Audit events of principals: tenants, people, groups, keys and consents. Never a token."""

from __future__ import annotations

from typing import Literal

from paddock.core.events.event import Event, event


@event("tenant.created")
class TenantCreated(Event):
    """A tenant was made; recorded with the default tenant, where the host's operator is."""

    tenant: str
    by: str


@event("tenant.removed")
class TenantRemoved(Event):
    """A tenant that nothing belonged to was removed; recorded with the default tenant."""

    tenant: str
    by: str


@event("person.added")
class PersonAdded(Event):
    """A person was added to a tenant."""

    person: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    by: str


@event("person.changed")
class PersonChanged(Event):
    """What a person may do changed; `roles` and `scopes` are those they have now."""

    person: str
    change: Literal["roles", "scopes", "disabled", "enabled", "removed"]
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    by: str


@event("group.changed")
class GroupChanged(Event):
    """A group was made or removed, or `person` came or went."""

    group: str
    change: Literal["added", "removed", "member_added", "member_removed"]
    person: str | None
    by: str


@event("api_key.created")
class ApiKeyCreated(Event):
    """A key was made that acts for its owner. The token is recorded nowhere."""

    key_id: str
    owner: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    expires_at: str | None
    by: str


@event("api_key.revoked")
class ApiKeyRevoked(Event):
    """A key that could still be used cannot be any more."""

    key_id: str
    owner: str
    by: str


@event("identity.linked")
class IdentityLinked(Event):
    """It is known from now on who a person is at an identity provider, or not any more."""

    person: str
    issuer: str
    change: Literal["linked", "unlinked"]
    by: str


@event("sign_in.refused")
class SignInRefused(Event):
    """An identity provider vouched for somebody, and they were not let in; `person` is who they would be."""

    issuer: str
    person: str | None
    reason: str


@event("session.opened")
class SessionOpened(Event):
    """Somebody signed in at the console; `via` is how. The token is recorded nowhere."""

    session: str
    person: str
    via: str
    expires_at: str


@event("session.ended")
class SessionEnded(Event):
    """Somebody was signed out, by themselves or by another."""

    session: str
    person: str
    by: str


@event("login_link.made")
class LoginLinkMade(Event):
    """A link was made that signs somebody in, once."""

    link: str
    person: str
    expires_at: str
    by: str


@event("login_link.refused")
class LoginLinkRefused(Event):
    """Somebody came with a link that had been used, or whose time was over. Told once of each link."""

    link: str
    person: str
    reason: str


@event("consent.given")
class ConsentGiven(Event):
    """A person enabled one callable for themselves and consented to what it does."""

    person: str
    plugin: str
    callable: str
    by: str


@event("consent.revoked")
class ConsentRevoked(Event):
    """A person's consent to one callable was taken back, or went with its plugin or with the person."""

    person: str
    plugin: str
    callable: str
    by: str
