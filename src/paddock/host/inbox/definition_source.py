"""Changed tool definitions in the inbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from paddock.core.action import Action
from paddock.core.call import OPERATOR, Principal
from paddock.core.ids import Tenant
from paddock.host.inbox.item import InboxItem, InboxKind, hashed_item_id
from paddock.host.inbox.source import InboxQuery, first_items
from paddock.manifest.effects import Risk
from paddock.plugins.store.thread import StoreThread
from paddock.plugins.tool_pinning.accept import quarantined_definitions
from paddock.plugins.tool_pinning.rows import DefinitionRow

_KIND: Final = InboxKind.DEFINITION


class DefinitionSource:
    """Definitions of servers that wait for acceptance. For operators of the tenant.

    Args:
        views: The plugin store, for reads.
    """

    kinds = frozenset({_KIND})

    def __init__(self, views: StoreThread) -> None:
        self._views = views

    async def page(self, query: InboxQuery) -> list[InboxItem]:
        return [] if query.with_others else first_items(await self._items(query.principal), query)

    async def counts(self, principal: Principal, limit: int, *, with_others: bool) -> Mapping[InboxKind, int]:
        return {_KIND: 0 if with_others else min(limit, len(await self._items(principal)))}

    async def find(self, principal: Principal, item_id: str) -> InboxItem | None:
        return next((item for item in await self._items(principal) if item.id == item_id), None)

    async def _items(self, principal: Principal) -> list[InboxItem]:
        if OPERATOR not in principal.roles:
            return []
        rows = await self._views.run(quarantined_definitions, principal.tenant)
        return [definition_item(row, principal.tenant) for row in rows]


def definition_item(row: DefinitionRow, tenant: Tenant) -> InboxItem:
    """Return a definition that waits for acceptance as an item. Pure."""
    changed = row.hash is not None
    return InboxItem(
        id=hashed_item_id("def", row.plugin, row.kind, row.name),
        kind=_KIND,
        title=f"{row.plugin} {'changed' if changed else 'offers a new'} {row.kind}: {row.name}",
        detail=row.reason,
        risk=Risk.WARNING,
        link=f"/plugins/{quote(row.plugin, safe='')}",
        plugin=row.plugin,
        callable=row.name,
        answerable_by=(f"role:{OPERATOR}",),
        binding=row.waiting_hash or "",
        action=Action.of("plugin.accept", plugin=row.plugin, name=row.name, tenant=tenant),
        reference=row.plugin,
        created_at=row.first_seen if not changed else row.last_seen,
    )
