"""Principals as the rules see them, and their conversion to Cedar entities. Pure.

A `PolicyPrincipal` holds everything that a rule can ask about a principal, and nothing else. Equal ones are the same to
every rule, which is what makes decisions cacheable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from paddock.core.call import Principal, PrincipalKind
from paddock.manifest.model import Manifest, PluginKind

PrincipalType: TypeAlias = Literal["User", "ApiKey", "Agent", "Adapter", "Plugin"]
CedarEntity: TypeAlias = dict[str, Any]

_TYPE_BY_KIND: Final[Mapping[PrincipalKind, PrincipalType]] = {
    "person": "User",
    "local": "User",
    "key": "ApiKey",
    "agent": "Agent",
    "adapter": "Adapter",
    "plugin": "Plugin",
}
_NONE: Final[frozenset[str]] = frozenset()


class PluginTraits(Struct, frozen=True):
    """The traits of a plugin and all its callables. The defaults are those of a plugin that nobody vouches for."""

    kind: str = PluginKind.PLUGIN
    tier: str = "personal"
    signature: str = "unsigned"
    tags: frozenset[str] = _NONE


UNTRUSTED_TRAITS: Final = PluginTraits()


class PolicyPrincipal(Struct, frozen=True):
    """A principal as the rules see it."""

    type: PrincipalType
    id: str
    tenant: str
    roles: frozenset[str] = _NONE
    groups: frozenset[str] = _NONE
    scopes: frozenset[str] = _NONE
    consents: frozenset[str] = _NONE
    """Full names of callables that the person enabled and consented to."""
    may_call: frozenset[str] = _NONE
    """Full names of callables on an agent's allowlist."""
    interactive: bool = False
    traits: PluginTraits = UNTRUSTED_TRAITS
    """The traits of a plugin; meaningless for other principals."""

    def __str__(self) -> str:
        return self.id


def to_policy_principal(
    principal: Principal,
    *,
    consents: Iterable[str] = (),
    may_call: Iterable[str] = (),
) -> PolicyPrincipal:
    """Convert a principal for the policy.

    Args:
        principal: The authenticated principal.
        consents: Full names of callables that its person enabled and consented to.
        may_call: An agent's allowlist, as full names.
    """
    return PolicyPrincipal(
        _TYPE_BY_KIND[principal.kind],
        principal.id,
        principal.tenant,
        principal.roles,
        principal.groups,
        principal.scopes,
        frozenset(consents),
        frozenset(may_call),
        principal.interactive,
    )


def plugin_principal(manifest: Manifest, tenant: str, *, tier: str, signature: str) -> PolicyPrincipal:
    """Build the principal of a plugin that uses a capability of the host."""
    return PolicyPrincipal(
        "Plugin", manifest.name, tenant, traits=plugin_traits(manifest, tier=tier, signature=signature)
    )


def plugin_traits(manifest: Manifest, *, tier: str, signature: str, tags: Iterable[str] = ()) -> PluginTraits:
    """Build the traits of a plugin, or of one of its callables, which may have tags of its own.

    Args:
        manifest: The plugin's manifest.
        tier: The effective trust tier, never the claimed one.
        signature: The verified state of its signature, or `embedded`. For a remote server it is always `remote`: none
            of its code runs here, so a signature says nothing.
        tags: The callable's own tags.
    """
    signature = signature if manifest.caged else "remote"
    return PluginTraits(str(manifest.kind), tier, signature, frozenset((*manifest.policy_tags, *tags)))


def principal_entity(principal: PolicyPrincipal, known_tags: frozenset[str]) -> CedarEntity:
    """Convert a principal to a Cedar entity."""
    attributes: CedarEntity = {
        "tenant": principal.tenant,
        "scopes": sorted(principal.scopes),
        "consents": [entity_reference("Callable", name) for name in sorted(principal.consents)],
        "interactive": principal.interactive,
    }
    if principal.type == "Agent":
        attributes["may_call"] = [entity_reference("Callable", name) for name in sorted(principal.may_call)]
    elif principal.type == "Plugin":
        attributes |= trait_attributes(principal.traits, known_tags)
    parents = [entity_uid("Role", role) for role in sorted(principal.roles)]
    parents += [entity_uid("Group", group) for group in sorted(principal.groups)]
    return {"uid": entity_uid(principal.type, principal.id), "attrs": attributes, "parents": parents}


def trait_attributes(traits: PluginTraits, known_tags: frozenset[str]) -> CedarEntity:
    """Convert traits to attributes. Tags outside the vocabulary are left out: no rule can name them."""
    return {
        "kind": entity_reference("Kind", traits.kind),
        "tier": entity_reference("Tier", traits.tier),
        "signature": entity_reference("Signature", traits.signature),
        "tags": [entity_reference("Tag", tag) for tag in sorted(traits.tags & known_tags)],
    }


def entity_uid(kind: str, name: str) -> CedarEntity:
    return {"type": kind, "id": name}


def entity_reference(kind: str, name: str) -> CedarEntity:
    """Return a reference to an entity, as the value of an attribute."""
    return {"__entity": {"type": kind, "id": name}}
