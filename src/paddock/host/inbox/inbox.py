"""The inbox of a person: a page of all sources, its counts, and when it may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.call import Principal
from paddock.core.errors import NotFound, PaddockError
from paddock.core.ids import Tenant
from paddock.host.inbox.item import InboxItem, InboxKind, InboxPosition
from paddock.host.inbox.source import InboxQuery, InboxSource
from paddock.webhooks.live_events import EventView, LiveEvents

ALL_KINDS: Final = frozenset(InboxKind)
DEFAULT_PAGE_ITEMS: Final = 50
MAX_PAGE_ITEMS: Final = 200
MAX_COUNTED_ITEMS: Final = 1_000  # per kind; counting more would read more than a page does
CHANGES: Final = (
    "approval.*",
    "effect.*",
    "repair.*",
    "webhook.*",
    "secret.*",
    "plugin.enabled",
    "plugin.disabled",
    "plugin.configured",
    "plugin.installed",
    "plugin.upgraded",
    "plugin.uninstalled",
    "plugin.repaired",
    "plugin.crashed",
    "plugin.failed",
    "plugin.initialized",
    "plugin.definition_changed",
    "plugin.definition_accepted",
    "plugin.definitions_trusted",
)

T = TypeVar("T")


class InboxPage(Struct, frozen=True):
    """A page of the inbox, the most urgent items first.

    Attributes:
        next: The position that the next page starts after; None on the last page.
        unavailable: The kinds that cannot be listed now, with the error.
    """

    items: tuple[InboxItem, ...]
    next: InboxPosition | None
    unavailable: Mapping[InboxKind, PaddockError]


class InboxCounts(Struct, frozen=True):
    """How much needs a person.

    Attributes:
        by_kind: The number of items that they may answer; at most `MAX_COUNTED_ITEMS` of each kind.
        with_others: The number of items that they asked for and others answer.
    """

    by_kind: Mapping[InboxKind, int]
    with_others: int

    @property
    def total(self) -> int:
        return sum(self.by_kind.values())


class InboxService:
    """Everything that needs a person.

    Args:
        sources: Where it comes from. A room that needs people adds its source here.
        live_events: Tells when it may have changed.
    """

    def __init__(self, sources: Sequence[InboxSource], live_events: LiveEvents) -> None:
        self._sources = tuple(sources)
        self._live_events = live_events

    async def page(self, query: InboxQuery) -> InboxPage:
        """Return a page of what a person may answer, or with `with_others` of what others answer for them.

        A source that fails does not hide the others.
        """
        one_more = InboxQuery(query.principal, query.kinds, query.with_others, query.after, query.limit + 1)
        sources = [source for source in self._sources if not source.kinds.isdisjoint(query.kinds)]
        pages, unavailable = await _from_each(sources, [source.page(one_more) for source in sources])
        found = sorted((item for page in pages for item in page), key=lambda item: item.position)
        items = tuple(found[: query.limit])
        return InboxPage(items, items[-1].position if len(found) > query.limit else None, unavailable)

    async def counts(self, principal: Principal) -> InboxCounts:
        """Count what a person may answer, by kind, and what others answer for them."""
        sources = self._sources
        mine, _ = await _from_each(
            sources, [one.counts(principal, MAX_COUNTED_ITEMS, with_others=False) for one in sources]
        )
        theirs, _ = await _from_each(
            sources, [one.counts(principal, MAX_COUNTED_ITEMS, with_others=True) for one in sources]
        )
        by_kind = dict.fromkeys(InboxKind, 0)
        for counted in mine:
            by_kind |= counted
        return InboxCounts(by_kind, sum(number for counted in theirs for number in counted.values()))

    async def find(self, principal: Principal, item_id: str) -> InboxItem:
        """Return an item that a person may answer or asked for.

        Raises:
            NotFound: there is none; it may be answered already.
        """
        found, _ = await _from_each(self._sources, [source.find(principal, item_id) for source in self._sources])
        item = next((one for one in found if one is not None), None)
        if item is None:
            raise NotFound(
                f"the inbox has no item {item_id!r}",
                code="inbox.not_found",
                hint="it may be answered already",
                action=Action.of("inbox.list", tenant=principal.tenant),
            )
        return item

    async def changes(self, tenant: Tenant) -> AsyncGenerator[None, None]:
        """Yield at once, and then whenever an inbox of the tenant may have changed."""
        after = await self._live_events.last_seq(tenant)
        yield
        async with aclosing(self._live_events.follow(tenant, EventView(CHANGES), after)) as events:
            async for _ in events:
                yield


async def _from_each(
    sources: Iterable[InboxSource], runs: Iterable[Awaitable[T]]
) -> tuple[list[T], dict[InboxKind, PaddockError]]:
    """Wait for all sources; return the results, and the errors by kind."""
    results = await asyncio.gather(*runs, return_exceptions=True)
    found: list[T] = []
    unavailable: dict[InboxKind, PaddockError] = {}
    for source, result in zip(sources, results, strict=True):
        if isinstance(result, PaddockError):
            unavailable |= dict.fromkeys(source.kinds, result)
        elif isinstance(result, BaseException):
            raise result
        else:
            found.append(result)
    return found, unavailable
