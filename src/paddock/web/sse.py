"""Server-sent events: streams that end with their events, their client, the client's access, or the daemon."""

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

HEARTBEAT_S = 15.0  # silence after which a keep-alive comment is sent
REVALIDATE_INTERVAL_S = 2.0  # how often a stream's caller is authenticated again
FINAL_EVENT_TIMEOUT_S = 2.0  # for a cancelled call to end, once the daemon closes
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class Encodable(Protocol):
    """One or several complete events, ready to send."""

    def encode(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event. With an id, a client that lost its connection can resume after it."""

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
    final_timeout_s: float = 0,
    content_location: str | None = None,
) -> StreamingResponse:
    """Build the response that streams events until they end, the client leaves, or the daemon closes.

    Args:
        events: The events.
        closing: Set when the daemon closes.
        final_timeout_s: Time that each further event may take then, for streams whose last event matters.
        content_location: URL of the resource that the client has just created.
    """
    headers = _HEADERS | ({} if content_location is None else {"content-location": content_location})
    return StreamingResponse(
        _encode_stream(events, closing, final_timeout_s), headers=headers, media_type="text/event-stream"
    )


async def _encode_stream(
    events: AsyncGenerator[Encodable, None], closing: asyncio.Event, final_timeout_s: float
) -> AsyncGenerator[bytes, None]:
    yield b": open\n\n"  # the client sees at once that it is connected
    closed = asyncio.ensure_future(closing.wait())
    next_event: asyncio.Future[Encodable | None] | None = None
    try:
        while True:
            next_event = next_event or asyncio.ensure_future(anext(events, None))
            await asyncio.wait({next_event, closed}, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
            if closed.done():
                if not final_timeout_s:
                    return
                await asyncio.wait({next_event}, timeout=final_timeout_s)
            if next_event.done():
                event, next_event = next_event.result(), None
                if event is None:
                    return
                yield event.encode()
            elif closed.done():
                return
            else:
                yield b": alive\n\n"
    finally:
        closed.cancel()
        if next_event is not None and not next_event.done():
            next_event.cancel()  # cancels what the generator awaits, and so the generator
        else:
            with anyio.CancelScope(shield=True):
                await events.aclose()


async def revalidate_stream(
    lines: AsyncIterable[bytes], still_allowed: Callable[[], Awaitable[bool]], rights_revision: Callable[[], int]
) -> AsyncGenerator[bytes, None]:
    """Yield lines while the client keeps its access.

    A stream outlives the check that opened it: a key may be revoked, a session may end, a role may be taken away.

    Args:
        lines: The stream.
        still_allowed: Checks the access again.
        rights_revision: Changes with each change of rights on this host. Those of other hosts are seen within
            `REVALIDATE_INTERVAL_S`.
    """
    loop = asyncio.get_running_loop()
    checked_at, checked_revision = 0.0, -1
    async with aclosing(cast("AsyncGenerator[bytes, None]", lines)) as open_lines:
        async for line in open_lines:
            if rights_revision() != checked_revision or loop.time() - checked_at >= REVALIDATE_INTERVAL_S:
                checked_at, checked_revision = loop.time(), rights_revision()
                if not await still_allowed():
                    return
            yield line


def last_event_id(request: Request) -> int:
    """Return the id in `Last-Event-ID`, after which the client resumes; 0 for the start."""
    return int(request.headers.get("last-event-id") or 0)
