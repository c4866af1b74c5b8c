"""Version management of installed plugins while the host runs: history, pinning and rollback.

Plugins are installed for all tenants, so this is for operators of the host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from paddock.core.errors import Conflict
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.manifest.capability import Capability
from paddock.plugins.install.consent_screen import ConsentScreen, rollback_screen
from paddock.plugins.manage.version_history import VersionHistory, load_version_history
from paddock.plugins.store.rows import PluginRow, VersionRow
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.plugins.store.versions import find_rollback_target, pin_version, roll_back, unpin_version


class RollbackPreview(NamedTuple):
    """An earlier version, and the consequences of rolling back to it."""

    now: VersionRow
    target: VersionRow
    screen: ConsentScreen
    new: tuple[Capability, ...]  # requested capabilities that are no longer granted


class VersionService:
    """Moves plugins between their installed versions.

    Args:
        store: The plugin store.
        views: The plugin store, for reads.
        apply_change: Reconciles a plugin, and returns when that is done.
    """

    def __init__(self, store: StoreThread, views: StoreThread, apply_change: Callable[[str], Awaitable[None]]) -> None:
        self._store = store
        self._views = views
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
        """Pin a plugin to a version; None unpins it. See `plugins/store/versions.py` for what it raises."""

        def set_pin(store: PluginStore) -> PluginRow:
            return unpin_version(store, name) if version is None else pin_version(store, name, version)

        row = await self._store.run(set_pin, DEFAULT_TENANT, by=by)
        await self._apply_change(row.name)
        return row

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
