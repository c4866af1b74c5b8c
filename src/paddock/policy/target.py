"""Targets of policy requests: callables, and capabilities that a plugin uses. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from msgspec import Struct

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

# The effect of a write through a capability. Families that are left out only keep the plugin's own state: its
# cache, its cursors, its log.
_WRITE_EFFECTS: Final = {
    "tables": Effect.DB_WRITE,
    "storage": Effect.DB_WRITE,
    "kb": Effect.DB_WRITE,
    "memory": Effect.MEMORY_WRITE,
    "vault": Effect.MEMORY_WRITE,
    "http": Effect.EXTERNAL_CALL,
}


class CallableTarget(Struct, frozen=True):
    """A callable, by its full name."""

    name: str
    plugin: str
    traits: PluginTraits = UNTRUSTED_TRAITS
    effects: frozenset[str] = frozenset({"unknown"})
    requires_approval: bool = False
    flags: frozenset[str] = frozenset()
    """Flags of the scan of its texts."""

    def __str__(self) -> str:
        return self.name


class CapabilityTarget(Struct, frozen=True):
    """A capability that a plugin uses."""

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
    """Build the target of a plugin's callable; done once, when the plugin is enabled."""
    return CallableTarget(
        full_name(manifest.name, spec.name),
        manifest.name,
        plugin_traits(manifest, tier=tier, signature=signature, tags=spec.policy_tags),
        frozenset(map(str, callable_effects(manifest, spec))),
        spec.requires_approval,
        flags,
    )


def capability_target(
    capability: Capability | None, *, writes: bool, effects: Iterable[Effect] | None = None
) -> CapabilityTarget:
    """Build the target of a capability request.

    Args:
        capability: The capability that it requires; None for what every plugin may do, which is writing to the log.
        writes: Whether it changes or stores something.
        effects: Its effects, if they are known more exactly than from the family.
    """
    family = _family(capability)
    if effects is None:
        effects = (_WRITE_EFFECTS[family],) if writes and family in _WRITE_EFFECTS else ()
    return CapabilityTarget(str(capability or HostService("log")), family, writes, frozenset(map(str, effects)))


def _family(capability: Capability | None) -> str:
    match capability:
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
    """Convert a target to a Cedar entity."""
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
