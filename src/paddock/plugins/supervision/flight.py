"""One call under way to a plugin: who waits for it, until when, and what is told about it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from paddock.core.call import CallContext
from paddock.rpc.peer import Pending

LONGEST = 900.0
"""Seconds that no call outlives, however much progress it tells about."""

OnEvent: TypeAlias = Callable[[Mapping[str, Any]], None]


class Flight:
    """A request that was sent and not yet answered.

    Its timer measures idleness: every event that the plugin sends for the call winds it up again.
    """

    __slots__ = ("_end", "_expire", "_loop", "_timer", "context", "effect", "idle", "on_event", "pending")

    def __init__(
        self,
        pending: Pending,
        context: CallContext,
        *,
        idle: float,
        effect: bool,
        on_event: OnEvent | None,
        expire: Callable[[Flight], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.pending = pending
        self.context = context
        self.idle = idle
        self.effect = effect
        self.on_event = on_event
        self._expire = expire
        self._loop = loop
        self._end = loop.time() + LONGEST
        self._timer = loop.call_later(idle, expire, self)

    def progressed(self, event: Mapping[str, Any]) -> None:
        """The plugin said something about this call."""
        self._timer.cancel()
        self._timer = self._loop.call_at(min(self._loop.time() + self.idle, self._end), self._expire, self)
        if self.on_event is not None:
            self.on_event(event)

    def landed(self) -> None:
        """Nobody waits any more."""
        self._timer.cancel()
