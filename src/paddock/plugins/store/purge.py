"""What an uninstalled plugin kept on this machine: its tables, values and artifacts, its own folder, its log.

They are marked before the plugin's rows go and dropped when nothing of it runs any more, by the daemon where one runs
and otherwise by the command. A mark that a killed command left is found by the next one. Nothing is dropped without a
mark: rows may be missing because somebody opened another store.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from paddock.capabilities.artifacts.files import ArtifactFiles, artifacts_directory
from paddock.capabilities.artifacts.rows import delete_all_artifacts
from paddock.capabilities.services.keyvalue_rows import delete_all_values
from paddock.capabilities.sql.service import delete_plugin_files
from paddock.core.errors import Busy
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.plugins.store.rows import find_plugin
from paddock.plugins.store.store import PluginStore, tenants_directory
from paddock.store.transaction import Transaction

ReleaseResources = Callable[[str], None]
DeleteRows = Callable[[Transaction, str], None]
"""Lets go, in a unit of work, of rows that other parts of the host keep about a plugin."""


def write_tombstone(store: PluginStore, name: str) -> None:
    """Say that this plugin is about to go. Call it while holding `changing()`."""
    folder = _tombstone_directory(store)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / name).touch(mode=0o600)


def pending_purges(store: PluginStore) -> list[str]:
    """The plugins that are gone and whose things are still here."""
    marked = _tombstones(store)
    if not marked:
        return []
    return store.database.read(lambda tx: [name for name in marked if find_plugin(tx, name) is None])


def check_no_pending_purge(store: PluginStore, name: str) -> None:
    """Let no plugin have a name whose last bearer's things are still here: it would find them, and lose its own.

    Call it while holding `changing()` where that must stay true.

    Raises:
        Busy: they are.
    """
    if name in pending_purges(store):
        raise Busy(
            f"the {name} that was uninstalled is still leaving: its data goes when its last call has ended",
            code="plugin.leaving",
            hint="try again in a moment; the daemon's log says what holds it up",
            details={"plugin": name},
        )


def purge_plugin(store: PluginStore, name: str, let_go: ReleaseResources, forget_rows: DeleteRows) -> None:
    """Remove everything that a plugin kept, unless it is installed after all. Nothing of it may run any more.

    The mark goes last: what fails halfway is found again.

    Args:
        store: Where it was installed.
        name: The plugin.
        let_go: Removes its log, its artifacts, and what else whoever runs here has open of it.
        forget_rows: See `ForgetRows`.

    Raises:
        Busy: others read in the store's log right now, where what is gone can still be found.
    """

    def forget(tx: Transaction) -> None:
        delete_all_values(tx, name)
        forget_rows(tx, name)

    with store.change_lock():
        if name in pending_purges(store):
            let_go(name)
            store.database.write(forget)
            delete_plugin_files(store.data / "storage", name)
            for folder in _plugin_folders(store.data, name):
                _remove_folder(folder)
            if (log := store.database.truncate_log()) is not None:
                raise Busy(f"{log} is read right now, and still holds what {name} kept", code="plugin.leaving")
        (_tombstone_directory(store) / name).unlink(missing_ok=True)


def purge_all(store: PluginStore, forget_log: ReleaseResources, forget_rows: DeleteRows) -> None:
    """The same for everything that is leaving, where no daemon runs.

    A mark of a plugin that is still here, left by a command that was killed before it went, goes too.
    """
    shelf = ArtifactFiles(artifacts_directory(store.data))

    def let_go(name: str) -> None:
        # Within the transaction: nobody notes meanwhile that they keep the same bytes.
        store.database.write(lambda tx: shelf.delete(delete_all_artifacts(tx, name)))
        forget_log(name)

    for name in _tombstones(store):
        with suppress(Busy):  # it stays marked, and the next command looks again
            purge_plugin(store, name, let_go, forget_rows)


def plugin_folder(data: Path, tenant: Tenant, name: str) -> Path:
    """The folder that `config:` stands for. Both names passed the name rules, so neither can climb."""
    around = data if tenant == DEFAULT_TENANT else tenants_directory(data) / tenant
    return around / "files" / name


def _plugin_folders(data: Path, name: str) -> list[Path]:
    """The same of all tenants that have folders here."""
    tenants = tenants_directory(data).iterdir() if tenants_directory(data).is_dir() else ()
    return [plugin_folder(data, tenant, name) for tenant in (DEFAULT_TENANT, *(Tenant(one.name) for one in tenants))]


def _tombstones(store: PluginStore) -> list[str]:
    folder = _tombstone_directory(store)
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _tombstone_directory(store: PluginStore) -> Path:
    return store.data / "leaving"


def _remove_folder(folder: Path) -> None:
    """Remove a folder that a plugin wrote to. Links are removed and never followed."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    # A plugin may have taken the right to look into a directory from itself, and so from us.
    folder.chmod(0o700)
    for here, directories, _ in os.walk(folder):
        for directory in directories:
            place = Path(here, directory)
            if not place.is_symlink():
                place.chmod(0o700)
    shutil.rmtree(folder)
