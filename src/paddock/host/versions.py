"""Which version of a plugin is in use, looked at and changed while the host runs: pinning, and going back.

Plugins are installed for all tenants, so this is for whoever operates the host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from paddock.core.errors import Conflict, NeedsConsent
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.manifest.capability import Capability
from paddock.plugins.consent import Screen, rollback_screen
from paddock.plugins.history import History, history_of
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.rows import PluginRow, VersionRow
from paddock.plugins.store_thread import StoreThread
from paddock.plugins.versions import pin, rollback, rollback_target, unpin


class WayBack(NamedTuple):
    """An earlier version, and what going back to it means."""

    now: VersionRow
    target: VersionRow
    screen: Screen
    new: tuple[Capability, ...]  # what it asks for that is not granted any more


class Versions:
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
        self._put_into_effect = put_into_effect

    async def history(self, name: str) -> History:
        """Every installed version of a plugin.

        Raises:
            NotFound: it is not installed.
        """
        return await self._views.run(lambda store: history_of(store, name))

    async def way_back(self, name: str, version: str | None) -> WayBack:
        """What going back would change, and what needs a yes of its own.

        Raises:
            PaddockError: see `rollback_target`.
        """

        def work(store: PluginStore) -> WayBack:
            now, target, difference, new = rollback_target(store, name, version)
            return WayBack(now, target, rollback_screen(now, target, difference), tuple(new))

        return await self._views.run(work)

    async def pin(self, name: str, version: str | None, by: PrincipalId) -> PluginRow:
        """Hold a plugin at a version; None lets it move again. See `plugins/versions.py` for what it raises."""

        def work(store: PluginStore) -> PluginRow:
            return unpin(store, name) if version is None else pin(store, name, version)

        row = await self._store.run(work, DEFAULT_TENANT, by=by)
        await self._put_into_effect(row.name)
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
            now, target, _, new = rollback_target(store, name, version)
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
            rollback(store, now, target)
            return now, target

        now, target = await self._store.run(work, DEFAULT_TENANT, by=by)
        await self._put_into_effect(now.plugin)
        return now.version, target.version
