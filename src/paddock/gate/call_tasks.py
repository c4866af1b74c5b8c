"""The tasks of calls: they come thousands a second, and end with the host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio


class CallTasks:
    """Runs them. To begin a task in a group of anyio's takes seven times as long as to begin one alone."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[None]] = set()

    def start_soon(self, work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Begin one more."""
        task = asyncio.create_task(work(*args))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def keep(self) -> None:
        """Own them, in the group that ends with the host: what is under way then is cancelled and waited for."""
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await self._end()

    async def _end(self) -> None:
        while self._under_way:  # the end of one may begin another
            for task in self._under_way:
                task.cancel()
            await asyncio.wait(self._under_way)
