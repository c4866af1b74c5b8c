"""Answers of HTTP servers that send more than anybody asked for: what is kept of them has a bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from paddock.net.http_client import MAX_HEAD_BYTES, ClientResponse, HttpClient, HttpOrigin, ResponseTooLarge

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
TEXT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def answer_of(*parts: bytes, times: int = 1) -> AsyncGenerator[ClientResponse, None]:
    """The answer of a server that sends the last of these parts again and again."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.writelines(parts[:-1])
            for _ in range(times):
                writer.write(parts[-1])
                await writer.drain()
            await reader.read()
        except OSError:
            pass  # they had enough
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        client = HttpClient(HttpOrigin("http", "127.0.0.1", server.sockets[0].getsockname()[1]))
        try:
            async with asyncio.timeout(30), client.request("GET", "/", []) as response:
                yield response
        finally:
            client.close()


async def test_what_follows_a_body_is_not_taken_for_a_header() -> None:
    async with answer_of(HEAD + b"\r\n2\r\n{}\r\n0\r\nContent-Type: evil\r\nX: y\r\n\r\n") as response:
        assert await response.read_body(100) == b"{}"
        assert response.headers == {"transfer-encoding": "chunked"}


@pytest.mark.parametrize(
    ("before", "again"),
    [
        (b"2\r\n{}\r\n0\r\n", b"X: " + b"a" * 1_000 + b"\r\n"),
        (b"2\r\n{}\r\n0\r\nX: ", b"a" * 1_000),
        (b"2\r\n{}\r\n2;", b"a" * 1_000),
    ],
    ids=["many trailers", "a long one", "a long extension"],
)
async def test_what_is_no_body_and_has_no_end_is_given_up(before: bytes, again: bytes) -> None:
    async with answer_of(HEAD + b"\r\n" + before, again, times=1_000) as response:
        with pytest.raises(ResponseTooLarge):
            await response.read_body(1_000_000)


async def test_a_head_that_has_no_end_is_given_up() -> None:
    with pytest.raises(ResponseTooLarge):
        async with answer_of(HEAD, b"X: " + b"a" * 1_000 + b"\r\n", times=1_000):
            pass


async def test_a_stream_in_small_parts_may_be_as_long_as_it_likes() -> None:
    chunk = b"1\r\nx\r\n" * 1_000
    async with answer_of(HEAD + b"\r\n", chunk, b"0\r\n\r\n") as short:
        assert await short.read_body(MAX_HEAD_BYTES) == b"x" * 1_000
    read = 0
    async with answer_of(HEAD + b"\r\n", chunk, times=100) as long:
        async for piece in long.iter_body():
            read += len(piece)
            if read == 100_000:
                break


async def test_an_answer_of_a_known_length_comes_whole() -> None:
    async with answer_of(TEXT) as response:
        assert await response.read_body(2) == b"ok"
