"""The requests of one client that are under way, by the ids that it gave them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from paddock.mcp_server.results import encode_fault, encode_result
from paddock.rpc.errors import INVALID_REQUEST, RESOURCE_BUSY, RpcError
from paddock.rpc.message import MessageId

MAX_IN_FLIGHT: Final = 256


class InFlightRequests:
    """Requests that wait for their answers. 1 and "1" are two of them."""

    def __init__(self) -> None:
        self._tasks: dict[MessageId, asyncio.Task[Any]] = {}
        self._cancelled: set[asyncio.Task[Any]] = set()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def rejection(self, number: MessageId) -> bytes | None:
        """The answer to a request that cannot be taken; None where it can."""
        if number in self._tasks:
            return encode_fault(number, RpcError(INVALID_REQUEST, "a request with this id is under way already"))
        if len(self._tasks) >= MAX_IN_FLIGHT:
            return encode_fault(number, RpcError(RESOURCE_BUSY, f"{MAX_IN_FLIGHT} requests are under way already"))
        return None

    async def run(self, number: MessageId, work: Awaitable[bytes]) -> bytes:
        """The answer to a request that is not refused, as a message; empty where the client does not want it any more.

        What it is worked on in is the task of this one request, which is cancelled then.
        """
        task = asyncio.current_task()
        assert task is not None
        self._tasks[number] = task
        try:
            return encode_result(number, await work)
        except RpcError as fault:
            return encode_fault(number, fault)
        except asyncio.CancelledError:
            if task not in self._cancelled:
                raise
            task.uncancel()
            return b""
        finally:
            del self._tasks[number]
            self._cancelled.discard(task)

    def cancel(self, number: Any) -> None:
        """The client does not want this request any more. Harmless where it is over."""
        task = self._tasks.get(number) if type(number) in (int, str) else None
        if task is not None and task not in self._cancelled:
            self._cancelled.add(task)
            task.cancel()

    def close(self) -> None:
        """Nobody wants any of them."""
        for number in tuple(self._tasks):
            self.cancel(number)
