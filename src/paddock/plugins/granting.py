"""What a tenant grants a plugin. Installing grants for the default tenant; others say yes when they enable it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paddock.core.errors import NeedsConsent
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.manifest.asked import asked_of
from paddock.manifest.capability import Capability, parse, uncovered
from paddock.plugins.mending import for_tenant
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import manifest_of, pinned_version_missing, require_plugin
from paddock.plugins.rows import Grant, VersionRow, find_grant, find_version
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Standing:
    """A plugin in the version that is in use, and what this tenant granted it."""

    row: VersionRow
    grant: Grant | None

    def missing(self, acknowledged: Iterable[Capability] = ()) -> list[Capability]:
        """What it asks for, and nobody of this tenant said yes to."""
        granted = [parse(text) for text in self.grant.capabilities] if self.grant else []
        return uncovered([*granted, *acknowledged], asked_of(manifest_of(self.row)))


def standing_for(tx: Transaction, store: PluginStore, name: str) -> Standing:
    """How a plugin stands with the store's tenant.

    Raises:
        NotFound: it is not installed.
        PluginError: the version it is pinned to was removed.
    """
    plugin = require_plugin(tx, name)
    row = find_version(tx, plugin.name, plugin.current_version)
    if row is None:
        raise pinned_version_missing(plugin)
    return Standing(row, find_grant(tx, store.tenant, plugin.name))


def not_granted(tenant: Tenant, row: VersionRow, missing: Sequence[Capability]) -> NeedsConsent:
    """A tenant has to say yes to more before the plugin may run for it."""
    whose = "" if tenant == DEFAULT_TENANT else f", which {tenant} has not granted"
    flags = " ".join(f"--grant {shlex.quote(str(one))}" for one in missing)
    return NeedsConsent(
        f"{row.plugin} {row.version} asks for {', '.join(map(str, missing))}{whose}",
        hint=f"say yes to each: paddock plugin enable {row.plugin}{for_tenant(tenant)} {flags}",
        details={"plugin": row.plugin, "capabilities": [str(capability) for capability in missing]},
    )
