"""The answer to one POST: JSON where nothing is told before it, and otherwise a stream that ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, TypeAlias

from starlette.types import Receive, Send

from paddock.gateway.streams import HEARTBEAT, Stream

JSON: Final = b"application/json"
EVENTS: Final = b"text/event-stream"
UNWATCHED: Final = 0.25
"""Seconds of a request before anybody looks whether its client is still there: most are over sooner."""
LEFT_FOR: Final = 120.0
"""Seconds for a client to come back to a stream that it lost, before nobody wants the request any more."""

PROVEN_FOR: Final = 2.0
"""Seconds of a stream after which whoever is told something more has to be proven again."""

_EVENT_HEADERS: Final = ((b"content-type", EVENTS), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))

Header = tuple[bytes, bytes]
Still: TypeAlias = Callable[[], Awaitable[bool]]
"""Whether whoever opened a stream may still have it: a key is revoked, a token expires, somebody leaves."""


class _NotTheirs(Exception):
    """They may not."""


async def respond(send: Send, status: int, body: bytes = b"", headers: Iterable[Header] = ()) -> None:
    """A whole response; the body is JSON where there is one."""
    kind = ((b"content-type", JSON),) if body else ()
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*kind, length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def stream_out(
    send: Send,
    stream: Stream,
    still: Still,
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
        if time() - proven >= PROVEN_FOR:
            if not await still():
                raise _NotTheirs
            proven = time()
        await send({"type": "http.response.body", "body": event, "more_body": True})

    if first:
        await write(first)
    with suppress(_NotTheirs):
        await stream.read(write, after)
    await send({"type": "http.response.body", "body": b""})


async def hung_up(receive: Receive) -> None:
    """Wait until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def until_hung_up(receive: Receive, writing: Coroutine[Any, Any, None]) -> None:
    """Write a response until it ends or its client is gone."""
    written, gone = asyncio.ensure_future(writing), asyncio.ensure_future(hung_up(receive))
    try:
        await asyncio.wait({written, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (written, gone):
            task.cancel()
        await asyncio.wait({written, gone})
    if not written.cancelled():
        written.result()  # a fault of ours is told like any other


class Reply:
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
        still: Still,
        open_stream: Callable[[], Stream] = Stream,
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
        self._stream: Stream | None = None
        self._streaming: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._left: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._gone = False

    @property
    def tell(self) -> Callable[[bytes], None] | None:
        """Sends a message before the answer; None where the client takes nothing but that."""
        return self._tell if self._events else None

    def _tell(self, message: bytes) -> None:
        self._opened().put(message)

    def _opened(self) -> Stream:
        if self._stream is None:
            self._stream = self._open_stream()
            self._streaming = asyncio.ensure_future(
                stream_out(self._send, self._stream, self._still, None, self._headers)
            )
        return self._stream

    async def answer_with(self, work: Awaitable[bytes]) -> None:
        """Send what this gives, in whichever form. A client that hangs up ends the work, unless it can come back."""
        self._task = asyncio.current_task()
        # A timer costs next to nothing, and a task for each request would not.
        timer = asyncio.get_running_loop().call_later(UNWATCHED, self._watch)
        try:
            answer = await work
            if self._stream is None and self._json:
                await respond(self._send, self.status, answer, self._headers)
                return
            stream = self._opened()
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
            if self._left is not None:
                self._left.cancel()
            if self._stream is not None:
                self._stream.end()

    def _watch(self) -> None:
        self._watching = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        if self._events and self._stream is None:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await hung_up(self._receive)
            except TimeoutError:
                self._opened()  # so that signs of life keep the connection open
                await hung_up(self._receive)
        else:
            await hung_up(self._receive)
        stream = self._stream
        if stream is not None and stream.name:
            if self._streaming is not None:
                self._streaming.cancel()
                self._streaming = None
            self._left = asyncio.get_running_loop().call_later(LEFT_FOR, self._give_up)
        else:
            self._end()

    def _give_up(self) -> None:
        if self._stream is not None and self._stream.followed:  # who came back may be lost once more
            self._left = asyncio.get_running_loop().call_later(LEFT_FOR, self._give_up)
        else:
            self._end()

    def _end(self) -> None:
        self._gone = True
        if self._task is not None:
            self._task.cancel()
