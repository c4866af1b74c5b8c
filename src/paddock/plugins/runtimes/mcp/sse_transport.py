"""The protocol's former HTTP transport: one stream for everything the server says, and an address to send to."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final
from urllib.parse import urljoin

from paddock.plugins.runtimes.mcp.http_answers import UNANSWERED, asked_during, peek
from paddock.plugins.runtimes.mcp.http_exchange import Exchanges
from paddock.plugins.runtimes.mcp.sse import EventSplitter, EventTooLarge, ServerEvent
from paddock.rpc.faults import RESOURCE_BUSY, PeerLost, RpcFault
from paddock.rpc.http_client import HttpClient, HttpLost, Response, TooLarge, split_url
from paddock.rpc.inbox import Inbox
from paddock.rpc.message import encode_failure
from paddock.rpc.stall import StallWatch
from paddock.rpc.transport import MAX_BACKLOG, STALLED_AFTER, Receiver

SEND_TIMEOUT: Final = 30.0  # seconds for a server to take a message


class SseTransport:
    """See `Transport`. The arguments are those of `HttpTransport`."""

    def __init__(
        self,
        http: HttpClient,
        target: str,
        headers: Mapping[str, str],
        receiver: Receiver,
        *,
        on_finished: Callable[[], None],
    ) -> None:
        self._http = http
        self._target = target
        self._headers = headers
        self._receiver = receiver
        self._on_finished = on_finished
        self._room = asyncio.Event()
        self._inbox = Inbox(receiver, self._room.clear, self._room.set)
        self._stall = StallWatch(STALLED_AFTER, lambda: self._size, receiver.stalled)
        self._waiting: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._size = 0
        self._empty = asyncio.Event()
        self._empty.set()
        self._where: asyncio.Future[Exchanges] = asyncio.get_running_loop().create_future()  # to send to
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: str | None = None

    @property
    def backlog(self) -> int:
        return self._size

    def start(self) -> None:
        self._inbox.start()
        self._begin(self._listen())
        self._begin(self._send_in_turn())

    def send(self, frame: bytes) -> None:
        if self._over is not None:
            raise PeerLost(self._over)
        if self._size > MAX_BACKLOG:
            raise RpcFault(RESOURCE_BUSY, f"{self._size} bytes wait to be sent, no more is accepted")
        self._waiting.append(frame)
        self._size += len(frame)
        self._stall.queued(len(frame))
        self._empty.clear()
        self._more.set()

    async def drained(self) -> None:
        await self._empty.wait()
        if self._over is not None:
            raise PeerLost(self._over)

    def finish(self) -> None:
        """The server sees it when the stream ends; there is no other goodbye."""
        if self._over is None:
            self._stop_sending("nothing more is sent")
            self._http.close()
            self._on_finished()

    def close(self) -> None:
        self._stop_sending("the connection was closed")
        self._inbox.stop()
        for task in self._tasks:
            task.cancel()
        self._http.close()

    async def wait_closed(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self) -> None:
        """Pass on what the server says, until its stream ends and everything with it."""
        try:
            async with Exchanges(self._http, self._target, self._headers).exchange("GET") as response:
                await self._take_all(response)
            self._lose("the server ended its stream")
        except (HttpLost, RpcFault) as lost:
            self._lose(str(lost))
        except (TooLarge, EventTooLarge) as error:
            self._receiver.violated("oversize_message", str(error))

    async def _take_all(self, response: Response) -> None:
        if response.status != 200 or response.content_type != "text/event-stream":
            raise HttpLost(f"the server answered with status {response.status} instead of a stream")
        events = EventSplitter()
        async for piece in response.pieces():
            for event in events.feed(piece):
                self._take(event)
            await self._room.wait()

    def _take(self, event: ServerEvent) -> None:
        if event.kind == "message":
            told = peek(event.data)
            asks = told is not None and "method" in told and "id" in told
            self._inbox.feed((asked_during(told, None) if told is not None and asks else event.data) + b"\n")
        elif event.kind == "endpoint" and not self._where.done():
            self._where.set_result(Exchanges(self._http, self._endpoint(event.data), self._headers))

    def _endpoint(self, data: bytes) -> str:
        """Where the server wants messages; nowhere but with itself."""
        origin = self._http.origin
        base = f"{origin.scheme}://{origin.authority}{self._target}"
        try:
            there, target = split_url(urljoin(base, data.decode("ascii").strip()))
        except ValueError:
            there, target = None, ""
        if there != origin:
            raise HttpLost("the server wants messages sent to another place, which was not consented to")
        return target

    async def _send_in_turn(self) -> None:
        where = await self._where
        while True:
            while not self._waiting:
                self._more.clear()
                await self._more.wait()
            frame = self._waiting[0]
            await self._send(where, frame)
            self._waiting.popleft()
            self._size -= len(frame)
            if not self._size:
                self._empty.set()

    async def _send(self, where: Exchanges, frame: bytes) -> None:
        message = peek(frame) or {}
        try:
            async with asyncio.timeout(SEND_TIMEOUT), where.exchange("POST", message, frame) as response:
                status = response.status
        except (HttpLost, TooLarge, RpcFault, TimeoutError) as error:
            return self._lose(str(error) or "the server did not take a message")
        if status >= 400 and "method" in message and "id" in message:
            told = f"the server answered with status {status}"
            self._inbox.feed(encode_failure(message["id"], RpcFault(UNANSWERED, told, {"http_status": status})))
        return None

    def _stop_sending(self, reason: str) -> None:
        if self._over is None:
            self._over = reason
            self._stall.stop()
            self._empty.set()

    def _lose(self, reason: str) -> None:
        self._stop_sending(reason)
        self._inbox.end(reason)
