"""What every enabled plugin of a tenant may reach: its granted capabilities, and which of them are dangerous."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paddock.core.ids import PluginName
from paddock.manifest.capability import Capability
from paddock.manifest.rules.dangers import find_dangers
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import VersionRow, all_grants, current_versions, granted_capabilities
from paddock.plugins.store.store import PluginStore


@dataclass(frozen=True, slots=True)
class PluginReach:
    """What one plugin may reach.

    Attributes:
        plugin: Its name.
        granted: The capabilities that the tenant granted it.
        dangers: Why a capability is dangerous, by its text.
    """

    plugin: PluginName
    granted: tuple[Capability, ...]
    dangers: Mapping[str, str]


def list_reach(store: PluginStore) -> list[PluginReach]:
    """List the reach of every enabled plugin, by name."""
    versions, grants = store.database.read(lambda tx: (current_versions(tx), all_grants(tx, store.tenant)))
    return [
        _reach(version, tuple(granted_capabilities(grant)))
        for name, grant in sorted(grants.items())
        if grant.enabled and (version := versions.get(name)) is not None
    ]


def _reach(version: VersionRow, granted: tuple[Capability, ...]) -> PluginReach:
    if not granted:
        return PluginReach(version.plugin, (), {})
    dangers = find_dangers(manifest_of(version), granted, signed=version.signature_text is not None)
    return PluginReach(version.plugin, granted, {str(one.capability): one.reason for one in dangers})
