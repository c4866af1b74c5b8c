"""A transport that sends the head of an answer together with the beginning of its body."""

from __future__ import annotations

import asyncio
from typing import Any

_HEAD = b"HTTP/1.1 "


class AnswerTransport:
    """What uvicorn writes answers to. It writes head and body apart; each by itself would be a system call, and wake
    the client for a half.

    A head that no body follows at once is sent in the same turn of the loop.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._held = b""

    def write(self, data: bytes) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.writelines([held, data])
        elif data.startswith(_HEAD):
            self._held = data
            self._loop.call_soon(self._send_held)
        else:
            self._transport.write(data)

    def _send_held(self) -> None:
        if self._held and not self._transport.is_closing():
            self.write(b"")

    def write_eof(self) -> None:
        self._send_held()
        self._transport.write_eof()

    def close(self) -> None:
        self._send_held()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
