"""Server-sent events: something that goes on, told to one client for as long as both sides want."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol, cast

import anyio
import orjson
from starlette.requests import Request
from starlette.responses import StreamingResponse

HEARTBEAT_S = 15.0  # seconds of silence before a comment shows that both ends are alive
REVALIDATE_INTERVAL_S = 2.0  # seconds after which whoever is told something more has to be proven again
FINAL_EVENT_TIMEOUT_S = 2.0  # seconds for a call that was cancelled to end, once the daemon closes
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class Encodable(Protocol):
    """What a client is sent, whole: one event or several."""

    def encode(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event for a client. With an id, a client that lost the connection can go on after it."""

    data: Mapping[str, Any]
    event: str = "message"
    id: int | None = None

    def encode(self) -> bytes:
        number = b"id: %d\n" % self.id if self.id is not None else b""
        return b"%sevent: %s\ndata: %s\n\n" % (number, self.event.encode(), orjson.dumps(self.data, default=str))


def event_stream(
    events: AsyncGenerator[Encodable, None],
    closing: asyncio.Event,
    *,
    last_words: float = 0,
    where: str | None = None,
) -> StreamingResponse:
    """The response that tells these events until they end, the client goes, or the daemon closes.

    Args:
        events: What to tell.
        closing: Set when the daemon closes.
        last_words: Seconds that each further event may take then, where the last one matters.
        where: The address of what they are about, for a client that made it just now.
    """
    headers = _HEADERS | ({} if where is None else {"content-location": where})
    return StreamingResponse(
        _encode_stream(events, closing, last_words), headers=headers, media_type="text/event-stream"
    )


async def _encode_stream(
    events: AsyncGenerator[Encodable, None], closing: asyncio.Event, last_words: float
) -> AsyncGenerator[bytes, None]:
    yield b": open\n\n"  # the client sees at once that it is connected
    closed = asyncio.ensure_future(closing.wait())
    following: asyncio.Future[Encodable | None] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(anext(events, None))
            await asyncio.wait({following, closed}, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
            if closed.done():
                if not last_words:
                    return
                await asyncio.wait({following}, timeout=last_words)
            if following.done():
                told, following = following.result(), None
                if told is None:
                    return
                yield told.encode()
            elif closed.done():
                return
            else:
                yield b": alive\n\n"
    finally:
        closed.cancel()
        if following is not None and not following.done():
            following.cancel()  # whatever the events wait for ends, and they with it
        else:
            with anyio.CancelScope(shield=True):
                await events.aclose()


async def revalidate_stream(
    lines: AsyncIterable[bytes], still: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes, None]:
    """The same lines for as long as their client may have them.

    A stream outlives what opened it: a key that is revoked, a session that ends, a role that is taken away.

    Args:
        lines: What it is told.
        still: Whether it may be told more.
    """
    loop = asyncio.get_running_loop()
    proven = loop.time()
    async with aclosing(cast("AsyncGenerator[bytes, None]", lines)) as told:
        async for line in told:
            if loop.time() - proven >= REVALIDATE_INTERVAL_S:
                if not await still():
                    return
                proven = loop.time()
            yield line


def last_event_id(request: Request) -> int:
    """After which event a client wants to go on: what its `Last-Event-ID` says, or from the start."""
    return int(request.headers.get("last-event-id") or 0)
