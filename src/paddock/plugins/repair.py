"""Repairing a modified plugin: its files are put back from the package that was consented to."""

from __future__ import annotations

from functools import partial

from paddock.core.errors import HostError, NotFound
from paddock.core.events_lifecycle import PluginRepaired
from paddock.plugins.enabling import require_intact
from paddock.plugins.local_copy import restore
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import require_plugin
from paddock.plugins.rows import VersionRow, versions_of
from paddock.plugins.tree import verify_tree


def repair(store: PluginStore, name: str) -> list[VersionRow]:
    """Put back every version of a plugin whose files changed, and give those that were.

    Raises:
        NotFound: the plugin is not installed, or its package blob is gone.
        HostError: the stored package is damaged too; install it again.
    """
    versions = store.database.read(lambda tx: versions_of(tx, require_plugin(tx, name).name))
    mended: list[VersionRow] = []
    lost: list[NotFound | HostError] = []
    with store.changing():
        for row in versions:
            root = store.root_of(row.plugin, row.version)
            if verify_tree(root, row.digest).intact:
                continue
            try:
                restore(store, row)
            except (NotFound, HostError) as error:
                lost.append(error)  # one version that cannot be mended must not keep the others broken
                continue
            require_intact(store, row)
            store.database.write(partial(store.publish, event=PluginRepaired(name=row.plugin, version=row.version)))
            mended.append(row)
    if lost:
        raise lost[0]
    return mended
