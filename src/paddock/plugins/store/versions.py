"""Installed versions side by side: pin, unpin, roll back, and expire after the retention period."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from msgspec.structs import replace

from paddock.config.local_file import record_installed
from paddock.core.action import Action
from paddock.core.errors import Conflict, NeedsConsent, NotFound
from paddock.core.events.plugin_management import PluginPinned, PluginRolledBack
from paddock.core.semver import Version
from paddock.manifest.capability import Capability, missing_capabilities
from paddock.manifest.diff import UpgradeDiff, diff_manifests
from paddock.manifest.permissions import requested_capabilities
from paddock.plugins.package.source import PackageSource
from paddock.plugins.store.lookup import load_schema, manifest_of, pinned_version_missing_error, require_plugin
from paddock.plugins.store.node_files import ensure_local_files
from paddock.plugins.store.rows import (
    Grant,
    PluginRow,
    VersionRow,
    all_plugins,
    blob_in_use,
    delete_version,
    find_grant,
    find_version,
    granted_capabilities,
    restart_retention,
    save_grant,
    set_default_version,
    set_pin,
    versions_of,
)
from paddock.plugins.store.store import PluginStore
from paddock.store.database import Transaction


def pin_version(store: PluginStore, name: str, version: str | None = None) -> PluginRow:
    """Pin a plugin to a version (by default the one in use): no upgrade changes it.

    Raises:
        NotFound: the plugin or that version of it is not installed.
        NeedsConsent: that version requests more than is granted now.
    """

    def unit(tx: Transaction) -> PluginRow:
        plugin = require_plugin(tx, name)
        target = version or plugin.current_version
        row = find_version(tx, plugin.name, target)
        if row is None:
            raise version_not_found_error(tx, plugin, target)
        _update_grant(tx, store, row)
        if plugin.pinned_version not in (None, target):
            restart_retention(tx, plugin.name, plugin.current_version, store.now())
        set_pin(tx, plugin.name, target)
        store.publish(tx, PluginPinned(name=plugin.name, version=target))
        return require_plugin(tx, plugin.name)

    with store.change_lock():
        return store.database.write(unit)


def unpin_version(store: PluginStore, name: str) -> PluginRow:
    """Unpin a plugin; the latest consented version is in use from now on."""

    def unit(tx: Transaction) -> PluginRow:
        plugin = require_plugin(tx, name)
        row = find_version(tx, plugin.name, plugin.default_version)
        if row is not None:
            _update_grant(tx, store, row)
        if plugin.pinned_version is not None:
            restart_retention(tx, plugin.name, plugin.pinned_version, store.now())
        set_pin(tx, plugin.name, None)
        store.publish(tx, PluginPinned(name=plugin.name, version=None))
        return require_plugin(tx, plugin.name)

    with store.change_lock():
        return store.database.write(unit)


def _update_grant(tx: Transaction, store: PluginStore, row: VersionRow) -> None:
    """Bind the grant to the version in use. It may cover less than this version requests, and then a person decides.

    Raises:
        NeedsConsent: this version requests more than is granted now.
    """
    grant = find_grant(tx, store.tenant, row.plugin)
    if grant is None or grant.digest == row.digest:
        return
    missing = missing_capabilities(granted_capabilities(grant), requested_capabilities(manifest_of(row)))
    if missing:
        raise NeedsConsent(
            f"{row.plugin} {row.version} asks for {', '.join(map(str, missing))}, which is no longer granted",
            hint="roll back to it first, which asks for your consent",
            action=Action.of("plugin.rollback", plugin=row.plugin, version=row.version),
            details={"capabilities": [str(capability) for capability in missing]},
        )
    save_grant(tx, replace(grant, digest=row.digest), store.now())


def find_rollback_target(
    store: PluginStore, name: str, version: str | None
) -> tuple[VersionRow, VersionRow, UpgradeDiff, list[Capability]]:
    """Return the version in use, the rollback target, their difference, and the capabilities that need new consent.

    Raises:
        NotFound: there is no earlier version any more, or not the one named.
        Conflict: it is pinned, or already in use.
    """

    def unit(tx: Transaction) -> tuple[VersionRow, VersionRow, list[Capability]]:
        plugin = require_plugin(tx, name)
        if plugin.pinned_version is not None:
            raise Conflict(
                f"{plugin.name} is pinned to {plugin.pinned_version}",
                code="plugin.pinned",
                action=Action.of("plugin.unpin", plugin=plugin.name),
            )
        current = find_version(tx, plugin.name, plugin.default_version)
        target = _pick_rollback_target(versions_of(tx, plugin.name), current, version) if current else None
        if target is None or current is None:
            if version == plugin.default_version:
                raise Conflict(f"{plugin.name} {version} is already in use", code="plugin.in_use")
            if version is None:
                later = next((row.version for row in versions_of(tx, plugin.name) if row.superseded_at), "")
                raise NotFound(
                    f"there is no version of {plugin.name} before {plugin.default_version} to go back to",
                    code="plugin.no_such_version",
                    hint=_installed_versions_text(tx, plugin),
                    action=Action.of("plugin.rollback", plugin=plugin.name, version=later) if later else None,
                )
            raise version_not_found_error(tx, plugin, version)
        return current, target, granted_capabilities(find_grant(tx, store.tenant, plugin.name))

    current, target, granted = store.database.read(unit)
    old_root, new_root = ensure_local_files(store, current), ensure_local_files(store, target)
    upgrade = diff_manifests(
        manifest_of(current),
        manifest_of(target),
        lambda schema: load_schema(schema, old_root),
        lambda schema: load_schema(schema, new_root),
    )
    return (
        current,
        target,
        upgrade,
        missing_capabilities(granted, requested_capabilities(manifest_of(target))),
    )


def _pick_rollback_target(rows: list[VersionRow], current: VersionRow, version: str | None) -> VersionRow | None:
    """Return the superseded version that is named; else the last superseded one not above the version in use."""
    superseded = sorted(
        (row for row in rows if row.superseded_at), key=lambda row: row.superseded_at or "", reverse=True
    )
    if version is not None:
        return next((row for row in superseded if row.version == version), None)
    current_version = Version.parse(current.version)
    return next(
        (row for row in superseded if Version.parse(row.version).precedence <= current_version.precedence), None
    )


def roll_back(
    store: PluginStore, current: VersionRow, target: VersionRow, acknowledged: Collection[Capability]
) -> None:
    """Make an earlier version the one in use.

    Args:
        store: The plugin store.
        current: The version in use that the person was shown.
        target: The version that they go back to.
        acknowledged: The capabilities that they granted for it.

    Raises:
        NeedsConsent: it requests capabilities that are neither granted now nor acknowledged; nothing has changed.
        Conflict: another command changed the plugin meanwhile.
    """
    requested = requested_capabilities(manifest_of(target))
    capabilities = tuple(str(capability) for capability in requested)

    def unit(tx: Transaction) -> None:
        plugin = require_plugin(tx, current.plugin)
        changed = plugin.default_version != current.version or plugin.pinned_version is not None
        if changed or find_version(tx, target.plugin, target.version) is None:
            raise Conflict(
                f"{current.plugin} changed while you were deciding",
                code="plugin.changed_meanwhile",
                hint="review it again as it is now",
            )
        grant = find_grant(tx, store.tenant, plugin.name)
        granted = granted_capabilities(grant)
        missing = [str(one) for one in missing_capabilities(granted, requested) if one not in acknowledged]
        if missing:
            raise NeedsConsent(
                f"{target.plugin} {target.version} asks for {', '.join(missing)}, which is not granted any more",
                hint="name each in `grant` once a person has consented to it",
                details={"plugin": target.plugin, "capabilities": missing},
            )
        set_default_version(tx, plugin.name, target.version, store.now())
        save_grant(
            tx,
            Grant(store.tenant, plugin.name, bool(grant and grant.enabled), capabilities, target.digest),
            store.now(),
        )
        store.publish(
            tx,
            PluginRolledBack(
                name=plugin.name,
                old_version=current.version,
                new_version=target.version,
                digest=target.digest,
                capabilities=capabilities,
            ),
        )

    with store.change_lock():
        store.database.write(unit)
        record_installed(store.local_file, current.plugin, target.version)


def find_recorded_source(store: PluginStore, plugin: PluginRow) -> PackageSource:
    """Return the source of the latest consented version, which is also where the next one is looked for."""
    row = store.database.read(lambda tx: find_version(tx, plugin.name, plugin.default_version))
    if row is None:
        raise pinned_version_missing_error(plugin)
    return row.source.source


def expired_versions(rows: list[VersionRow], plugin: PluginRow, now: datetime, days: int) -> list[VersionRow]:
    """Return the superseded versions whose retention period is over; a pinned one never expires."""
    limit = now - timedelta(days=days)
    return [
        row
        for row in rows
        if row.superseded_at is not None
        and row.version not in (plugin.default_version, plugin.pinned_version)
        and datetime.fromisoformat(row.superseded_at) < limit
    ]


def remove_expired_versions(store: PluginStore) -> list[VersionRow]:
    """Remove versions that can no longer be rolled back to. Call it while holding `store.change_lock()`."""

    def unit(tx: Transaction) -> tuple[list[VersionRow], list[str]]:
        expired: list[VersionRow] = []
        for plugin in all_plugins(tx):
            expired.extend(
                expired_versions(versions_of(tx, plugin.name), plugin, store.clock.now(), store.retention_days)
            )
        for row in expired:
            delete_version(tx, row.plugin, row.version)
        return expired, [row.blob for row in expired if not blob_in_use(tx, row.blob)]

    expired, blobs = store.database.write(unit)
    for row in expired:
        store.delete_version_files(row.plugin, row.version)
    store.delete_blobs(blobs)
    if expired:
        store.sweep_environments()
    return expired


def version_not_found_error(tx: Transaction, plugin: PluginRow, version: str) -> NotFound:
    return NotFound(
        f"{plugin.name} has no version {version} to use",
        code="plugin.no_such_version",
        hint=_installed_versions_text(tx, plugin),
    )


def _installed_versions_text(tx: Transaction, plugin: PluginRow) -> str:
    return f"installed: {', '.join(row.version for row in versions_of(tx, plugin.name))}"
