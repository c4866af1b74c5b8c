"""A small HTTP/1.1 client for one origin: streamed, bounded responses, and no redirects.

Small on purpose: what is needed to talk to a server that a person has named, and no more. No proxies, no cookies, no
compression; the caller interprets the response.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httptools
from msgspec import Struct

CONNECT_TIMEOUT_S: Final = 30.0
MAX_HEAD_BYTES: Final = 64 * 1024
"""Limit for the head of a response, and for other bytes outside the body at one stretch (trailers, chunk headers)."""
IDLE_TIMEOUT_S: Final = 4.0
"""How long a connection is kept for the next request; most servers close theirs a little later."""
MAX_IDLE_CONNECTIONS: Final = 16
_CHUNK_BYTES: Final = 64 * 1024
_CLOSE_TIMEOUT_S: Final = 1.0  # for the TLS close handshake
_NOT_TLS_REASONS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")  # OpenSSL's names for a response that is not TLS


class HttpConnectionLost(Exception):
    """The connection failed, or the other side does not speak HTTP properly."""


class ResponseTooLarge(Exception):
    """A response exceeded a limit."""


class HttpOrigin(Struct, frozen=True):
    """Scheme, host and port to connect to."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default_port = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == default_port else f"{host}:{self.port}"


def split_url(url: str) -> tuple[HttpOrigin, str]:
    """Split a URL into the origin and the request target.

    Raises:
        ValueError: It is no http(s) URL, or has credentials or characters that no URL can have.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ValueError("not a web address with a host and without a name or password")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("has characters that a web address cannot have")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return HttpOrigin(parts.scheme, parts.hostname, port), target


def _tls_error_text(error: ssl.SSLError) -> str:
    """Why the TLS handshake failed, without OpenSSL's source location."""
    reason = str(getattr(error, "reason", None) or "the connection ended")
    return "it answers without" if reason in _NOT_TLS_REASONS else reason.lower().replace("_", " ")


class HttpClient:
    """Connections to one origin, kept alive for a moment and reused.

    Args:
        origin: The origin.
        tls: Trust settings; needed for https.
        dial: Opens the connection, where the system's resolver must not choose the address. The certificate still
            has to be the origin's.
        connect_timeout_s: For one connection, with its TLS handshake.
    """

    def __init__(
        self,
        origin: HttpOrigin,
        tls: ssl.SSLContext | None = None,
        *,
        dial: Callable[[], Awaitable[socket.socket]] | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self.origin = origin
        self._dial = dial
        self._connect_timeout_s = connect_timeout_s
        self._tls = tls if origin.scheme == "https" else None
        self._idle: list[tuple[_Connection, float]] = []
        self._all: set[_Connection] = set()

    async def connect(self) -> None:
        """Open a connection for the first request.

        Raises:
            HttpConnectionLost: It cannot be opened.
        """
        self._keep_idle(await self._open())

    @asynccontextmanager
    async def request(
        self,
        method: str,
        target: str,
        headers: Sequence[tuple[str, str]],
        body: bytes | None = None,
        *,
        on_sent: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[ClientResponse, None]:
        """The response to one request, for the duration of the block. Leaving it early closes the connection.

        `on_sent` is called when the request was written, which may be long before the response begins.

        Raises:
            HttpConnectionLost: There is no response.
            ResponseTooLarge: Its head is too long.
        """
        connection = self._take_idle() or await self._open()
        response = ClientResponse(connection)
        try:
            await connection.send(_request_head(self.origin, method, target, headers, body) + (body or b""))
            on_sent()
            await response.read_head()
            yield response
        finally:
            if response.reusable:
                self._keep_idle(connection)
            else:
                self._discard(connection)

    def close(self) -> None:
        """Close every connection."""
        for connection in tuple(self._all):
            self._discard(connection)
        self._idle.clear()

    async def aclose(self) -> None:
        """Close every connection, and wait briefly for each: for the last user of an event loop."""
        connections = tuple(self._all)
        self.close()
        for connection in connections:
            await connection.wait_closed()

    async def _open(self) -> _Connection:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                reader, writer = await self._open_streams()
        except TimeoutError:
            raise HttpConnectionLost(f"{self.origin} did not answer within {self._connect_timeout_s:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise HttpConnectionLost(
                f"the certificate of {self.origin} is not trusted: {error.verify_message}"
            ) from error
        except ssl.SSLError as error:
            raise HttpConnectionLost(f"{self.origin} cannot be reached over TLS: {_tls_error_text(error)}") from error
        except OSError as error:
            raise HttpConnectionLost(f"{self.origin} cannot be reached: {error}") from error
        connection = _Connection(reader, writer)
        self._all.add(connection)
        return connection

    async def _open_streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._dial is None:
            return await asyncio.open_connection(self.origin.host, self.origin.port, ssl=self._tls)
        connection = await self._dial()
        try:
            name = self.origin.host if self._tls else None
            return await asyncio.open_connection(sock=connection, ssl=self._tls, server_hostname=name)
        except BaseException:
            connection.close()
            raise

    def _take_idle(self) -> _Connection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection, since = self._idle.pop()
            if connection.usable and now - since < IDLE_TIMEOUT_S:
                return connection
            self._discard(connection)
        return None

    def _keep_idle(self, connection: _Connection) -> None:
        if len(self._idle) >= MAX_IDLE_CONNECTIONS or connection not in self._all:
            self._discard(connection)
        else:
            self._idle.append((connection, asyncio.get_running_loop().time()))

    def _discard(self, connection: _Connection) -> None:
        self._all.discard(connection)
        connection.close()


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def usable(self) -> bool:
        return not self._reader.at_eof() and not self._writer.is_closing()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        with contextlib.suppress(OSError):  # reading gives a better error
            await self._writer.drain()

    async def receive(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK_BYTES)
        except OSError as error:
            raise HttpConnectionLost(f"the connection broke: {error}") from error

    def close(self) -> None:
        self._writer.close()

    async def wait_closed(self) -> None:
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._writer.wait_closed()
        except (TimeoutError, OSError):
            self._writer.transport.abort()


class ClientResponse:
    """A response as it arrives. Made by `HttpClient.request`."""

    def __init__(self, connection: _Connection) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}  # by name in lower case; the last one counts
        self._connection = connection
        self._parser: Any = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._interim_bytes = 0  # bytes since the last of the body
        self._head_complete = False
        self._complete = False
        self._broken = False

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request."""
        return self._complete and not self._broken and self._parser.should_keep_alive() and self._connection.usable

    @property
    def content_type(self) -> str:
        """Without parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def read_head(self) -> None:
        """Wait for the head."""
        while not self._head_complete:
            await self._receive_more()
        if self.headers.get("content-encoding", "identity") != "identity":
            raise HttpConnectionLost("its answer is compressed, which it was not asked for")

    async def iter_body(self) -> AsyncIterator[bytes]:
        """The body as it arrives.

        Raises:
            HttpConnectionLost: The connection ended before the body did.
            ResponseTooLarge: The bytes between its parts, or after it, are too many.
        """
        while True:
            parts, self._parts = self._parts, []
            for part in parts:
                yield part
            if self._complete and not self._parts:
                return
            if not self._parts:
                await self._receive_more()

    async def read_body(self, max_bytes: int) -> bytes:
        """The whole body.

        Raises:
            ResponseTooLarge: It has more than `max_bytes`.
            HttpConnectionLost: As for `iter_body`.
        """
        content = bytearray()
        async for part in self.iter_body():
            content += part
            if len(content) > max_bytes:
                raise ResponseTooLarge(f"its answer has more than {max_bytes} bytes")
        return bytes(content)

    async def _receive_more(self) -> None:
        data = await self._connection.receive()
        if not data:
            self._broken = True
            if self._head_complete and not {"content-length", "transfer-encoding"} & self.headers.keys():
                self._complete = True  # such a body ends with its connection
                return
            raise HttpConnectionLost("the other side ended the connection before its answer was complete")
        self._interim_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._broken = True
            raise HttpConnectionLost(f"its answer is not HTTP: {error}") from error
        if self._interim_bytes > MAX_HEAD_BYTES and not self._complete:
            raise ResponseTooLarge(f"the {'trailer' if self._head_complete else 'head'} of its answer is too long")

    # Callbacks of the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_complete:  # trailers are ignored
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._head_complete = self.status >= 200
        if self._head_complete:
            self._interim_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._interim_bytes = 0

    def on_message_complete(self) -> None:
        if self._head_complete:
            self._complete = True
        else:
            self.headers.clear()  # an interim response; the final one follows


def _request_head(
    origin: HttpOrigin, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes | None
) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {origin.authority}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def check_headers(headers: Mapping[str, str]) -> None:
    """Check that untrusted headers can be sent.

    Raises:
        ValueError: A name or value has characters that would change its meaning.
    """
    for name, value in headers.items():
        token = name.isascii() and all(character.isalnum() or character in "!#$%&'*+-.^_`|~" for character in name)
        clean = all(
            " " <= character <= "~" or "\xa0" <= character <= "\xff" or character == "\t" for character in value
        )
        if not name or not token or not clean:
            raise ValueError(f"the header {name!r} has characters that no header can have")


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks to wait; None where it is absent or unreadable."""
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, IndexError, OverflowError):
        return None
    return max(0.0, ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds())
