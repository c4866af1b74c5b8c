"""The seam of the inbox: a source has things of some kinds that need a person, and rooms add theirs to the list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from paddock.core.call import Principal
from paddock.host.inbox.item import InboxItem, InboxKind, InboxPosition


@dataclass(frozen=True, slots=True)
class InboxQuery:
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
