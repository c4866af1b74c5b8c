"""Parts of pages that are updated live: each is rendered once for all open pages that show the same."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

import anyio
from msgspec import Struct, field

from paddock.console.templates import HtmlFragment
from paddock.console.tenant_changes import TenantChanges
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant

_REST_FACTOR: Final = 3  # a render is followed by a rest of so many times its own length
_MAX_REST_S: Final = 1.0
_RETRY_S: Final = 2.0
_PAGES_AT_ONCE: Final = 8
_SEND_INTERVAL_S: Final = 0.005  # between so many pages: sending to hundreds at once would hold up calls

_log = logging.getLogger("paddock.console")

K = TypeVar("K", bound=Hashable)


class EncodedFragment(Struct, frozen=True):
    """A fragment, encoded once for all pages that get it."""

    data: bytes

    def encode(self) -> bytes:
        return self.data


class _OpenPage(Struct, eq=False):
    """One stream.

    Attributes:
        joined_after: How many renders had begun before it: an older one may be older than the page itself.
        fragment: What it was sent last.
    """

    joined_after: int
    fragment: EncodedFragment | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class _Feed(Struct, eq=False):
    """A fragment with the pages that show it, as one reader sees it.

    Attributes:
        begun: How many renders have begun.
        joined: Set when a page joins, which needs a render that begins after that.
        changed: Set when the fragment may have changed.
        error: Why it ended; None if it goes on, or what it shows is gone.
    """

    pages: dict[_OpenPage, None] = field(default_factory=dict[_OpenPage, None])
    begun: int = 0
    joined: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    fragment: EncodedFragment | None = None
    ended: bool = False
    error: Exception | None = None


class LiveFragments(Generic[K]):
    """Renders a part of a page again when it may have changed, and sends it to the open pages if it has.

    Args:
        render: Renders it for a reader; None if what it shows is gone. Readers that are equal share the result, so
            everything that it depends on belongs to the reader: above all their rights.
        changes: Tell when it may have changed.
        min_interval_s: Between two renders for a reader, however much happens.
        max_age_s: After which it is rendered without a change.
    """

    def __init__(
        self,
        render: Callable[[K], Awaitable[HtmlFragment | None]],
        changes: TenantChanges,
        *,
        min_interval_s: float,
        max_age_s: float,
    ) -> None:
        self._render = render
        self._changes = changes
        self._min_interval_s = min_interval_s
        self._max_age_s = max_age_s
        self._feeds: dict[K, tuple[_Feed, asyncio.Task[None]]] = {}
        self._one_at_a_time = asyncio.Semaphore(1)
        self._rested_at = 0.0

    async def follow(self, reader: K, tenant: Tenant) -> AsyncGenerator[EncodedFragment, None]:
        """Yield the fragment as it is now, and then whenever it has changed, until what it shows is gone."""
        if reader not in self._feeds:
            feed = _Feed()
            self._feeds[reader] = feed, asyncio.create_task(self._run(reader, tenant, feed))
        feed, task = self._feeds[reader]
        page = _OpenPage(feed.begun)
        feed.pages[page] = None
        feed.joined.set()
        feed.changed.set()
        try:
            while True:
                await page.wake.wait()
                page.wake.clear()
                if feed.error is not None:
                    raise feed.error
                if feed.ended or page.fragment is None:
                    return
                yield page.fragment
        finally:
            del feed.pages[page]
            if not feed.pages:
                self._remove(reader, feed)
                task.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait({task})

    async def _run(self, reader: K, tenant: Tenant, feed: _Feed) -> None:
        try:
            async with self._changes.following(tenant, feed.changed):
                await self._render_while_read(reader, feed)
        except Exception as error:  # raised again in the stream of each page
            feed.error = error
        # Pages that come from now on begin anew.
        self._remove(reader, feed)
        feed.ended = True
        for page in feed.pages:
            page.wake.set()

    async def _render_while_read(self, reader: K, feed: _Feed) -> None:
        """Render and send the fragment, until what it shows is gone."""
        last_error = ""
        while True:
            try:
                began, fragment = await self._render_paced(reader, feed)
            except PaddockError as error:  # the store is away: pages stay as they are until it is back
                if error.message != last_error:
                    _log.warning("a page could not be updated: %s", error.message)
                last_error = error.message
                await asyncio.sleep(_RETRY_S)
                continue
            last_error = ""
            if fragment is None:
                return
            if fragment != feed.fragment:
                feed.fragment = fragment
            await self._send(feed)
            with anyio.move_on_after(began + self._min_interval_s - time.monotonic()):
                await feed.joined.wait()
            with anyio.move_on_after(began + self._max_age_s - time.monotonic()):
                await feed.changed.wait()

    async def _render_paced(self, reader: K, feed: _Feed) -> tuple[float, EncodedFragment | None]:
        """Render a fragment; returns when that began. Renders for different readers take turns, with rests between."""
        async with self._one_at_a_time:
            await asyncio.sleep(self._rested_at - time.monotonic())
            feed.joined.clear()
            feed.changed.clear()
            feed.begun += 1
            began = time.monotonic()
            try:
                rendered = await self._render(reader)
            finally:
                took = time.monotonic() - began
                self._rested_at = began + took + min(took * _REST_FACTOR, _MAX_REST_S)
            return began, None if rendered is None else EncodedFragment(rendered.encode())

    async def _send(self, feed: _Feed) -> None:
        """Wake the pages that do not show the fragment, a few at a time."""
        outdated = [
            page for page in feed.pages if page.fragment is not feed.fragment and page.joined_after < feed.begun
        ]
        for number, page in enumerate(outdated, 1):
            page.fragment = feed.fragment
            page.wake.set()
            if number % _PAGES_AT_ONCE == 0:
                await asyncio.sleep(_SEND_INTERVAL_S)

    def _remove(self, reader: K, feed: _Feed) -> None:
        if reader in self._feeds and self._feeds[reader][0] is feed:
            del self._feeds[reader]
