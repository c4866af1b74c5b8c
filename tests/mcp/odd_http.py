"""An HTTP server in the hands of a test: it sees every request and answers with bytes, so that it can be wrong too."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson

ABOUT = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
FOUND = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}


@dataclass
class Request:
    """One request, and the way to answer it."""

    method: str
    target: str
    headers: dict[str, str]
    message: dict[str, Any]
    writer: asyncio.StreamWriter

    @property
    def asks(self) -> str:
        """The method of its message; of a request without one, HTTP's."""
        return self.message.get("method", self.method)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def answer(self, status: str, body: bytes = b"", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def result(self, value: Any, **headers: str) -> None:
        body = orjson.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": value})
        self.answer("200 OK", body, Content_Type="application/json", **headers)

    def stream(self) -> None:
        """Begin a stream of events."""
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")


Handler = Callable[[Request], Awaitable[None]]


def usual(request: Request) -> None:
    """What a small server of an older revision answers."""
    match request.asks:
        case "initialize":
            request.result(ABOUT, Mcp_Session_Id="s-1")
        case "tools/list":
            request.result({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        case "tools/call":
            words = request.message["params"]["arguments"].get("text", "")
            request.result({"content": [{"type": "text", "text": words}]})
        case "ping":
            request.result({})
        case "DELETE":
            request.answer("204 No Content")
        case asked if asked.startswith("notifications/"):
            request.answer("202 Accepted")
        case _:
            request.answer("405 Method Not Allowed")


class OddServer:
    """Serves with a function; remembers every request."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.port = 0
        self.handler: Callable[[Request], Any] = usual

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def asked(self, what: str) -> list[Request]:
        return [request for request in self.requests if request.asks == what]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                method, target, _ = head[0].split(" ")
                headers = {line.split(": ")[0].lower(): line.split(": ", 1)[1] for line in head[1:] if line}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = Request(method, target, headers, orjson.loads(body) if body else {}, writer)
                self.requests.append(request)
                answered = self.handler(request)
                if asyncio.iscoroutine(answered):
                    await answered
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def odd_server(
    handler: Callable[[Request], Any] = usual, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[OddServer, None]:
    """A server on this machine for as long as the block runs."""
    odd = OddServer()
    odd.handler = handler
    listening = await asyncio.start_server(odd.serve, "127.0.0.1", 0, ssl=tls)
    odd.port = listening.sockets[0].getsockname()[1]
    try:
        yield odd
    finally:
        listening.close()
        for request in odd.requests:
            request.writer.close()
