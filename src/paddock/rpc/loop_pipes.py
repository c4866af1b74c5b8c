"""Handing a pipe to the event loop, so that its descriptor is closed exactly once.

The loop of the standard library closes a pipe by closing the object that it was given. uvloop closes the descriptor by
itself, and the object too: by then its number may be a file that another thread has just opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Generator
from typing import TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)


async def connect_reading(protocol: Callable[[], P], number: int) -> asyncio.ReadTransport:
    """Read from a descriptor, which belongs to the event loop from here on.

    Raises:
        OSError, ValueError: it is not open, or no pipe; it is closed.
    """
    loop, pipe = asyncio.get_running_loop(), _Pipe(number)
    with pipe.closed_unless_taken():
        transport, _ = await loop.connect_read_pipe(protocol, pipe)
    return transport


async def connect_writing(protocol: Callable[[], P], number: int) -> asyncio.WriteTransport:
    """The same for writing."""
    loop, pipe = asyncio.get_running_loop(), _Pipe(number)
    with pipe.closed_unless_taken():
        transport, _ = await loop.connect_write_pipe(protocol, pipe)
    return transport


class _Pipe:
    """As much of a file as event loops want."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._loop_closes = type(asyncio.get_running_loop()).__module__.partition(".")[0] == "uvloop"

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        """For the event loop."""
        if not self._loop_closes:
            self._close()

    @contextlib.contextmanager
    def closed_unless_taken(self) -> Generator[None, None, None]:
        try:
            yield
        except Exception:
            # The loop did not want it. Where it only was not let wait any longer, it closes what it took.
            self._close()
            raise

    def _close(self) -> None:
        number, self._number = self._number, -1
        if number >= 0:
            with contextlib.suppress(OSError):
                os.close(number)
