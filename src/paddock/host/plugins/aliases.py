"""Aliases of installed plugins while the host runs. Plugins are installed for all tenants, so are their aliases."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.plugins.store.lookup import add_alias, remove_alias
from paddock.plugins.store.thread import StoreThread


class AliasService:
    """Adds and removes aliases.

    Args:
        store: The plugin store.
        apply_change: Brings the catalogues in step with the store; returns when that is done.
    """

    def __init__(self, store: StoreThread, apply_change: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._apply_change = apply_change

    async def add(self, alias: str, name: str, by: PrincipalId) -> str:
        """Add an alias, and return the plugin's own name. See `add_alias` for what it raises."""
        plugin = await self._store.run(lambda store: add_alias(store, alias, name), DEFAULT_TENANT, by=by)
        await self._apply_change()
        return plugin

    async def remove(self, alias: str, by: PrincipalId) -> None:
        """Remove an alias.

        Raises:
            NotFound: there is no such alias.
        """
        await self._store.run(lambda store: remove_alias(store, alias), DEFAULT_TENANT, by=by)
        await self._apply_change()
