"""This node's copy of a package. Rows and blobs may be shared by several nodes; files on disk are each node's own."""

from __future__ import annotations

from pathlib import Path

from paddock.core.errors import NotFound
from paddock.plugins.plugin_store import PluginStore, remove_tree
from paddock.plugins.rows import VersionRow, tree_of


def local_root(store: PluginStore, row: VersionRow) -> Path:
    """Where a version's files stand here; fetched from the shared store when another node installed it.

    Raises:
        NotFound: its package is no longer stored.
        HostError: its stored package is damaged.
    """
    root = store.root_of(row.plugin, row.version)
    if store.shared and not root.exists():
        with store.changing():
            if not root.exists():
                restore(store, row)
    return root


def restore(store: PluginStore, row: VersionRow) -> None:
    """Put a version's files back as they were consented to. Call it while holding `store.changing()`.

    Raises:
        NotFound: its package is no longer stored.
        HostError: its stored package is damaged.
    """
    # Imported here: most commands use files that are there already.
    from paddock.plugins.package import unpack
    from paddock.plugins.staging import staging_directory

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
    store.remember_stats(row.plugin, row.version)
