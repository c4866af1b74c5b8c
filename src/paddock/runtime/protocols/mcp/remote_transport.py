"""The base of both transports to remote servers: send backlog, delivery and close."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from paddock.core.printable import printable
from paddock.net.http_client import HttpClient, HttpConnectionLost, ResponseTooLarge
from paddock.rpc.errors import RESOURCE_BUSY, PeerLost, RpcError
from paddock.rpc.inbox import Inbox
from paddock.rpc.mcp.sse import SseEventTooLarge
from paddock.rpc.transport import MAX_BACKLOG_BYTES, STALL_TIMEOUT_S, Receiver, StallDetector
from paddock.runtime.protocols.mcp.http_exchange import decode_object, with_related_request

_NEWLINES: Final = bytes.maketrans(b"\r\n", b"  ")


class RemoteTransport:
    """See `Transport`, of which subclasses implement `start`, `send` and `finish`.

    Everything runs in tasks of its own, and none fails silently: an unexpected error closes the connection.

    Args:
        http: Connections to the server; closed with the transport.
        receiver: Gets what arrives.
    """

    def __init__(self, http: HttpClient, receiver: Receiver) -> None:
        self._http = http
        self._receiver = receiver
        self._may_receive = asyncio.Event()  # set while the receiver accepts more
        self._inbox = Inbox(receiver, self._may_receive.clear, self._may_receive.set)
        self._stall = StallDetector(STALL_TIMEOUT_S, lambda: self._backlog_bytes, receiver.stalled)
        self._backlog_bytes = 0  # bytes that the server has not accepted yet
        self._empty = asyncio.Event()
        self._empty.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed_reason: str | None = None

    @property
    def backlog(self) -> int:
        return self._backlog_bytes

    def send_at_once(self, frame: bytes) -> bool:
        del frame
        return False

    async def drained(self) -> None:
        await self._empty.wait()
        if self._closed_reason is not None:
            raise PeerLost(self._closed_reason)

    def close(self) -> None:
        self._stop_sending("the connection was closed")
        self._inbox.stop()
        for task in self._tasks:
            task.cancel()
        self._http.close()

    async def wait_closed(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    # --- for subclasses -----------------------------------------------------------------------------------------------

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._run_task(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _require_room(self) -> None:
        if self._closed_reason is not None:
            raise PeerLost(self._closed_reason)
        if self._backlog_bytes > MAX_BACKLOG_BYTES:
            raise RpcError(RESOURCE_BUSY, f"{self._backlog_bytes} bytes wait to be sent, no more is accepted")

    def _count_queued(self, size: int) -> Callable[[], None]:
        """Count a message as queued until the returned function is called for the first time."""
        self._backlog_bytes += size
        self._empty.clear()
        self._stall.queued(size)
        waiting = [size]

        def mark_sent() -> None:
            if waiting:
                self._backlog_bytes -= waiting.pop()
                if not self._backlog_bytes:
                    self._empty.set()

        return mark_sent

    def _deliver(self, data: bytes, during: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Deliver a message, which may belong to the request `during`; return it decoded, if it can be."""
        line = data.translate(_NEWLINES)
        message = decode_object(line)
        if message is not None and "method" in message and "id" in message:
            line = with_related_request(line, message, during)
        self._inbox.feed(line + b"\n")
        return message

    def _stop_sending(self, reason: str) -> None:
        if self._closed_reason is None:
            self._closed_reason = reason
            self._stall.stop()
            self._empty.set()

    def _fail(self, reason: str) -> None:
        self._stop_sending(reason)
        self._inbox.end(reason)

    async def _run_task(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (ResponseTooLarge, SseEventTooLarge) as error:
            self._receiver.violated("oversize_message", str(error))
        except (HttpConnectionLost, RpcError) as lost:
            self._fail(str(lost))
        except Exception as error:  # the peer must learn that nothing will come, whatever went wrong
            self._fail(printable(f"the connection failed: {type(error).__name__}: {error}", 500))
