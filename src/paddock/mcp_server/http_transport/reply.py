"""The response to one POST: JSON if nothing precedes the result, else an event stream that ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, TypeAlias

from starlette.types import Receive, Send

from paddock.mcp_server.http_transport.event_streams import HEARTBEAT_S, EventStream

JSON_MEDIA_TYPE: Final = b"application/json"
SSE_MEDIA_TYPE: Final = b"text/event-stream"
WATCH_DELAY_S: Final = 0.25
"""Duration of a request after which its client's connection is watched: most requests are done sooner."""
RECONNECT_TIMEOUT_S: Final = 120.0
"""Time for a client to resume a lost stream, before its request is cancelled."""

REVALIDATE_AFTER_S: Final = 2.0
"""Age of a stream after which its caller is authenticated again before further events."""

_EVENT_HEADERS: Final = (
    (b"content-type", SSE_MEDIA_TYPE),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)

Header = tuple[bytes, bytes]
RevalidateCaller: TypeAlias = Callable[[], Awaitable[bool]]
"""Whether the caller of a stream is still authenticated: keys are revoked, tokens expire, people leave."""


class _NoLongerAllowed(Exception):
    """The caller of a stream has lost access."""


async def send_response(send: Send, status: int, body: bytes = b"", headers: Iterable[Header] = ()) -> None:
    """Send a complete response; the body, if any, is JSON."""
    content_type = ((b"content-type", JSON_MEDIA_TYPE),) if body else ()
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*content_type, length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def send_stream(
    send: Send,
    stream: EventStream,
    revalidate: RevalidateCaller,
    after: int | None = None,
    headers: Iterable[Header] = (),
    *,
    first: bytes = b"",
) -> None:
    """Send a stream as the response, from its start or after an event; `first` is sent before it.

    It ends early if the client loses access, which is checked before events are sent, or after a while of silence.
    """
    time = asyncio.get_running_loop().time
    checked_at = time()
    await send({"type": "http.response.start", "status": 200, "headers": [*_EVENT_HEADERS, *headers]})

    async def write(event: bytes) -> None:
        nonlocal checked_at
        if time() - checked_at >= REVALIDATE_AFTER_S:
            if not await revalidate():
                raise _NoLongerAllowed
            checked_at = time()
        await send({"type": "http.response.body", "body": event, "more_body": True})

    if first:
        await write(first)
    with suppress(_NoLongerAllowed):
        await stream.read(write, after)
    await send({"type": "http.response.body", "body": b""})


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def run_until_disconnect(receive: Receive, response: Coroutine[Any, Any, None]) -> None:
    """Run a response until it ends or its client disconnects."""
    response_task, disconnect_task = (
        asyncio.ensure_future(response),
        asyncio.ensure_future(wait_for_disconnect(receive)),
    )
    try:
        await asyncio.wait({response_task, disconnect_task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (response_task, disconnect_task):
            task.cancel()
        await asyncio.wait({response_task, disconnect_task})
    if not response_task.cancelled():
        response_task.result()  # raises our own errors


class PostReply:
    """Sends the response to one POST.

    Args:
        receive, send: Of the request.
        json: Whether the client accepts JSON.
        events: Whether it accepts an event stream.
        revalidate: Checks whether its caller still has access.
        open_stream: Creates the stream.
        headers: Additional headers.

    Attributes:
        status: Status of a JSON response.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        *,
        json: bool,
        events: bool,
        revalidate: RevalidateCaller,
        open_stream: Callable[[], EventStream] = EventStream,
        headers: Iterable[Header] = (),
    ) -> None:
        self._receive = receive
        self._send = send
        self._json = json
        self._events = events
        self._revalidate = revalidate
        self._open_stream = open_stream
        self._headers = headers
        self.status = 200
        self._stream: EventStream | None = None
        self._streaming: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._reconnect_timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._client_lost = False

    @property
    def send_message(self) -> Callable[[bytes], None] | None:
        """Sends a message before the result; None if the client accepts no stream."""
        return self._put_message if self._events else None

    def _put_message(self, message: bytes) -> None:
        self._ensure_stream().put(message)

    def _ensure_stream(self) -> EventStream:
        if self._stream is None:
            self._stream = self._open_stream()
            self._streaming = asyncio.ensure_future(
                send_stream(self._send, self._stream, self._revalidate, None, self._headers)
            )
        return self._stream

    async def reply_with(self, work: Awaitable[bytes]) -> None:
        """Send the result of `work`. A client that disconnects cancels it, unless it can resume."""
        self._task = asyncio.current_task()
        # A timer is nearly free; a task per request would not be.
        timer = asyncio.get_running_loop().call_later(WATCH_DELAY_S, self._start_watch)
        try:
            response = await work
            if self._stream is None and self._json:
                await send_response(self._send, self.status, response, self._headers)
                return
            stream = self._ensure_stream()
            stream.put(response)
            stream.end()
            if self._streaming is not None:
                await self._streaming
        except asyncio.CancelledError:
            if not self._client_lost or self._task is None:
                raise
            self._task.uncancel()
        finally:
            timer.cancel()
            for task in (self._watching, self._streaming):
                if task is not None and not task.done():
                    task.cancel()
            if self._reconnect_timer is not None:
                self._reconnect_timer.cancel()
            if self._stream is not None:
                self._stream.end()

    def _start_watch(self) -> None:
        self._watching = asyncio.ensure_future(self._watch_disconnect())

    async def _watch_disconnect(self) -> None:
        if self._events and self._stream is None:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await wait_for_disconnect(self._receive)
            except TimeoutError:
                self._ensure_stream()  # keep-alive comments then keep the connection open
                await wait_for_disconnect(self._receive)
        else:
            await wait_for_disconnect(self._receive)
        stream = self._stream
        if stream is not None and stream.name:
            if self._streaming is not None:
                self._streaming.cancel()
                self._streaming = None
            self._reconnect_timer = asyncio.get_running_loop().call_later(RECONNECT_TIMEOUT_S, self._expire)
        else:
            self._cancel()

    def _expire(self) -> None:
        if self._stream is not None and self._stream.has_reader:  # a client that resumed may be lost again
            self._reconnect_timer = asyncio.get_running_loop().call_later(RECONNECT_TIMEOUT_S, self._expire)
        else:
            self._cancel()

    def _cancel(self) -> None:
        self._client_lost = True
        if self._task is not None:
            self._task.cancel()
