"""An MCP client that does nothing beside the wire: one connection kept open, one request at a time on it.

The official client takes about a millisecond of its own for a call, which hides what a quick server does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

REVISION = "2025-06-18"


class ThinClient:
    """One connection to an MCP endpoint, or to any route that takes a JSON body."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self._address = (parts.hostname, parts.port)
        self._path = parts.path or "/"
        self._headers = {
            "host": parts.netloc,
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            **headers,
        }
        self._number = 0

    async def __aenter__(self) -> ThinClient:
        await self._connect()
        return self

    async def _connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(*self._address, limit=1 << 20)

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def greet(self) -> None:
        """The handshake; what is settled in it is sent along from then on."""
        client = {"name": "thin", "version": "1"}
        params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}
        await self.request("initialize", params)
        self._headers["mcp-protocol-version"] = REVISION
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._number += 1
        told = await self.post({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert told is not None and told["id"] == self._number, told
        assert "error" not in told and not told["result"].get("isError"), told
        return told["result"]

    async def post(self, body: Any) -> Any:
        """Send a body, and give what is answered; of a stream the last event."""
        written = orjson.dumps(body)
        lines = [f"POST {self._path} HTTP/1.1", *(f"{name}: {value}" for name, value in self._headers.items())]
        head = "\r\n".join([*lines, f"content-length: {len(written)}", "", ""])
        if self._reader.at_eof():  # servers close what nobody has used for a few seconds
            self._writer.close()
            await self._connect()
        self._writer.write(head.encode() + written)
        status, headers = await self._head()
        content = await self._body(headers)
        assert 200 <= status < 300, (status, content[:500])
        if "mcp-session-id" in headers:
            self._headers["mcp-session-id"] = headers["mcp-session-id"]
        if "text/event-stream" in headers.get("content-type", ""):
            events = [line[6:] for line in content.splitlines() if line.startswith(b"data: {")]
            content = events[-1]
        return orjson.loads(content) if content.strip() else None

    async def _head(self) -> tuple[int, dict[str, str]]:
        raw = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.split(":", 1) for line in raw[1:] if line)
        return int(raw[0].split(" ", 2)[1]), {name.lower(): value.strip() for name, value in pairs}

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if "content-length" in headers:
            return await self._reader.readexactly(int(headers["content-length"]))
        if headers.get("transfer-encoding") != "chunked":
            return b""
        pieces: list[bytes] = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            pieces.append((await self._reader.readexactly(size + 2))[:-2])
        await self._reader.readexactly(2)
        return b"".join(pieces)
