"""The tasks of calls: they come thousands a second, and end with the host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Protocol

import anyio


class Ends(Protocol):
    """A call that can be ended."""

    def cancel(self) -> None:
        """Ask for its end."""
        ...

    async def over(self) -> None:
        """Wait for its end."""
        ...


class CallTasks:
    """Runs them. To begin a task in a group of anyio's takes seven times as long as to begin one alone."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[None]] = set()
        self._lent: set[Ends] = set()

    def start_soon(self, work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Begin one more."""
        task = asyncio.create_task(work(*args))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    @contextmanager
    def lent(self, call: Ends) -> Generator[None, None, None]:
        """While the block runs, a call is made in somebody else's task; it ends with the host like all others."""
        self._lent.add(call)
        try:
            yield
        finally:
            self._lent.discard(call)

    async def keep(self) -> None:
        """Own them, in the group that ends with the host: what is under way then is cancelled and waited for."""
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await self._end()

    async def _end(self) -> None:
        for call in tuple(self._lent):
            call.cancel()
            await call.over()
        while self._under_way:  # the end of one may begin another
            for task in self._under_way:
                task.cancel()
            await asyncio.wait(self._under_way)
