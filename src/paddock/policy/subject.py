"""Who acts, as the rules see them: our values, made into Cedar's entities. Pure.

A subject holds everything of somebody that a rule can ask about, and nothing else. Two that are equal are the same to
every rule, which is what lets decisions be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from paddock.core.call import Principal, PrincipalKind
from paddock.manifest.model import Kind, Manifest

SubjectType: TypeAlias = Literal["User", "ApiKey", "Agent", "Adapter", "Plugin"]
Entity: TypeAlias = dict[str, Any]

_TYPES: Final[Mapping[PrincipalKind, SubjectType]] = {
    "person": "User",
    "local": "User",
    "key": "ApiKey",
    "agent": "Agent",
    "adapter": "Adapter",
    "plugin": "Plugin",
}
_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Traits:
    """What is true of a plugin and of everything it offers. The defaults are those of one nobody stands behind."""

    kind: str = Kind.PLUGIN
    tier: str = "personal"
    signature: str = "unsigned"
    tags: frozenset[str] = _NONE


NOBODY_BEHIND_IT: Final = Traits()


@dataclass(frozen=True, slots=True)
class Subject:
    """Who acts."""

    type: SubjectType
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
    traits: Traits = NOBODY_BEHIND_IT
    """Of a plugin; says nothing of others."""

    def __str__(self) -> str:
        return self.id


def subject_of(
    principal: Principal,
    *,
    consents: Iterable[str] = (),
    may_call: Iterable[str] = (),
    traits: Traits | None = None,
) -> Subject:
    """The subject that a principal is.

    Args:
        principal: From the credential.
        consents: Full names of what its person enabled and consented to.
        may_call: An agent's whitelist, as full names.
        traits: Of the plugin that acts, where it is one.
    """
    return Subject(
        _TYPES[principal.kind],
        principal.id,
        principal.tenant,
        principal.roles,
        principal.groups,
        principal.scopes,
        frozenset(consents),
        frozenset(may_call),
        principal.interactive,
        traits or NOBODY_BEHIND_IT,
    )


def plugin_subject(manifest: Manifest, tenant: str, *, tier: str, signature: str) -> Subject:
    """A plugin that asks the host for something."""
    return Subject("Plugin", manifest.name, tenant, traits=traits_of(manifest, tier=tier, signature=signature))


def traits_of(manifest: Manifest, *, tier: str, signature: str, tags: Iterable[str] = ()) -> Traits:
    """The traits of a plugin, or of one of its callables, which may have tags of its own.

    Args:
        manifest: The plugin's.
        tier: The effective trust tier, never the claimed one.
        signature: What its signature is worth here, or `embedded`. Of a server elsewhere it says nothing: no package
            of it runs here, so it is `remote`.
        tags: The callable's.
    """
    signature = signature if manifest.caged else "remote"
    return Traits(str(manifest.kind), tier, signature, frozenset((*manifest.policy_tags, *tags)))


def subject_entity(subject: Subject, known_tags: frozenset[str]) -> Entity:
    """The subject as Cedar takes it."""
    attributes: Entity = {
        "tenant": subject.tenant,
        "scopes": sorted(subject.scopes),
        "consents": [reference("Callable", name) for name in sorted(subject.consents)],
        "interactive": subject.interactive,
    }
    if subject.type == "Agent":
        attributes["may_call"] = [reference("Callable", name) for name in sorted(subject.may_call)]
    elif subject.type == "Plugin":
        attributes |= trait_attributes(subject.traits, known_tags)
    belongs = [uid("Role", role) for role in sorted(subject.roles)]
    belongs += [uid("Group", group) for group in sorted(subject.groups)]
    return {"uid": uid(subject.type, subject.id), "attrs": attributes, "parents": belongs}


def trait_attributes(traits: Traits, known_tags: frozenset[str]) -> Entity:
    """The traits as attributes. Tags that are not in the vocabulary are left out: no rule can speak of them."""
    return {
        "kind": reference("Kind", traits.kind),
        "tier": reference("Tier", traits.tier),
        "signature": reference("Signature", traits.signature),
        "tags": [reference("Tag", tag) for tag in sorted(traits.tags & known_tags)],
    }


def uid(kind: str, name: str) -> Entity:
    return {"type": kind, "id": name}


def reference(kind: str, name: str) -> Entity:
    """An entity as the value of an attribute."""
    return {"__entity": {"type": kind, "id": name}}
