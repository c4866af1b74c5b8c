"""A port on loopback that leads to a daemon's socket, for programs that can reach nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue


@contextmanager
def doorway(path: Path) -> Generator[int, None, None]:
    """The number of a port that is the socket at this path for as long as the block runs."""
    opened: SimpleQueue[tuple[int, Callable[[], object]]] = SimpleQueue()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(path, opened)))
    thread.start()
    port, close = opened.get()
    try:
        yield port
    finally:
        close()
        thread.join()


async def _serve(path: Path, opened: SimpleQueue[tuple[int, Callable[[], object]]]) -> None:
    async def carried(near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        far, into = await asyncio.open_unix_connection(path)
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
