"""Removing plugins while the host runs. They are installed for all, so this is for whoever operates the host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio

from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.plugins import leavings, removal
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.store_thread import StoreThread

LONGEST = 10.0  # seconds for which somebody waits until the last call of a plugin has ended


@dataclass(frozen=True, slots=True)
class Removed:
    """What became of it."""

    plugin: str
    leaving: bool  # whether what it kept is still here, since a call of it has not ended


class Uninstalling:
    """Removes plugins.

    Args:
        store: Where they are installed.
        put_into_effect: Ends what is gone and drops what it kept; returns when that is done.
    """

    def __init__(self, store: StoreThread, put_into_effect: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._put_into_effect = put_into_effect

    async def uninstall(self, name: str, by: PrincipalId) -> Removed:
        """Remove a plugin with all that it kept, also where it is pinned.

        Raises:
            NotFound: it is not installed.
        """
        row = await self._store.run(lambda store: removal.uninstall(store, name, force=True), DEFAULT_TENANT, by=by)
        await self._carried_out()
        return Removed(row.name, row.name in await self._store.run(leavings.leaving))

    async def uninstall_version(self, name: str, version: str, by: PrincipalId) -> None:
        """Remove one version and keep the others.

        Raises:
            NotFound: the plugin or that version is not installed.
            Conflict: it is the version in use, or pinned.
        """

        def work(store: PluginStore) -> None:
            removal.uninstall_version(store, name, version)

        await self._store.run(work, DEFAULT_TENANT, by=by)
        await self._carried_out()

    async def _carried_out(self) -> None:
        # It is gone already; the host looks by itself every few seconds, and this only makes it sooner.
        with suppress(PaddockError), anyio.move_on_after(LONGEST):
            await self._put_into_effect()
