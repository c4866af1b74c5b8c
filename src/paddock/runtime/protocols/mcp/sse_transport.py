"""The former HTTP+SSE transport: one stream for all messages of the server, and a URL to post to."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urljoin

from paddock.net.http_client import ClientResponse, HttpClient, HttpConnectionLost, ResponseTooLarge, split_url
from paddock.rpc.errors import RpcError
from paddock.rpc.mcp.sse import SseEvent, SseParser
from paddock.rpc.message import encode_failure
from paddock.rpc.transport import Receiver
from paddock.runtime.protocols.mcp.http_exchange import McpHttpClient, decode_object, status_error
from paddock.runtime.protocols.mcp.remote_transport import RemoteTransport

SEND_TIMEOUT_S: Final = 30.0  # for a server to accept a message


class SseTransport(RemoteTransport):
    """See `Transport`. The arguments are those of `StreamableHttpTransport`."""

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
        # frames, each with its callback for when it was sent
        self._waiting: deque[tuple[bytes, Callable[[], None]]] = deque()
        self._queue_changed = asyncio.Event()
        # where to post messages
        self._endpoint_url: asyncio.Future[McpHttpClient] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        self._inbox.start()
        self._start_task(self._listen())
        self._start_task(self._send_queued())

    def send(self, frame: bytes) -> None:
        self._require_room()
        self._waiting.append((frame, self._count_queued(len(frame))))
        self._queue_changed.set()

    def finish(self) -> None:
        """Close the stream; the protocol has no other way to end a session."""
        if self._closed_reason is None:
            self._stop_sending("nothing more is sent")
            self._http.close()
            self._on_finished()

    async def _listen(self) -> None:
        """Deliver what the server sends until its stream ends, and the connection with it."""
        async with McpHttpClient(self._http, self._target, self._headers).send_request("GET") as response:
            await self._read_stream(response)
        self._fail("the server ended its stream")

    async def _read_stream(self, response: ClientResponse) -> None:
        if response.status != 200 or response.content_type != "text/event-stream":
            raise HttpConnectionLost(f"the server answered with status {response.status} instead of a stream")
        events = SseParser()
        async for chunk in response.iter_body():
            for event in events.feed(chunk):
                self._handle_event(event)
            await self._may_receive.wait()

    def _handle_event(self, event: SseEvent) -> None:
        if event.kind == "message":
            self._deliver(event.data)
        elif event.kind == "endpoint" and not self._endpoint_url.done():
            self._endpoint_url.set_result(McpHttpClient(self._http, self._resolve_endpoint(event.data), self._headers))

    def _resolve_endpoint(self, data: bytes) -> str:
        """Return the target that the server wants messages at; only its own origin is accepted."""
        origin = self._http.origin
        base = f"{origin.scheme}://{origin.authority}{self._target}"
        try:
            endpoint_origin, target = split_url(urljoin(base, data.decode("ascii").strip()))
        except ValueError:
            endpoint_origin, target = None, ""
        if endpoint_origin != origin:
            raise HttpConnectionLost("the server wants messages sent to another place, which was not consented to")
        return target

    async def _send_queued(self) -> None:
        client = await self._endpoint_url
        while True:
            while not self._waiting:
                self._queue_changed.clear()
                await self._queue_changed.wait()
            frame, mark_sent = self._waiting.popleft()
            await self._send(client, frame)
            mark_sent()

    async def _send(self, client: McpHttpClient, frame: bytes) -> None:
        message = decode_object(frame) or {}
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S), client.send_request("POST", message, frame) as response:
                status = response.status
        except (HttpConnectionLost, ResponseTooLarge, RpcError, TimeoutError) as error:
            return self._fail(str(error) or "the server did not take a message")
        if status >= 400 and "method" in message and "id" in message:
            self._inbox.feed(encode_failure(message["id"], status_error(status)))
        return None
