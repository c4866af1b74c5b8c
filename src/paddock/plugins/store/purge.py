"""Purges the data that an uninstalled plugin left on this machine: tables, values, artifacts, its folder and its log.

A tombstone is written before the plugin's rows are deleted. The data is purged once nothing of the plugin runs any
more, by the daemon if one runs and otherwise by the command. The next command finds the tombstone of a killed one.
Nothing is purged without a tombstone: rows may be missing because someone opened another store.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from paddock.capabilities.services.keyvalue_rows import delete_all_values
from paddock.capabilities.sql.database_pool import delete_plugin_files
from paddock.core.errors import Busy
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.plugins.store.rows import find_plugin
from paddock.plugins.store.store import PluginStore, tenants_directory
from paddock.store.filesystem import remove_tree
from paddock.store.transaction import Transaction

ReleaseResources = Callable[[str], None]
DeleteRows = Callable[[Transaction, str], None]
"""Deletes, within a transaction, the rows that other parts of the host keep about a plugin."""


def write_tombstone(store: PluginStore, name: str) -> None:
    """Mark the plugin for purging. Call it while holding `change_lock()`."""
    folder = _tombstone_directory(store)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / name).touch(mode=0o600)


def remove_stale_tombstones(store: PluginStore) -> None:
    """Remove the tombstones of installed plugins, left by a process that was killed before it deleted the rows."""
    with store.change_lock():  # an uninstall in progress has its tombstone and still its rows
        for name in set(_tombstones(store)) - set(pending_purges(store)):
            (_tombstone_directory(store) / name).unlink(missing_ok=True)


def pending_purges(store: PluginStore) -> list[str]:
    """Return the plugins that are uninstalled but not purged yet."""
    tombstones = _tombstones(store)
    if not tombstones:
        return []
    return store.database.read(lambda tx: [name for name in tombstones if find_plugin(tx, name) is None])


def check_no_pending_purge(store: PluginStore, name: str) -> None:
    """Raise if data of an uninstalled plugin of this name is still here: a new plugin would find it, and lose its own.

    Call it while holding `change_lock()` where the answer must stay true.

    Raises:
        Busy: it is.
    """
    if name in pending_purges(store):
        raise Busy(
            f"the {name} that was uninstalled is still leaving: its data goes when its last call has ended",
            code="plugin.leaving",
            hint="try again in a moment; the daemon's log says what holds it up",
            details={"plugin": name},
        )


def purge_plugin(store: PluginStore, name: str, release: ReleaseResources, delete_rows: DeleteRows) -> None:
    """Delete all data of a plugin, unless it is installed after all. None of its processes may run any more.

    The tombstone is deleted last, so that a purge that fails halfway is found again.

    Args:
        store: The plugin store.
        name: The plugin.
        release: Removes its log, its artifacts, and closes what this process has open of it.
        delete_rows: See `DeleteRows`.

    Raises:
        Busy: others read the database log right now, in which deleted data can still be found.
    """

    def unit(tx: Transaction) -> None:
        delete_all_values(tx, name)
        delete_rows(tx, name)

    with store.change_lock():
        if name in pending_purges(store):
            release(name)
            store.database.write(unit)
            delete_plugin_files(store.data / "storage", name)
            for folder in _plugin_folders(store.data, name):
                remove_tree(folder)
            if (log := store.database.truncate_log()) is not None:
                raise Busy(f"{log} is being read, and still contains data of {name}", code="plugin.leaving")
        (_tombstone_directory(store) / name).unlink(missing_ok=True)


def plugin_folder(data: Path, tenant: Tenant, name: str) -> Path:
    """Return the folder that `config:` stands for. Both names passed the name rules, so neither can escape the
    directory."""
    parent = data if tenant == DEFAULT_TENANT else tenants_directory(data) / tenant
    return parent / "files" / name


def _plugin_folders(data: Path, name: str) -> list[Path]:
    """Return the plugin's folders of all tenants that have folders here."""
    tenants = tenants_directory(data).iterdir() if tenants_directory(data).is_dir() else ()
    return [plugin_folder(data, tenant, name) for tenant in (DEFAULT_TENANT, *(Tenant(one.name) for one in tenants))]


def _tombstones(store: PluginStore) -> list[str]:
    folder = _tombstone_directory(store)
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _tombstone_directory(store: PluginStore) -> Path:
    return store.data / "leaving"
