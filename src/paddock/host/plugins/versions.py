"""Which version of a plugin is in use, looked at and changed while the host runs: pinning, and going back.

Plugins are installed for all tenants, so this is for whoever operates the host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from paddock.core.errors import Conflict, NeedsConsent
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.manifest.capability import Capability
from paddock.plugins.install.consent_screen import ConsentScreen, rollback_screen
from paddock.plugins.manage.version_history import VersionHistory, load_version_history
from paddock.plugins.store.rows import PluginRow, VersionRow
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.plugins.store.versions import find_rollback_target, pin_version, roll_back, unpin_version


class RollbackPreview(NamedTuple):
    """An earlier version, and what going back to it means."""

    now: VersionRow
    target: VersionRow
    screen: ConsentScreen
    new: tuple[Capability, ...]  # what it asks for that is not granted any more


class VersionService:
    """Moves plugins between the versions that are installed.

    Args:
        store: Where they are installed.
        views: The same, for looking.
        put_into_effect: Looks at the rows again, and returns when what they ask for of a plugin is done.
    """

    def __init__(
        self, store: StoreThread, views: StoreThread, put_into_effect: Callable[[str], Awaitable[None]]
    ) -> None:
        self._store = store
        self._views = views
        self._apply_change = put_into_effect

    async def history(self, name: str) -> VersionHistory:
        """Every installed version of a plugin.

        Raises:
            NotFound: it is not installed.
        """
        return await self._views.run(lambda store: load_version_history(store, name))

    async def preview_rollback(self, name: str, version: str | None) -> RollbackPreview:
        """What going back would change, and what needs a yes of its own.

        Raises:
            PaddockError: see `rollback_target`.
        """

        def work(store: PluginStore) -> RollbackPreview:
            now, target, difference, new = find_rollback_target(store, name, version)
            return RollbackPreview(now, target, rollback_screen(now, target, difference), tuple(new))

        return await self._views.run(work)

    async def pin(self, name: str, version: str | None, by: PrincipalId) -> PluginRow:
        """Hold a plugin at a version; None lets it move again. See `plugins/store/versions.py` for what it raises."""

        def work(store: PluginStore) -> PluginRow:
            return unpin_version(store, name) if version is None else pin_version(store, name, version)

        row = await self._store.run(work, DEFAULT_TENANT, by=by)
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
        """Go back to an earlier version, the last one where none is named. From which one, and to which.

        Args:
            name: The plugin.
            version: Which one.
            acknowledged: What somebody just said yes to.
            by: Who.
            leaving: The version that they saw it at, where they saw one.

        Raises:
            NeedsConsent: it asks for what is neither granted nor acknowledged; nothing has changed.
            Conflict: it is at another version than they saw.
            PaddockError: see `rollback_target`.
        """
        said_yes = frozenset(acknowledged)

        def work(store: PluginStore) -> tuple[VersionRow, VersionRow]:
            now, target, _, new = find_rollback_target(store, name, version)
            if leaving is not None and now.version != leaving:
                raise Conflict(
                    f"{now.plugin} changed while you were deciding",
                    code="plugin.changed_meanwhile",
                    hint="look at it again",
                )
            missing = [str(one) for one in new if one not in said_yes]
            if missing:
                raise NeedsConsent(
                    f"{target.plugin} {target.version} asks for {', '.join(missing)}, which is not granted any more",
                    hint="name each in `grant` once a person said yes to it",
                    details={"plugin": target.plugin, "capabilities": missing},
                )
            roll_back(store, now, target)
            return now, target

        now, target = await self._store.run(work, DEFAULT_TENANT, by=by)
        await self._apply_change(now.plugin)
        return now.version, target.version
