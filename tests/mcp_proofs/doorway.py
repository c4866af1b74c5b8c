"""A port on loopback that leads to a daemon's, with a key: for programs that cannot show one themselves."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from queue import SimpleQueue

_CONNECTION = re.compile(rb"\r\nconnection:[^\r]*", re.IGNORECASE)


@contextmanager
def doorway(to: tuple[str, int], key: str) -> Generator[int, None, None]:
    """The number of a port at which everybody has this key, for as long as the block runs."""
    opened: SimpleQueue[tuple[int, Callable[[], object]]] = SimpleQueue()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(to, key, opened)))
    thread.start()
    port, close = opened.get()
    try:
        yield port
    finally:
        close()
        thread.join()


async def _serve(to: tuple[str, int], key: str, opened: SimpleQueue[tuple[int, Callable[[], object]]]) -> None:
    async def carried(near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        try:
            head = (await near.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n")
            far, into = await asyncio.open_connection(*to)
        except (asyncio.IncompleteReadError, OSError):
            out.close()
            return
        # One request a connection, so that there is one place to put the key.
        shown = f"\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
        into.write(_CONNECTION.sub(b"", head) + shown.encode())
        pouring = {asyncio.ensure_future(_poured(near, into)), asyncio.ensure_future(_poured(far, out))}
        try:
            await asyncio.wait(pouring, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in pouring:
                one.cancel()
            into.close()
            out.close()

    loop, done = asyncio.get_running_loop(), asyncio.Event()
    async with await asyncio.start_server(carried, "127.0.0.1", 0) as server:
        opened.put((server.sockets[0].getsockname()[1], lambda: loop.call_soon_threadsafe(done.set)))
        await done.wait()


async def _poured(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
