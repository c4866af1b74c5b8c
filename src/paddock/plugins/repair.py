"""Repairing a modified plugin: its files are put back from the package that was consented to."""

from __future__ import annotations

from paddock.core.errors import NotFound
from paddock.core.events_lifecycle import PluginRepaired
from paddock.plugins.enabling import require_intact
from paddock.plugins.package import unpack
from paddock.plugins.plugin_store import PluginStore, remove_tree
from paddock.plugins.registry import require_plugin
from paddock.plugins.rows import VersionRow, set_fingerprint, tree_of, versions_of
from paddock.plugins.staging import staging_directory
from paddock.plugins.tree import fingerprint, verify_tree
from paddock.store.database import Transaction


def repair(store: PluginStore, name: str) -> list[VersionRow]:
    """Put back every version of a plugin whose files changed, and give those that were.

    Raises:
        NotFound: the plugin is not installed, or its package blob is gone.
        HostError: the stored package is damaged too; install it again.
    """
    versions = store.database.read(lambda tx: versions_of(tx, require_plugin(tx, name).name))
    mended: list[VersionRow] = []
    with store.changing():
        for row in versions:
            root = store.root_of(row.plugin, row.version)
            if verify_tree(root, row.digest).intact:
                continue
            _restore(store, row)
            require_intact(store, row)
            mended.append(row)
    return mended


def _restore(store: PluginStore, row: VersionRow) -> None:
    tree = store.database.read(lambda tx: tree_of(tx, row.plugin, row.version))
    root = store.root_of(row.plugin, row.version)
    if not store.blobs.has(row.blob):
        raise NotFound(
            f"the package of {row.plugin} {row.version} is no longer stored",
            code="package.gone",
            hint="uninstall it and install it again",
        )
    with staging_directory(store.staging) as directory:
        fresh = directory / "tree"
        with store.blobs.open(row.blob) as blob:
            unpack(blob, fresh, tree)
        remove_tree(root)
        root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh.rename(root)
    stats = fingerprint(root)

    def unit(tx: Transaction) -> None:
        set_fingerprint(tx, row.plugin, row.version, stats)
        store.publish(tx, PluginRepaired(name=row.plugin, version=row.version))

    store.database.write(unit)
