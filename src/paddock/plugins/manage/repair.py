"""Repairs a modified plugin: restores its files from the package and rebuilds its environment from the lock."""

from __future__ import annotations

from functools import partial

from paddock.core.errors import HostError, NotFound, PaddockError
from paddock.core.events.plugin_management import PluginRepaired
from paddock.plugins.manage.enable import require_intact
from paddock.plugins.package.extract import ProgressCallback
from paddock.plugins.package.tree import verify_tree
from paddock.plugins.store.lookup import require_plugin
from paddock.plugins.store.node_files import rebuild_environment, restore_files
from paddock.plugins.store.rows import VersionRow, versions_of
from paddock.plugins.store.store import PluginStore


def repair_plugin(store: PluginStore, name: str, progress: ProgressCallback | None = None) -> list[VersionRow]:
    """Repair every version of a plugin whose files or environment changed, and return those versions.

    Raises:
        NotFound: the plugin is not installed, or its package blob is gone.
        HostError: the stored package is damaged too; install it again.
        PaddockError: its environment cannot be built; says why.
    """
    versions = store.database.read(lambda tx: versions_of(tx, require_plugin(tx, name).name))
    repaired: list[VersionRow] = []
    errors: list[PaddockError] = []
    with store.change_lock():
        for row in versions:
            root = store.version_root(row.plugin, row.version)
            if verify_tree(root, row.digest).intact:
                continue
            try:
                restore_files(store, row)
            except (NotFound, HostError) as error:
                errors.append(error)  # a version that cannot be repaired must not keep the others broken
                continue
            require_intact(store, row)
            store.database.write(partial(store.publish, event=PluginRepaired(name=row.plugin, version=row.version)))
            repaired.append(row)
    for row in versions:
        try:
            rebuilt = rebuild_environment(store, row, progress)
        except PaddockError as error:
            errors.append(error)
            continue
        if rebuilt and row not in repaired:
            store.database.write(partial(store.publish, event=PluginRepaired(name=row.plugin, version=row.version)))
            repaired.append(row)
    if errors:
        raise errors[0]
    return repaired
