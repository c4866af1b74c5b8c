"""The answer to one POST: JSON where nothing is told before it, and otherwise a stream that ends with it."""

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
"""Seconds of a request before anybody looks whether its client is still there: most are over sooner."""
RECONNECT_TIMEOUT_S: Final = 120.0
"""Seconds for a client to come back to a stream that it lost, before nobody wants the request any more."""

REVALIDATE_AFTER_S: Final = 2.0
"""Seconds of a stream after which whoever is told something more has to be proven again."""

_EVENT_HEADERS: Final = (
    (b"content-type", SSE_MEDIA_TYPE),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)

Header = tuple[bytes, bytes]
RevalidateCaller: TypeAlias = Callable[[], Awaitable[bool]]
"""Whether whoever opened a stream may still have it: a key is revoked, a token expires, somebody leaves."""


class _NoLongerAllowed(Exception):
    """They may not."""


async def send_response(send: Send, status: int, body: bytes = b"", headers: Iterable[Header] = ()) -> None:
    """A whole response; the body is JSON where there is one."""
    kind = ((b"content-type", JSON_MEDIA_TYPE),) if body else ()
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*kind, length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def send_stream(
    send: Send,
    stream: EventStream,
    still: RevalidateCaller,
    after: int | None = None,
    headers: Iterable[Header] = (),
    *,
    first: bytes = b"",
) -> None:
    """A response that is a stream, from its beginning or from behind an event to its end; `first` comes before it.

    It ends sooner where its client may not have it any more: that is looked at before it is told something, or after a
    while of silence.
    """
    time = asyncio.get_running_loop().time
    proven = time()
    await send({"type": "http.response.start", "status": 200, "headers": [*_EVENT_HEADERS, *headers]})

    async def write(event: bytes) -> None:
        nonlocal proven
        if time() - proven >= REVALIDATE_AFTER_S:
            if not await still():
                raise _NoLongerAllowed
            proven = time()
        await send({"type": "http.response.body", "body": event, "more_body": True})

    if first:
        await write(first)
    with suppress(_NoLongerAllowed):
        await stream.read(write, after)
    await send({"type": "http.response.body", "body": b""})


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def run_until_disconnect(receive: Receive, writing: Coroutine[Any, Any, None]) -> None:
    """Write a response until it ends or its client is gone."""
    written, gone = asyncio.ensure_future(writing), asyncio.ensure_future(wait_for_disconnect(receive))
    try:
        await asyncio.wait({written, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (written, gone):
            task.cancel()
        await asyncio.wait({written, gone})
    if not written.cancelled():
        written.result()  # a fault of ours is told like any other


class PostReply:
    """Answers one POST.

    Args:
        receive, send: The request's.
        json: Whether the client takes JSON.
        events: Whether it takes a stream.
        still: Whether it may go on having that.
        open_stream: Makes the stream.
        headers: Beside those of the kind of answer.

    Attributes:
        status: Of an answer that is JSON.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        *,
        json: bool,
        events: bool,
        still: RevalidateCaller,
        open_stream: Callable[[], EventStream] = EventStream,
        headers: Iterable[Header] = (),
    ) -> None:
        self._receive = receive
        self._send = send
        self._json = json
        self._events = events
        self._still = still
        self._open_stream = open_stream
        self._headers = headers
        self.status = 200
        self._stream: EventStream | None = None
        self._streaming: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._reconnect_timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._gone = False

    @property
    def send_message(self) -> Callable[[bytes], None] | None:
        """Sends a message before the answer; None where the client takes nothing but that."""
        return self._put_message if self._events else None

    def _put_message(self, message: bytes) -> None:
        self._ensure_stream().put(message)

    def _ensure_stream(self) -> EventStream:
        if self._stream is None:
            self._stream = self._open_stream()
            self._streaming = asyncio.ensure_future(
                send_stream(self._send, self._stream, self._still, None, self._headers)
            )
        return self._stream

    async def reply_with(self, work: Awaitable[bytes]) -> None:
        """Send what this gives, in whichever form. A client that hangs up ends the work, unless it can come back."""
        self._task = asyncio.current_task()
        # A timer costs next to nothing, and a task for each request would not.
        timer = asyncio.get_running_loop().call_later(WATCH_DELAY_S, self._start_watch)
        try:
            answer = await work
            if self._stream is None and self._json:
                await send_response(self._send, self.status, answer, self._headers)
                return
            stream = self._ensure_stream()
            stream.put(answer)
            stream.end()
            if self._streaming is not None:
                await self._streaming
        except asyncio.CancelledError:
            if not self._gone or self._task is None:
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
                self._ensure_stream()  # so that signs of life keep the connection open
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
        if self._stream is not None and self._stream.has_reader:  # who came back may be lost once more
            self._reconnect_timer = asyncio.get_running_loop().call_later(RECONNECT_TIMEOUT_S, self._expire)
        else:
            self._cancel()

    def _cancel(self) -> None:
        self._gone = True
        if self._task is not None:
            self._task.cancel()
