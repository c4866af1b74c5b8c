"""The protocol's former HTTP transport: one stream for everything the server says, and an address to send to."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urljoin

from paddock.plugins.runtimes.mcp.http_answers import peek, refused_with
from paddock.plugins.runtimes.mcp.http_exchange import Exchanges
from paddock.plugins.runtimes.mcp.remote_transport import RemoteTransport
from paddock.plugins.runtimes.mcp.sse import EventSplitter, ServerEvent
from paddock.rpc.faults import RpcFault
from paddock.rpc.http_client import HttpClient, HttpLost, Response, TooLarge, split_url
from paddock.rpc.message import encode_failure
from paddock.rpc.transport import Receiver

SEND_TIMEOUT: Final = 30.0  # seconds for a server to take a message


class SseTransport(RemoteTransport):
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
        super().__init__(http, receiver)
        self._target = target
        self._headers = headers
        self._on_finished = on_finished
        self._waiting: deque[tuple[bytes, Callable[[], None]]] = deque()  # each with whom to tell that it was sent
        self._more = asyncio.Event()
        self._where: asyncio.Future[Exchanges] = asyncio.get_running_loop().create_future()  # to send to

    def start(self) -> None:
        self._inbox.start()
        self._begin(self._listen())
        self._begin(self._send_in_turn())

    def send(self, frame: bytes) -> None:
        self._require_room()
        self._waiting.append((frame, self._queued(len(frame))))
        self._more.set()

    def finish(self) -> None:
        """The server sees it when the stream ends; there is no other goodbye."""
        if self._over is None:
            self._stop_sending("nothing more is sent")
            self._http.close()
            self._on_finished()

    async def _listen(self) -> None:
        """Pass on what the server says, until its stream ends and everything with it."""
        async with Exchanges(self._http, self._target, self._headers).exchange("GET") as response:
            await self._take_all(response)
        self._lose("the server ended its stream")

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
            self._pass_on(event.data)
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
            frame, sent = self._waiting.popleft()
            await self._send(where, frame)
            sent()

    async def _send(self, where: Exchanges, frame: bytes) -> None:
        message = peek(frame) or {}
        try:
            async with asyncio.timeout(SEND_TIMEOUT), where.exchange("POST", message, frame) as response:
                status = response.status
        except (HttpLost, TooLarge, RpcFault, TimeoutError) as error:
            return self._lose(str(error) or "the server did not take a message")
        if status >= 400 and "method" in message and "id" in message:
            self._inbox.feed(encode_failure(message["id"], refused_with(status)))
        return None
