"""The seam of the inbox: a source has things of some kinds that need a person, and rooms add theirs to the list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from paddock.core.call import OPERATOR, Principal
from paddock.core.ids import Tenant
from paddock.host.inbox.item import InboxItem, InboxKind, InboxPosition


class InboxQuery(Struct, frozen=True):
    """A page of the inbox.

    Attributes:
        principal: Who asks: a source gives only what they may answer.
        kinds: Only these kinds.
        with_others: Instead, what they asked and others answer.
        after: Only items after this position.
        limit: Maximum number of items.
    """

    principal: Principal
    kinds: frozenset[InboxKind]
    with_others: bool = False
    after: InboxPosition | None = None
    limit: int = 50


class InboxSource(Protocol):
    """Things of some kinds that need a person."""

    @property
    def kinds(self) -> frozenset[InboxKind]: ...

    async def page(self, query: InboxQuery) -> list[InboxItem]:
        """Return the first items of the query, by position. Never reads more than it needs."""
        ...

    async def counts(self, principal: Principal, limit: int, *, with_others: bool) -> Mapping[InboxKind, int]:
        """Count the items of each kind, each at most up to a limit."""
        ...

    async def find(self, principal: Principal, item_id: str) -> InboxItem | None:
        """Return an item that this principal may answer or asked for; None if it is not from here or is answered."""
        ...


def first_items(items: Iterable[InboxItem], query: InboxQuery) -> list[InboxItem]:
    """Return the items of a query from all items of a source. Pure."""
    after = query.after
    found = [item for item in items if item.kind in query.kinds and (after is None or item.position > after)]
    return sorted(found, key=lambda item: item.position)[: query.limit]


class OperatorSource:
    """A source of one kind whose items are few: all of a tenant are listed at once, for its operators.

    Args:
        kind: Their kind.
        list_items: Lists those of a tenant.
    """

    def __init__(self, kind: InboxKind, list_items: Callable[[Tenant], Awaitable[Sequence[InboxItem]]]) -> None:
        self.kinds = frozenset({kind})
        self._kind = kind
        self._list_items = list_items

    async def page(self, query: InboxQuery) -> list[InboxItem]:
        return [] if query.with_others else first_items(await self._items(query.principal), query)

    async def counts(self, principal: Principal, limit: int, *, with_others: bool) -> Mapping[InboxKind, int]:
        return {self._kind: 0 if with_others else min(limit, len(await self._items(principal)))}

    async def find(self, principal: Principal, item_id: str) -> InboxItem | None:
        return next((item for item in await self._items(principal) if item.id == item_id), None)

    async def _items(self, principal: Principal) -> Sequence[InboxItem]:
        return await self._list_items(principal.tenant) if OPERATOR in principal.roles else ()
