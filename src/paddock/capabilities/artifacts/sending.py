"""A kept file on its way out, piece by piece."""

from __future__ import annotations

import asyncio
import os

from paddock.capabilities.pipes.channel import PIECE
from paddock.capabilities.storage.workers import Workers


class Sending:
    """A part of a file that is sent, piece by piece. Closes it."""

    def __init__(self, workers: Workers, descriptor: int, offset: int, length: int) -> None:
        self._workers = workers
        self._descriptor = descriptor
        self._offset = offset
        self._left = length
        self._reading: asyncio.Future[bytes] | None = None

    async def next_piece(self) -> bytes:
        wanted = min(self._left, PIECE)
        if not wanted:
            return b""
        self._reading = self._workers.run(lambda: os.pread(self._descriptor, wanted, self._offset))
        piece = await self._reading
        self._offset += len(piece)
        # A file that is shorter than it was ends early, and the plugin sees that bytes are missing.
        self._left = self._left - len(piece) if piece else 0
        return piece

    def close(self) -> None:
        # On a thread and so behind a read that nobody waits for any more.
        self._workers.run(lambda: os.close(self._descriptor))
