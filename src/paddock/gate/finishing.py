"""Work that has to come to its end, whoever stops waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """What comes of this. Whoever is cancelled while it goes on is so once it has ended, whatever came of it.

    For what is short and bounded: units of work, of which nobody who left early could say whether they were committed.
    """
    task = asyncio.ensure_future(work)
    gone: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as cancelled:
            gone = cancelled
    if gone is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # nobody is there to hear of it
    raise gone
