"""The in-flight requests of one client, by request id."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from paddock.mcp_server.results import encode_fault, encode_result
from paddock.rpc.errors import INVALID_REQUEST, RESOURCE_BUSY, RpcError
from paddock.rpc.message import MessageId

MAX_IN_FLIGHT: Final = 256


class InFlightRequests:
    """Requests in progress. The ids 1 and "1" are distinct."""

    def __init__(self) -> None:
        self._tasks: dict[MessageId, asyncio.Task[Any]] = {}
        self._cancelled: set[asyncio.Task[Any]] = set()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def rejection(self, request_id: MessageId) -> bytes | None:
        """Return the error response to a request that cannot be accepted; None if it can."""
        if request_id in self._tasks:
            return encode_fault(request_id, RpcError(INVALID_REQUEST, "a request with this id is under way already"))
        if len(self._tasks) >= MAX_IN_FLIGHT:
            return encode_fault(request_id, RpcError(RESOURCE_BUSY, f"{MAX_IN_FLIGHT} requests are under way already"))
        return None

    async def run(self, request_id: MessageId, work: Awaitable[bytes]) -> bytes:
        """Run a request and return the encoded response; empty if the client cancelled it.

        Runs in the task of this one request, which a cancellation cancels.
        """
        task = asyncio.current_task()
        assert task is not None
        self._tasks[request_id] = task
        try:
            return encode_result(request_id, await work)
        except RpcError as fault:
            return encode_fault(request_id, fault)
        except asyncio.CancelledError:
            if task not in self._cancelled:
                raise
            task.uncancel()
            return b""
        finally:
            del self._tasks[request_id]
            self._cancelled.discard(task)

    def cancel(self, request_id: Any) -> None:
        """Cancel a request for the client. No effect if it is done."""
        task = self._tasks.get(request_id) if type(request_id) in (int, str) else None
        if task is not None and task not in self._cancelled:
            self._cancelled.add(task)
            task.cancel()

    def close(self) -> None:
        """Cancel all requests."""
        for request_id in tuple(self._tasks):
            self.cancel(request_id)
