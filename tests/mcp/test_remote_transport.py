"""A connection to a server elsewhere never ends in silence, whatever goes wrong in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from tests.runtime.stage import patiently

from paddock.net.http_client import HttpClient, HttpConnectionLost, HttpOrigin
from paddock.rpc.errors import PeerLost
from paddock.rpc.mcp.sse import SseEventTooLarge
from paddock.runtime.protocols.mcp.remote_transport import RemoteTransport


class Told:
    """Hears what a peer would."""

    def __init__(self) -> None:
        self.words: asyncio.Queue[str] = asyncio.Queue()

    def frame_received(self, frame: bytes) -> None:
        self.words.put_nowait(frame.decode())

    def violated(self, kind: str, detail: str) -> None:
        self.words.put_nowait(f"{kind}: {detail}")

    def stalled(self) -> None:
        self.words.put_nowait("stalled")

    def lost(self, reason: str) -> None:
        self.words.put_nowait(f"lost: {reason}")


class OneTask(RemoteTransport):
    """Does nothing but to end as it is told."""

    def start(self, error: Exception) -> None:
        async def work() -> None:
            raise error

        self._inbox.start()
        self._start_task(work())


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def transport(told: Told) -> AsyncGenerator[OneTask, None]:
    made = OneTask(HttpClient(HttpOrigin("http", "127.0.0.1", 9)), told)
    yield made
    made.close()
    await patiently(made.wait_closed())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (HttpConnectionLost("it is gone"), "lost: it is gone"),
        (SseEventTooLarge("an event"), "oversize_message: an event"),
        (TypeError("Recursion limit reached"), "lost: the connection failed: TypeError: Recursion limit reached"),
    ],
    ids=["known", "a bound", "anything else"],
)
async def test_whatever_a_task_ends_with_is_told(transport: OneTask, told: Told, error: Exception, words: str) -> None:
    transport.start(error)

    assert await patiently(told.words.get()) == words


async def test_nothing_more_is_sent_once_a_task_has_failed(transport: OneTask) -> None:
    transport.start(ValueError("no"))
    await patiently(transport.wait_closed())

    with pytest.raises(PeerLost, match="the connection failed: ValueError: no"):
        await patiently(transport.drained())
