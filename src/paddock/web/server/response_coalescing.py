"""Writes complete responses with one system call."""

from __future__ import annotations

import re
from typing import cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

_CONTROL_BYTES = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BODYLESS_STATUSES = (204, 304)
_CONNECTION_HEADERS = frozenset({b"connection", b"transfer-encoding"})


class ResponseCoalescer:
    """Runs the application for one request and writes its response.

    uvicorn writes head and body separately, each a system call that wakes the client, and checks every header by
    itself, which takes longer than all the rest. A response whose whole body follows its head at once is written here;
    streams are left to uvicorn.
    """

    __slots__ = ("_app", "_cycle", "_start")

    def __init__(self, app: ASGIApp, cycle: RequestResponseCycle) -> None:
        self._app = app
        self._cycle = cycle
        self._start: Message | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del send  # the cycle's own `send` is used instead
        await self._app(scope, receive, self._send)

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _has_content_length(message):
            self._start = message  # its body follows at once, unlike a stream's
            return
        start, self._start = self._start, None
        if start is not None:
            if not message.get("more_body") and self._write_whole(start, message.get("body", b"")):
                return
            await self._cycle.send(cast("object", start))  # pyright: ignore[reportArgumentType]  # the same, untyped
        await self._cycle.send(cast("object", message))  # pyright: ignore[reportArgumentType]

    def _write_whole(self, start: Message, body: bytes) -> bool:
        """Write a complete response; return False for anything unusual, which uvicorn then handles."""
        cycle, status = self._cycle, start["status"]
        if cycle.flow.write_paused or cycle.disconnected or not cycle.keep_alive or status in _BODYLESS_STATUSES:
            return False
        headers = [*cycle.default_headers, *start["headers"]]
        names = [name for name, _ in headers]
        if (
            names.count(b"content-length") != 1
            or not _CONNECTION_HEADERS.isdisjoint(names)
            or cycle.scope["method"] == "HEAD"
        ):
            return False
        if (b"content-length", b"%d" % len(body)) not in headers:
            return False
        if _CONTROL_BYTES.search(b"".join([part for pair in headers for part in pair])):
            return False  # uvicorn raises the right error
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
        cycle.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[status], lines, body))
        cycle.message_event.set()
        cycle.on_response()
        return True


def _has_content_length(start: Message) -> bool:
    return any(name == b"content-length" for name, _ in start["headers"])
