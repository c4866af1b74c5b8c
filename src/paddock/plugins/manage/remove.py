"""Uninstalls plugins: rows first, then files and configuration, so that a crash leaves nothing half installed."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from paddock.capabilities.services.keyvalue_rows import delete_all_values
from paddock.config.local_file import read_entries, record_installed, remove_entry
from paddock.core.action import Action
from paddock.core.errors import Conflict
from paddock.core.events.plugin_management import PluginUninstalled
from paddock.core.events.principals import ConsentRevoked
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.plugins.install.config_secrets import delete_plugin_secrets, sealed_references
from paddock.plugins.store import purge
from paddock.plugins.store.lookup import manifest_of, require_plugin
from paddock.plugins.store.rows import (
    PluginRow,
    VersionRow,
    all_plugins,
    blob_in_use,
    delete_plugin,
    delete_version,
    find_version,
    versions_of,
)
from paddock.plugins.store.store import PluginStore, tenants_directory
from paddock.plugins.store.versions import version_not_found_error
from paddock.principals.consents import delete_plugin_consents
from paddock.store.database import Transaction


def check_removable(store: PluginStore, name: str, version: str | None, *, force: bool = False) -> PluginRow:
    """Return the plugin if it, or this version of it, may be removed.

    Raises:
        NotFound: the plugin or that version is not installed.
        Conflict: it is pinned, and `force` is not given; or it is the version in use.
    """

    def query(tx: Transaction) -> PluginRow:
        if version is None:
            return _find_removable(tx, name, force)
        return _find_removable_version(tx, name, version, force)[0]

    return store.database.read(query)


def _find_removable(tx: Transaction, name: str, force: bool) -> PluginRow:
    plugin = require_plugin(tx, name)
    if plugin.pinned_version is not None and not force:
        raise Conflict(
            f"{plugin.name} is pinned to {plugin.pinned_version}",
            code="plugin.pinned",
            action=Action.of("plugin.remove_pinned", plugin=plugin.name),
        )
    return plugin


def uninstall(store: PluginStore, name: str, *, force: bool = False) -> PluginRow:
    """Remove a plugin with all its versions, files, grants, consents, aliases, values, artifacts, secrets,
    configuration.

    Data outside the rows is only marked with a tombstone: it is purged once nothing of the plugin runs
    (`purge.purge_plugin`).

    Raises:
        NotFound: it is not installed.
        Conflict: it is pinned, and `force` is not given.
    """

    def unit(tx: Transaction) -> tuple[PluginRow, list[VersionRow], list[str]]:
        plugin = _find_removable(tx, name, force)
        versions = versions_of(tx, plugin.name)
        delete_plugin(tx, plugin.name)
        delete_all_values(tx, plugin.name)
        delete_plugin_secrets(store, tx, plugin.name)
        for consent in delete_plugin_consents(tx, plugin.name):
            consent_store = replace(store, tenant=Tenant(consent.tenant))
            consent_store.publish(
                tx, ConsentRevoked(consent.person, consent.plugin, consent.callable, by=store.by or "host")
            )
        store.publish(tx, PluginUninstalled(name=plugin.name, version=plugin.current_version))
        return plugin, versions, [row.blob for row in versions if not blob_in_use(tx, row.blob)]

    with store.change_lock():
        purge.write_tombstone(store, store.database.read(lambda tx: _find_removable(tx, name, force)).name)
        plugin, versions, blobs = store.database.write(unit)
        for file in (store.local_file, *tenants_directory(store.local_file.parent).glob("*.toml")):
            remove_entry(file, plugin.name)
        _delete_files(store, versions, blobs)
    return plugin


def uninstall_version(store: PluginStore, name: str, version: str, *, force: bool = False) -> VersionRow:
    """Remove one version and keep the others.

    Raises:
        NotFound: the plugin or that version is not installed.
        Conflict: it is the version in use, or it is pinned and `force` is not given.
    """

    def unit(tx: Transaction) -> tuple[VersionRow, list[str]]:
        plugin, row = _find_removable_version(tx, name, version, force)
        delete_version(tx, plugin.name, version)
        store.publish(tx, PluginUninstalled(name=plugin.name, version=version))
        return row, [row.blob] if not blob_in_use(tx, row.blob) else []

    with store.change_lock():
        row, blobs = store.database.write(unit)
        _delete_files(store, [row], blobs)
    return row


def _find_removable_version(tx: Transaction, name: str, version: str, force: bool) -> tuple[PluginRow, VersionRow]:
    plugin = require_plugin(tx, name)
    row = find_version(tx, plugin.name, version)
    if row is None:
        raise version_not_found_error(tx, plugin, version)
    if version == plugin.pinned_version and not force:
        raise Conflict(
            f"{plugin.name} is pinned to {version}",
            code="plugin.pinned",
            action=Action.of("plugin.remove_pinned", plugin=plugin.name, version=version),
        )
    if version == plugin.default_version:
        has_others = len(versions_of(tx, plugin.name)) > 1
        raise Conflict(
            f"{version} is the version in use",
            code="plugin.in_use",
            hint="" if has_others else "it is the only version; remove the plugin",
            action=Action.of("plugin.rollback" if has_others else "plugin.remove", plugin=plugin.name),
        )
    return plugin, row


def clean_up_interrupted(store: PluginStore) -> None:
    """Clean up what a killed process left: files without rows, and a configuration that differs from the rows."""
    store.sweep()
    purge.remove_stale_tombstones(store)
    reconcile_config_entries(store)


def reconcile_config_entries(store: PluginStore) -> None:
    """Bring local.toml in line with the rows where a killed command left it behind."""
    # Under the lock: an install in progress has its rows and not yet its entry.
    with store.change_lock():
        rows = {plugin.name: plugin for plugin in store.database.read(all_plugins)}
        entries = read_entries(store.local_file)
        for name, plugin in rows.items():
            if name not in entries or entries[name].installed != plugin.default_version:
                entry_values = entries[name].raw_values if name in entries else dict[str, Any]()
                references = store.database.read(partial(_sealed_references_of, store, plugin))
                lost_references = {field: value for field, value in references.items() if field not in entry_values}
                record_installed(
                    store.local_file, name, plugin.default_version, local=plugin.local, values=lost_references
                )
        for name, entry in entries.items():
            if entry.installed is not None and name not in rows:
                remove_entry(store.local_file, name)


def _sealed_references_of(store: PluginStore, plugin: PluginRow, tx: Transaction) -> dict[str, str]:
    """Return references to the secrets sealed with the version in use; local.toml belongs to the default tenant."""
    row = find_version(tx, plugin.name, plugin.default_version)
    return sealed_references(store.for_tenant(DEFAULT_TENANT), tx, manifest_of(row)) if row is not None else {}


def _delete_files(store: PluginStore, versions: list[VersionRow], blobs: list[str]) -> None:
    for row in versions:
        store.delete_version_files(row.plugin, row.version)
    store.delete_blobs(blobs)
    store.sweep_environments()
