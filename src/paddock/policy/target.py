"""What is acted on, as the rules see it: a callable, or something that a plugin asks of the host. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from paddock.manifest.capability import (
    Capability,
    Execute,
    FileAccess,
    HostService,
    NetworkAccess,
    NoNetwork,
    SecretUse,
    StorageAccess,
)
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableSpec, Manifest
from paddock.manifest.names import full_name
from paddock.manifest.permissions import callable_effects
from paddock.policy.principal import (
    UNTRUSTED_TRAITS,
    CedarEntity,
    PluginTraits,
    entity_reference,
    entity_uid,
    plugin_traits,
    trait_attributes,
)

# What changing something through a service does to the world. What is left out keeps books for the plugin itself: its
# cache, how far it read, what it wrote to the log.
_WRITE_EFFECTS: Final = {
    "tables": Effect.DB_WRITE,
    "storage": Effect.DB_WRITE,
    "kb": Effect.DB_WRITE,
    "memory": Effect.MEMORY_WRITE,
    "vault": Effect.MEMORY_WRITE,
    "http": Effect.EXTERNAL_CALL,
}


@dataclass(frozen=True, slots=True)
class CallableTarget:
    """Something that can be called, by its full name."""

    name: str
    plugin: str
    traits: PluginTraits = UNTRUSTED_TRAITS
    effects: frozenset[str] = frozenset({"unknown"})
    requires_approval: bool = False
    flags: frozenset[str] = frozenset()
    """What is odd about its words."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class CapabilityTarget:
    """Something that a plugin asks of the host."""

    name: str
    """As it is granted: `storage:write`, `host:cache`."""
    family: str
    writes: bool = False
    effects: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name


PolicyTarget: TypeAlias = CallableTarget | CapabilityTarget


def callable_target(
    manifest: Manifest, spec: CallableSpec, *, tier: str, signature: str, flags: frozenset[str] = frozenset()
) -> CallableTarget:
    """The target that a callable of a plugin is; made once, when the plugin is enabled."""
    return CallableTarget(
        full_name(manifest.name, spec.name),
        manifest.name,
        plugin_traits(manifest, tier=tier, signature=signature, tags=spec.policy_tags),
        frozenset(map(str, callable_effects(manifest, spec))),
        spec.requires_approval,
        flags,
    )


def capability_target(
    needs: Capability | None, *, writes: bool, effects: Iterable[Effect] | None = None
) -> CapabilityTarget:
    """The target that a request to the host is.

    Args:
        needs: The capability that it takes; None for what every plugin may, which is writing to the log.
        writes: Whether it changes or keeps something.
        effects: What it does to the world, where that is better known than from the family.
    """
    family = _family(needs)
    if effects is None:
        effects = (_WRITE_EFFECTS[family],) if writes and family in _WRITE_EFFECTS else ()
    return CapabilityTarget(str(needs or HostService("log")), family, writes, frozenset(map(str, effects)))


def _family(needs: Capability | None) -> str:
    match needs:
        case None:
            return "log"
        case StorageAccess():
            return "tables"
        case FileAccess():
            return "fs"
        case Execute():
            return "exec"
        case NetworkAccess() | NoNetwork():
            return "net"
        case HostService(family):
            return family
        case SecretUse():
            return "secrets"


def target_entity(target: PolicyTarget, known_tags: frozenset[str]) -> CedarEntity:
    """The target as Cedar takes it."""
    effects = [entity_reference("Effect", effect) for effect in sorted(target.effects)]
    if isinstance(target, CapabilityTarget):
        attributes: CedarEntity = {
            "family": entity_reference("Family", target.family),
            "writes": target.writes,
            "effects": effects,
        }
        return {"uid": entity_uid("Capability", target.name), "attrs": attributes, "parents": []}
    attributes = trait_attributes(target.traits, known_tags)
    flags = [entity_reference("Flag", flag) for flag in sorted(target.flags)]
    attributes |= {"effects": effects, "flags": flags, "requires_approval": target.requires_approval}
    return {
        "uid": entity_uid("Callable", target.name),
        "attrs": attributes,
        "parents": [entity_uid("Plugin", target.plugin)],
    }
