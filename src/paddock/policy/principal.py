"""Who acts, as the rules see them: our values, made into Cedar's entities. Pure.

A subject holds everything of somebody that a rule can ask about, and nothing else. Two that are equal are the same to
every rule, which is what lets decisions be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from paddock.core.call import Principal, PrincipalKind
from paddock.manifest.model import Manifest, PluginKind

PrincipalType: TypeAlias = Literal["User", "ApiKey", "Agent", "Adapter", "Plugin"]
CedarEntity: TypeAlias = dict[str, Any]

_TYPES: Final[Mapping[PrincipalKind, PrincipalType]] = {
    "person": "User",
    "local": "User",
    "key": "ApiKey",
    "agent": "Agent",
    "adapter": "Adapter",
    "plugin": "Plugin",
}
_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class PluginTraits:
    """What is true of a plugin and of everything it offers. The defaults are those of one nobody stands behind."""

    kind: str = PluginKind.PLUGIN
    tier: str = "personal"
    signature: str = "unsigned"
    tags: frozenset[str] = _NONE


UNTRUSTED_TRAITS: Final = PluginTraits()


@dataclass(frozen=True, slots=True)
class PolicyPrincipal:
    """Who acts."""

    type: PrincipalType
    id: str
    tenant: str
    roles: frozenset[str] = _NONE
    groups: frozenset[str] = _NONE
    scopes: frozenset[str] = _NONE
    consents: frozenset[str] = _NONE
    """Full names of callables that the person enabled and consented to."""
    may_call: frozenset[str] = _NONE
    """Full names of callables on an agent's whitelist."""
    interactive: bool = False
    traits: PluginTraits = UNTRUSTED_TRAITS
    """Of a plugin; says nothing of others."""

    def __str__(self) -> str:
        return self.id


def to_policy_principal(
    principal: Principal,
    *,
    consents: Iterable[str] = (),
    may_call: Iterable[str] = (),
    traits: PluginTraits | None = None,
) -> PolicyPrincipal:
    """The subject that a principal is.

    Args:
        principal: From the credential.
        consents: Full names of what its person enabled and consented to.
        may_call: An agent's whitelist, as full names.
        traits: Of the plugin that acts, where it is one.
    """
    return PolicyPrincipal(
        _TYPES[principal.kind],
        principal.id,
        principal.tenant,
        principal.roles,
        principal.groups,
        principal.scopes,
        frozenset(consents),
        frozenset(may_call),
        principal.interactive,
        traits or UNTRUSTED_TRAITS,
    )


def plugin_principal(manifest: Manifest, tenant: str, *, tier: str, signature: str) -> PolicyPrincipal:
    """A plugin that asks the host for something."""
    return PolicyPrincipal(
        "Plugin", manifest.name, tenant, traits=plugin_traits(manifest, tier=tier, signature=signature)
    )


def plugin_traits(manifest: Manifest, *, tier: str, signature: str, tags: Iterable[str] = ()) -> PluginTraits:
    """The traits of a plugin, or of one of its callables, which may have tags of its own.

    Args:
        manifest: The plugin's.
        tier: The effective trust tier, never the claimed one.
        signature: What its signature is worth here, or `embedded`. Of a server elsewhere it says nothing: no package
            of it runs here, so it is `remote`.
        tags: The callable's.
    """
    signature = signature if manifest.caged else "remote"
    return PluginTraits(str(manifest.kind), tier, signature, frozenset((*manifest.policy_tags, *tags)))


def principal_entity(subject: PolicyPrincipal, known_tags: frozenset[str]) -> CedarEntity:
    """The subject as Cedar takes it."""
    attributes: CedarEntity = {
        "tenant": subject.tenant,
        "scopes": sorted(subject.scopes),
        "consents": [entity_reference("Callable", name) for name in sorted(subject.consents)],
        "interactive": subject.interactive,
    }
    if subject.type == "Agent":
        attributes["may_call"] = [entity_reference("Callable", name) for name in sorted(subject.may_call)]
    elif subject.type == "Plugin":
        attributes |= trait_attributes(subject.traits, known_tags)
    belongs = [entity_uid("Role", role) for role in sorted(subject.roles)]
    belongs += [entity_uid("Group", group) for group in sorted(subject.groups)]
    return {"uid": entity_uid(subject.type, subject.id), "attrs": attributes, "parents": belongs}


def trait_attributes(traits: PluginTraits, known_tags: frozenset[str]) -> CedarEntity:
    """The traits as attributes. Tags that are not in the vocabulary are left out: no rule can speak of them."""
    return {
        "kind": entity_reference("Kind", traits.kind),
        "tier": entity_reference("Tier", traits.tier),
        "signature": entity_reference("Signature", traits.signature),
        "tags": [entity_reference("Tag", tag) for tag in sorted(traits.tags & known_tags)],
    }


def entity_uid(kind: str, name: str) -> CedarEntity:
    return {"type": kind, "id": name}


def entity_reference(kind: str, name: str) -> CedarEntity:
    """An entity as the value of an attribute."""
    return {"__entity": {"type": kind, "id": name}}
