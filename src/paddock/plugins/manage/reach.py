"""What every enabled plugin of a tenant may reach: its granted capabilities, and which of them are dangerous."""

from __future__ import annotations

from collections.abc import Container, Mapping

from msgspec import Struct

from paddock.core.ids import PluginName
from paddock.manifest.capability import Capability
from paddock.manifest.rules.dangers import find_dangers
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import VersionRow, all_grants, current_versions, granted_capabilities
from paddock.plugins.store.store import PluginStore
from paddock.plugins.trust.signing_keys import KeyId
from paddock.plugins.trust.trusted_keys import is_signed_by, trusted_key_ids


class PluginReach(Struct, frozen=True):
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
    versions, grants, keys = store.database.read(
        lambda tx: (current_versions(tx), all_grants(tx, store.tenant), trusted_key_ids(tx))
    )
    return [
        _reach(version, tuple(granted_capabilities(grant)), keys)
        for name, grant in sorted(grants.items())
        if grant.enabled and (version := versions.get(name)) is not None
    ]


def _reach(version: VersionRow, granted: tuple[Capability, ...], keys: Container[KeyId]) -> PluginReach:
    if not granted:
        return PluginReach(version.plugin, (), {})
    dangers = find_dangers(manifest_of(version), granted, trusted=is_signed_by(version, keys))
    return PluginReach(version.plugin, granted, {str(one.capability): one.reason for one in dangers})
