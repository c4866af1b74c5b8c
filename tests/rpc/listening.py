"""An owner of a peer that writes down what it hears and lets a test wait for it, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from paddock.rpc.peer import InboundRequest

PATIENCE = 20.0
"""Seconds after which something that should have happened has not."""

Serve = Callable[[str, dict[str, Any]], Awaitable[Any]]


async def echo(method: str, params: dict[str, Any]) -> Any:
    return {"method": method, "params": params}


class Owner:
    """Serves with a function, echo unless told otherwise, and remembers the rest."""

    def __init__(self, serve: Serve = echo) -> None:
        self._serve = serve
        self._changed = asyncio.Event()
        self.notifications: list[tuple[str, dict[str, Any]]] = []
        self.noises: list[bytes] = []
        self.violations: list[str] = []
        self.stalls = 0
        self.losses: list[str] = []

    async def serve(self, method: str, params: dict[str, Any], asked: InboundRequest) -> Any:
        self.asked = asked
        return await self._serve(method, params)

    def notified(self, method: str, params: dict[str, Any]) -> None:
        self.notifications.append((method, params))
        self._changed.set()

    def noise(self, line: bytes) -> None:
        self.noises.append(line)
        self._changed.set()

    def violated(self, kind: str, detail: str) -> None:
        assert detail
        self.violations.append(kind)
        self._changed.set()

    def stalled(self) -> None:
        self.stalls += 1
        self._changed.set()

    def lost(self, reason: str) -> None:
        assert reason
        self.losses.append(reason)
        self._changed.set()

    async def until(self, happened: Callable[[], object]) -> None:
        """Wait until something heard makes this true."""
        async with asyncio.timeout(PATIENCE):
            while not happened():
                self._changed.clear()
                await self._changed.wait()
