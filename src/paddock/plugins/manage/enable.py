"""Enables and disables a plugin for a tenant, with the last checks before it may run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.errors import Conflict, Invalid, Modified, NeedsConsent, Problem
from paddock.core.events.plugin_management import PluginDisabled, PluginEnabled, PluginGranted, PluginModifiedDetected
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.manifest.capability import Capability, missing_capabilities
from paddock.manifest.permissions import requested_capabilities
from paddock.plugins.manage.start_requirements import check_requirements
from paddock.plugins.package.tree import verify_tree
from paddock.plugins.store.lookup import (
    manifest_of,
    pinned_version_missing_error,
    require_plugin,
)
from paddock.plugins.store.node_files import ensure_local_files
from paddock.plugins.store.rows import (
    Grant,
    PluginRow,
    VersionRow,
    find_grant,
    find_version,
    grant_changed_at,
    granted_capabilities,
    save_grant,
    tree_of,
)
from paddock.plugins.store.store import PluginStore
from paddock.store.database import Transaction

if TYPE_CHECKING:
    pass


DID_NOT_START: Final = "did not start"
"""The recorded reason of a plugin that was enabled only if it starts."""


class GrantState(Struct, frozen=True):
    """A plugin's version in use, and this tenant's grant for it."""

    row: VersionRow
    grant: Grant | None

    def missing_capabilities(self, acknowledged: Iterable[Capability] = ()) -> list[Capability]:
        """Return the requested capabilities that are neither granted by this tenant nor acknowledged."""
        granted = granted_capabilities(self.grant)
        return missing_capabilities([*granted, *acknowledged], requested_capabilities(manifest_of(self.row)))

    def starts_with(self, acknowledged: Iterable[Capability]) -> bool:
        """Whether it may start with a grant of these: it is enabled, and lacks nothing that the tenant has to grant."""
        if self.grant is None or not self.grant.enabled:
            return False
        return self.grant.tenant == DEFAULT_TENANT or not self.missing_capabilities(acknowledged)


def find_grant_state(tx: Transaction, store: PluginStore, name: str) -> GrantState:
    """Return the plugin's grant state in the store's tenant.

    Raises:
        NotFound: it is not installed.
        PluginError: the version it is pinned to was removed.
    """
    plugin = require_plugin(tx, name)
    row = find_version(tx, plugin.name, plugin.current_version)
    if row is None:
        raise pinned_version_missing_error(plugin)
    return GrantState(row, find_grant(tx, store.tenant, plugin.name))


class NewlyEnabled(Struct, frozen=True):
    """A plugin that was disabled and was enabled now; it can be disabled again as long as its grant is unchanged.

    Attributes:
        changed_at: When the grant was stored.
        given_up: Why the plugin was disabled before; empty if a person disabled it, or if it never was enabled.
    """

    plugin: str
    changed_at: str
    given_up: str


def grant_required_error(tenant: Tenant, row: VersionRow, missing: Sequence[Capability]) -> NeedsConsent:
    """Build the error for a plugin that needs more grants of the tenant before it may run."""
    tenant_text = "" if tenant == DEFAULT_TENANT else f", which {tenant} has not granted"
    grants = tuple(map(str, missing))
    return NeedsConsent(
        f"{row.plugin} {row.version} asks for {', '.join(map(str, missing))}{tenant_text}",
        hint="grant each of them",
        action=Action.of("plugin.enable", plugin=row.plugin, tenant=tenant, grants=grants),
        details={"plugin": row.plugin, "capabilities": [str(capability) for capability in missing]},
    )


def domain_not_allowed_error(plugin: str, problems: Sequence[Problem]) -> Invalid:
    """Build the error for a plugin that may not run because it requests hosts outside the allowed domains."""
    return Invalid(
        f"{plugin} requests hosts outside plugins.allowed_domains",
        problems,
        code="plugin.domain_not_allowed",
        hint="add the hosts to plugins.allowed_domains in config.toml",
    )


def enable(store: PluginStore, name: str, acknowledged: Iterable[Capability] = ()) -> VersionRow:
    """Enable a plugin for this tenant; see `enable_revocably`."""
    return enable_revocably(store, name, acknowledged)[0]


def enable_revocably(
    store: PluginStore, name: str, acknowledged: Iterable[Capability] = ()
) -> tuple[VersionRow, NewlyEnabled | None]:
    """Enable a plugin for this tenant. Its files are read and compared first, every time.

    Returns:
        The version, and what `disable_not_started` needs; None if the plugin was enabled before.

    Args:
        store: The plugin store, for this tenant.
        name: The plugin's name or alias.
        acknowledged: Capabilities that a person of this tenant just consented to. They are granted as far as the
            plugin requests them.

    Raises:
        NeedsConsent: it requests capabilities that are neither granted nor acknowledged.
        NotFound: it is not installed.
        Modified: its files changed since a person consented.
        Invalid: something it needs is missing; carries everything that is.
        Conflict: an enabled plugin has a callable of the same full name (`tool_name_collision`).
    """
    state = store.database.read(lambda tx: find_grant_state(tx, store, name))
    row = state.row
    require_intact(store, row)
    if missing := state.missing_capabilities(acknowledged):
        raise grant_required_error(store.tenant, row, missing)
    check_requirements(store, row)

    def unit(tx: Transaction) -> NewlyEnabled | None:
        # The state checked above must still hold: another command may have upgraded it meanwhile.
        if find_grant_state(tx, store, row.plugin) != state:
            raise changed_meanwhile_error(row.plugin)
        granted = state.grant.capabilities if state.grant else ()
        newly_granted = tuple(str(one) for one in state.missing_capabilities())
        now = store.now()
        save_grant(tx, Grant(store.tenant, row.plugin, True, (*granted, *newly_granted), row.digest), now)
        if newly_granted:
            store.publish(
                tx, PluginGranted(name=row.plugin, version=row.version, capabilities=newly_granted, digest=row.digest)
            )
        store.publish(tx, PluginEnabled(name=row.plugin))
        if state.grant is not None and state.grant.enabled:
            return None
        return NewlyEnabled(row.plugin, now, state.grant.given_up if state.grant else "")

    return row, store.database.write(unit)


def changed_meanwhile_error(plugin: str) -> Conflict:
    """Build the error for a plugin that is not any more what was checked or shown to a person."""
    return Conflict(
        f"{plugin} changed while it was being checked",
        code="plugin.changed_meanwhile",
        hint="review it again as it is now",
    )


def disable_not_started(store: PluginStore, newly: NewlyEnabled) -> bool:
    """Disable a plugin again that was newly enabled and does not start, unless its grant was changed since.

    Returns:
        Whether the plugin is enabled now.
    """

    def unit(tx: Transaction) -> bool:
        grant = find_grant(tx, store.tenant, newly.plugin)
        if grant is None or not grant.enabled:
            return False  # disabled or removed meanwhile
        if grant_changed_at(tx, store.tenant, newly.plugin) != newly.changed_at:
            return True  # enabled or changed by another request meanwhile
        save_grant(tx, replace(grant, enabled=False, given_up=newly.given_up), store.now())
        store.publish(tx, PluginDisabled(name=newly.plugin, reason=DID_NOT_START))
        return False

    return store.database.write(unit)


def disable(store: PluginStore, name: str, *, given_up: str = "") -> PluginRow:
    """Disable a plugin for this tenant and keep it installed.

    Args:
        store: The plugin store.
        name: The plugin's name or alias.
        given_up: Why a daemon disables it; empty for a person.
    """

    def unit(tx: Transaction) -> PluginRow:
        plugin = require_plugin(tx, name)
        grant = find_grant(tx, store.tenant, plugin.name)
        if grant is not None:
            save_grant(tx, replace(grant, enabled=False, given_up=given_up), store.now())
        store.publish(tx, PluginDisabled(name=plugin.name, reason=given_up or "operator"))
        return plugin

    return store.database.write(unit)


def require_intact(store: PluginStore, row: VersionRow) -> None:
    """Read every file and compare with what was consented to.

    Raises:
        Modified: they differ; names the files and the command that repairs them.
    """
    tree = store.database.read(lambda tx: tree_of(tx, row.plugin, row.version))
    verdict = verify_tree(ensure_local_files(store, row), row.digest, expected=tree)
    if verdict.intact:
        return
    difference = verdict.difference
    change_lines = [
        *(f"changed {path}" for path in difference.changed),
        *(f"missing {path}" for path in difference.missing),
        *(f"added {path}" for path in difference.added),
    ]
    summary = ", ".join(change_lines[:5]) or "unreadable"
    actual_digest = verdict.actual.digest if verdict.actual else "unreadable"
    event = PluginModifiedDetected(name=row.plugin, version=row.version, expected=row.digest, found=actual_digest)
    # recorded as the host's: the principal only detected it
    store.database.write(partial(store.acting_as(None).publish, event=event))
    raise Modified(
        f"the files of {row.plugin} {row.version} are not the ones you consented to: {summary}",
        action=Action.of("plugin.repair", plugin=row.plugin),
        details={
            "changed": list(difference.changed),
            "missing": list(difference.missing),
            "added": list(difference.added),
        },
    )
