"""What both ways to a server elsewhere have in common: how much waits to be sent, what is passed on, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from paddock.core.printable import printable
from paddock.plugins.runtimes.mcp.http_answers import asked_during, peek
from paddock.plugins.runtimes.mcp.sse import EventTooLarge
from paddock.rpc.faults import RESOURCE_BUSY, PeerLost, RpcFault
from paddock.rpc.http_client import HttpClient, HttpLost, TooLarge
from paddock.rpc.inbox import Inbox
from paddock.rpc.stall import StallWatch
from paddock.rpc.transport import MAX_BACKLOG, STALLED_AFTER, Receiver

_NEWLINES: Final = bytes.maketrans(b"\r\n", b"  ")


class RemoteTransport:
    """See `Transport`, of which `start`, `send` and `finish` are left to each way.

    Everything runs in tasks of its own, and none ends in silence: what one cannot deal with is the connection's end.

    Args:
        http: Connections to the server; closed with the transport.
        receiver: Who gets what arrives.
    """

    def __init__(self, http: HttpClient, receiver: Receiver) -> None:
        self._http = http
        self._receiver = receiver
        self._room = asyncio.Event()  # what arrives can be taken
        self._inbox = Inbox(receiver, self._room.clear, self._room.set)
        self._stall = StallWatch(STALLED_AFTER, lambda: self._size, receiver.stalled)
        self._size = 0  # bytes that the server has not taken yet
        self._empty = asyncio.Event()
        self._empty.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: str | None = None

    @property
    def backlog(self) -> int:
        return self._size

    def send_at_once(self, frame: bytes) -> bool:
        del frame
        return False

    async def drained(self) -> None:
        await self._empty.wait()
        if self._over is not None:
            raise PeerLost(self._over)

    def close(self) -> None:
        self._stop_sending("the connection was closed")
        self._inbox.stop()
        for task in self._tasks:
            task.cancel()
        self._http.close()

    async def wait_closed(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    # --- for each way -------------------------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._to_its_end(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _require_room(self) -> None:
        if self._over is not None:
            raise PeerLost(self._over)
        if self._size > MAX_BACKLOG:
            raise RpcFault(RESOURCE_BUSY, f"{self._size} bytes wait to be sent, no more is accepted")

    def _queued(self, size: int) -> Callable[[], None]:
        """Count a message as waiting, until what this returns is called for the first time."""
        self._size += size
        self._empty.clear()
        self._stall.queued(size)
        waiting = [size]

        def sent() -> None:
            if waiting:
                self._size -= waiting.pop()
                if not self._size:
                    self._empty.set()

        return sent

    def _pass_on(self, data: bytes, during: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Hand over a message, which may belong to a request of ours; what it says, as far as that can be told."""
        line = data.translate(_NEWLINES)
        told = peek(line)
        if told is not None and "method" in told and "id" in told:
            line = asked_during(line, told, during)
        self._inbox.feed(line + b"\n")
        return told

    def _stop_sending(self, reason: str) -> None:
        if self._over is None:
            self._over = reason
            self._stall.stop()
            self._empty.set()

    def _lose(self, reason: str) -> None:
        self._stop_sending(reason)
        self._inbox.end(reason)

    async def _to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (TooLarge, EventTooLarge) as error:
            self._receiver.violated("oversize_message", str(error))
        except (HttpLost, RpcFault) as lost:
            self._lose(str(lost))
        except Exception as error:  # whoever waits must learn that nothing will come, whatever went wrong
            self._lose(printable(f"the connection failed: {type(error).__name__}: {error}", 500))
