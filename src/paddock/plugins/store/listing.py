"""Lists the installed plugins. Separate from `lookup.py` because it needs no manifest model, which takes longer to
import than a listing takes."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from paddock.core.action import Action
from paddock.plugins.package.tree import verify_tree
from paddock.plugins.store.rows import (
    Grant,
    PluginRow,
    VersionRow,
    all_grants,
    all_plugins,
    count_quarantined,
    current_versions,
    version_names,
)
from paddock.plugins.store.store import PluginStore


class InstalledState(StrEnum):
    """The state of an installed plugin before it runs."""

    DISABLED = "disabled"
    ENABLED = "enabled"
    MODIFIED = "modified"  # its files changed; it never loads
    MISSING = "version missing"  # the pinned version was removed


class InstalledPlugin(Struct, frozen=True):
    """One line of `plugin list`."""

    plugin: PluginRow
    version: VersionRow | None
    grant: Grant | None
    state: InstalledState
    versions: tuple[str, ...]
    kind: str
    description: str
    waiting: int = 0  # definitions of its server that wait for a person

    @property
    def given_up(self) -> str:
        """Why a daemon disabled it; empty if none did."""
        return self.grant.given_up if self.grant and not self.grant.enabled else ""


def list_plugins(store: PluginStore, kind: str | None = None) -> list[InstalledPlugin]:
    """List every installed plugin with its state; `kind` filters for agents, operators, tools or adapters."""
    plugins, current, grants, names, waiting = store.database.read(
        lambda tx: (
            all_plugins(tx),
            current_versions(tx),
            all_grants(tx, store.tenant),
            version_names(tx),
            count_quarantined(tx, store.tenant),
        )
    )
    listed: list[InstalledPlugin] = []
    for plugin in plugins:
        row = current.get(plugin.name)
        grant = grants.get(plugin.name)
        manifest = row.document if row else {}
        listed.append(
            InstalledPlugin(
                plugin,
                row,
                grant,
                installed_state(store, row, grant),
                names.get(plugin.name, ()),
                str(manifest.get("kind", "plugin")),
                str(manifest.get("description", "")),
                waiting.get(plugin.name, 0),
            )
        )
    return [one for one in listed if kind is None or one.kind == kind]


def repair_of(name: str, state: InstalledState) -> tuple[str, Action | None]:
    """Return what is wrong with a plugin in this state, and what to do about it; empty if it is sound."""
    match state:
        case InstalledState.MODIFIED:
            return "its files were modified, so it does not load", Action.of("plugin.repair", plugin=name)
        case InstalledState.MISSING:
            return "its pinned version was removed; unpin or disable it", Action.of("plugin.unpin", plugin=name)
        case _:
            return "", None


def installed_state(store: PluginStore, row: VersionRow | None, grant: Grant | None) -> InstalledState:
    """Return the state for a listing; files are judged by their fingerprint and read only if that changed."""
    if row is None:
        return InstalledState.MISSING
    if not _intact(store, row):
        return InstalledState.MODIFIED
    return InstalledState.ENABLED if grant and grant.enabled else InstalledState.DISABLED


def _intact(store: PluginStore, row: VersionRow) -> bool:
    root = store.version_root(row.plugin, row.version)
    if store.shared and not root.exists():
        return True  # another node installed it; the files are fetched at first use
    verdict = verify_tree(root, row.digest, store.known_fingerprint(row.plugin, row.version))
    if verdict.intact and not verdict.by_fingerprint:
        store.save_fingerprint(row.plugin, row.version)  # so that the next listing need not read the files
    return verdict.intact
