"""The other side of a connection in the hands of a test: bytes, not a peer, so that it can say wrong things too."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import orjson
from tests.rpc.listening import PATIENCE, Owner

from paddock.rpc.peer import JsonRpcPeer
from paddock.rpc.transport import Receiver, Transport


class FarEnd(Protocol):
    """The other side of a connection, in the hands of a test."""

    async def says(self, data: bytes) -> None: ...

    async def hears(self) -> bytes:
        """The next line it was sent."""
        ...

    async def hears_the_end(self) -> None:
        """Wait until it sees that nothing more will come."""
        ...

    def stops_listening(self) -> None: ...

    def listens_again(self) -> None: ...

    async def leaves(self) -> None: ...


def line(**message: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", **message}) + b"\n"


def long_line(size: int) -> bytes:
    """A notification that has exactly this many bytes without its newline."""
    empty = line(method="long", params={"text": ""})
    return empty.replace(b'""', b'"' + b"x" * (size + 1 - len(empty)) + b'"')


async def heard(far: FarEnd) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        return orjson.loads(await far.hears())


class Conversing:
    """Talks with a far end. A subclass connects a receiver to one of its kind."""

    def connect(
        self, receiver: Receiver, *, stalled_after: float = 10.0
    ) -> AbstractAsyncContextManager[tuple[Transport, FarEnd]]:
        raise NotImplementedError

    @asynccontextmanager
    async def conversation(self, owner: Owner, passes: Any = lambda *_: False, **options: Any):
        peer = JsonRpcPeer(owner, passes=passes)
        async with self.connect(peer, **options) as (transport, far):
            peer.attach(transport)
            try:
                yield peer, far
            finally:
                peer.close("the test is over")
                async with asyncio.timeout(PATIENCE):
                    await peer.wait_closed()
