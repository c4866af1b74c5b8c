"""Version management of installed plugins while the host runs: history, pinning, rollback and repair.

Plugins are installed for all tenants, so this is for operators of the host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

from paddock.core.errors import Conflict
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.manifest.capability import Capability
from paddock.plugins.install.consent_screen import ConsentScreen, rollback_screen
from paddock.plugins.manage.repair import repair_plugin
from paddock.plugins.manage.version_history import VersionHistory, load_version_history
from paddock.plugins.store.lookup import require_plugin
from paddock.plugins.store.rows import PluginRow, VersionRow
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread, open_store_thread
from paddock.plugins.store.versions import find_rollback_target, pin_version, roll_back, unpin_version


class RollbackPreview(NamedTuple):
    """An earlier version, and the consequences of rolling back to it."""

    now: VersionRow
    target: VersionRow
    screen: ConsentScreen
    new: tuple[Capability, ...]  # requested capabilities that are no longer granted


class RepairedPlugin(NamedTuple):
    """A plugin whose modified versions were restored."""

    plugin: PluginRow
    restored: tuple[str, ...]  # the versions that had been modified


class VersionService:
    """Moves plugins between their installed versions, and restores the files of modified ones.

    Args:
        store: The plugin store.
        views: The plugin store, for reads.
        open_store: Opens the plugin store anew, for work that takes long.
        apply_change: Reconciles a plugin, and returns when that is done.
    """

    def __init__(
        self,
        store: StoreThread,
        views: StoreThread,
        open_store: Callable[[], AbstractContextManager[PluginStore]],
        apply_change: Callable[[str], Awaitable[None]],
    ) -> None:
        self._store = store
        self._views = views
        self._open_store = open_store
        self._apply_change = apply_change

    async def history(self, name: str) -> VersionHistory:
        """Return every installed version of a plugin.

        Raises:
            NotFound: it is not installed.
        """
        return await self._views.run(lambda store: load_version_history(store, name))

    async def preview_rollback(self, name: str, version: str | None) -> RollbackPreview:
        """Preview a rollback: what changes, and which capabilities need new consent.

        Raises:
            PaddockError: see `find_rollback_target`.
        """

        def preview(store: PluginStore) -> RollbackPreview:
            current, target, difference, new = find_rollback_target(store, name, version)
            return RollbackPreview(current, target, rollback_screen(current, target, difference), tuple(new))

        return await self._views.run(preview)

    async def pin(self, name: str, version: str | None, by: PrincipalId) -> PluginRow:
        """Pin a plugin to a version, by default the one in use. See `pin_version` for what it raises."""
        row = await self._store.run(lambda store: pin_version(store, name, version), DEFAULT_TENANT, by=by)
        await self._apply_change(row.name)
        return row

    async def unpin(self, name: str, by: PrincipalId) -> PluginRow:
        """Unpin a plugin. See `unpin_version` for what it raises."""
        row = await self._store.run(lambda store: unpin_version(store, name), DEFAULT_TENANT, by=by)
        await self._apply_change(row.name)
        return row

    async def repair(self, name: str, by: PrincipalId) -> RepairedPlugin:
        """Restore every version of a plugin whose files or environment changed, and start it again if it was rejected.

        Raises:
            NotFound: it is not installed.
            PaddockError: see `repair_plugin`.
        """

        def restore(store: PluginStore) -> RepairedPlugin:
            plugin = store.database.read(lambda tx: require_plugin(tx, name))
            return RepairedPlugin(plugin, tuple(row.version for row in repair_plugin(store, plugin.name)))

        # On a thread of its own: an environment is rebuilt from a registry, and plugins start meanwhile.
        async with open_store_thread(self._open_store) as thread:
            repaired = await thread.run(restore, DEFAULT_TENANT, by=by)
        await self._apply_change(repaired.plugin.name)
        return repaired

    async def rollback(
        self,
        name: str,
        version: str | None,
        acknowledged: Iterable[Capability],
        by: PrincipalId,
        *,
        leaving: str | None = None,
    ) -> tuple[str, str]:
        """Roll back to an earlier version, by default the previous one. Returns the old and the new version.

        Args:
            name: The plugin.
            version: The version to go back to.
            acknowledged: The capabilities that a person has just granted.
            by: The principal to record.
            leaving: The version that the person saw as current, if any.

        Raises:
            NeedsConsent: it requests capabilities that are neither granted nor acknowledged; nothing has changed.
            Conflict: the current version is not the one the person saw.
            PaddockError: see `find_rollback_target`.
        """
        granted = frozenset(acknowledged)

        def apply(store: PluginStore) -> tuple[VersionRow, VersionRow]:
            current, target, _, _ = find_rollback_target(store, name, version)
            if leaving is not None and current.version != leaving:
                raise Conflict(
                    f"{current.plugin} changed while you were deciding",
                    code="plugin.changed_meanwhile",
                    hint="look at it again",
                )
            roll_back(store, current, target, granted)
            return current, target

        previous, target = await self._store.run(apply, DEFAULT_TENANT, by=by)
        await self._apply_change(previous.plugin)
        return previous.version, target.version
