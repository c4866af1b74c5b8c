"""Grants to an installed plugin: capabilities that a person of a tenant gives it, without enabling it."""

from __future__ import annotations

from collections.abc import Iterable

from paddock.core.action import Action
from paddock.core.errors import OperatorError
from paddock.core.events.plugin_management import PluginGranted
from paddock.manifest.capability import Capability
from paddock.manifest.permissions import check_grants_requested, requested_capabilities
from paddock.plugins.manage.enable import find_grant_state
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import Grant, VersionRow, save_grant
from paddock.plugins.store.store import PluginStore
from paddock.store.database import Transaction


def grant_capabilities(store: PluginStore, name: str, capabilities: Iterable[Capability]) -> VersionRow:
    """Grant capabilities to a plugin for this tenant; what it has already is left as it is.

    Args:
        store: The plugin store, for this tenant.
        name: The plugin's name or alias.
        capabilities: What a person of this tenant just consented to.

    Raises:
        NotFound: it is not installed.
        OperatorError: `capability.not_asked`, the plugin does not request one of them.
    """
    consented = list(capabilities)

    def unit(tx: Transaction) -> VersionRow:
        state = find_grant_state(tx, store, name)
        row, missing = state.row, state.missing_capabilities()
        requested = requested_capabilities(manifest_of(row))
        upgrade = Action.of("plugin.upgrade", plugin=row.plugin)
        label = f"{row.plugin} {row.version}"
        check_grants_requested(consented, requested, label, "install a version that asks for it", upgrade)
        if parts := [one for one in consented if one not in requested]:
            raise OperatorError(
                f"{label} asks for more than {', '.join(map(str, parts))}; nothing was changed",
                code="capability.not_asked",
                hint=f"grant what it asks for as a whole: {', '.join(map(str, requested))}",
            )
        new = tuple(str(one) for one in missing if one in consented)
        if new:
            earlier = state.grant or Grant(store.tenant, row.plugin, enabled=False, capabilities=(), digest=row.digest)
            grant = Grant(
                store.tenant,
                row.plugin,
                earlier.enabled,
                (*earlier.capabilities, *new),
                row.digest,
                given_up=earlier.given_up,
            )
            save_grant(tx, grant, store.now())
            store.publish(tx, PluginGranted(name=row.plugin, version=row.version, capabilities=new, digest=row.digest))
        return row

    return store.database.write(unit)
