"""Opens a slow resource on a thread, so that a cancelled caller leaks nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar


class Closable(Protocol):
    """A resource that must be closed once it was opened."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


async def open_in_thread(open_it: Callable[[], C]) -> C:
    """The resource that `open_it` opens. If the caller is cancelled meanwhile, it is closed as soon as it is open."""
    opening = asyncio.ensure_future(asyncio.to_thread(open_it))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_abandoned)
        raise


def _close_abandoned(opening: asyncio.Future[C]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
