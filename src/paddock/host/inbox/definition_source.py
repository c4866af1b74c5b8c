"""Changed tool definitions in the inbox."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from paddock.core.action import Action
from paddock.core.call import OPERATOR
from paddock.core.ids import Tenant
from paddock.host.inbox.item import InboxItem, InboxKind, hashed_item_id
from paddock.host.inbox.source import OperatorSource
from paddock.manifest.effects import Risk
from paddock.plugins.store.thread import StoreThread
from paddock.plugins.tool_pinning.accept import quarantined_definitions
from paddock.plugins.tool_pinning.rows import DefinitionRow

_KIND: Final = InboxKind.DEFINITION


def definition_source(views: StoreThread) -> OperatorSource:
    """Return the source of definitions that wait for acceptance.

    Args:
        views: The plugin store, for reads.
    """

    async def list_items(tenant: Tenant) -> list[InboxItem]:
        return [definition_item(row, tenant) for row in await views.run(quarantined_definitions, tenant)]

    return OperatorSource(_KIND, list_items)


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
