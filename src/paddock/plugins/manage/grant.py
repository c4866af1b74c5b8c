"""Grants to an installed plugin: capabilities that a person of a tenant gives it. One that is enabled starts then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paddock.core.action import Action
from paddock.core.errors import OperatorError
from paddock.core.events.plugin_management import PluginGranted
from paddock.manifest.capability import Capability
from paddock.manifest.permissions import check_grants_requested, requested_capabilities
from paddock.plugins.manage.enable import (
    changed_meanwhile_error,
    find_grant_state,
    require_intact,
)
from paddock.plugins.manage.start_requirements import check_requirements
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import Grant, VersionRow, save_grant
from paddock.plugins.store.store import PluginStore
from paddock.store.database import Transaction


def grant_capabilities(store: PluginStore, name: str, capabilities: Iterable[Capability], digest: str) -> VersionRow:
    """Grant capabilities to a plugin for this tenant; what it has already is left as it is.

    Args:
        store: The plugin store, for this tenant.
        name: The plugin's name or alias.
        capabilities: What a person of this tenant just consented to.
        digest: The digest of the version that the person was shown.

    Raises:
        Conflict: another version is in use now, or an enabled plugin has a callable of the same full name.
        Invalid, Modified: it is enabled, would start, and may not; as `enable` does.
        NotFound: it is not installed.
        OperatorError: `capability.not_asked`, the plugin does not request one of them.
    """
    consented = list(capabilities)
    state = store.database.read(lambda tx: find_grant_state(tx, store, name))
    row, missing = state.row, state.missing_capabilities()
    if row.digest != digest:
        raise changed_meanwhile_error(row.plugin)
    _check_asked(row, consented)
    new = tuple(str(one) for one in missing if one in consented)
    if new and state.starts_with(consented):
        require_intact(store, row)
        check_requirements(store, row)

    def unit(tx: Transaction) -> VersionRow:
        if find_grant_state(tx, store, row.plugin) != state:
            raise changed_meanwhile_error(row.plugin)
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


def _check_asked(row: VersionRow, consented: Sequence[Capability]) -> None:
    requested, label = requested_capabilities(manifest_of(row)), f"{row.plugin} {row.version}"
    upgrade = Action.of("plugin.upgrade", plugin=row.plugin)
    check_grants_requested(consented, requested, label, "install a version that asks for it", upgrade)
    if parts := [one for one in consented if one not in requested]:
        raise OperatorError(
            f"{label} asks for more than {', '.join(map(str, parts))}; nothing was changed",
            code="capability.not_asked",
            hint=f"grant what it asks for as a whole: {', '.join(map(str, requested))}",
        )
