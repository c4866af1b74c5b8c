"""The contract of `contract.py`, run against every transport there is."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from tests.rpc.contract import TransportContract
from tests.rpc.listening import PATIENCE

from paddock.rpc.memory_transport import MemoryTransport, memory_pair
from paddock.rpc.pipe_transport import open_pipe_transport
from paddock.rpc.transport import Receiver

RELAY = Path(__file__).parent / "relay.py"


class TestThePipesOfAProcess(TransportContract):
    @asynccontextmanager
    async def connect(self, receiver: Receiver, *, stalled_after: float = 10.0):
        ours, theirs = socket.socketpair()
        from_child, stdout = os.pipe()
        stdin, to_child = os.pipe()
        with theirs:
            process = relay(theirs, stdin, stdout)
        os.close(stdin)
        os.close(stdout)
        reader, writer = await asyncio.open_connection(sock=ours, limit=16 * 1024 * 1024)
        transport = await open_pipe_transport(from_child, to_child, receiver, stalled_after=stalled_after)
        try:
            yield transport, Relayed(process, reader, writer)
        finally:
            transport.close()
            process.kill()
            process.wait(PATIENCE)
            writer.close()


def relay(control: socket.socket, stdin: int, stdout: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-S", str(RELAY), str(control.fileno())]
    return subprocess.Popen(command, stdin=stdin, stdout=stdout, pass_fds=[control.fileno()])


class Relayed:
    """The far end is a real process."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.process = process
        self.reader = reader
        self.writer = writer

    async def says(self, data: bytes) -> None:
        self.writer.write(data)
        async with asyncio.timeout(PATIENCE):
            await self.writer.drain()

    async def hears(self) -> bytes:
        return await self.reader.readuntil(b"\n")

    async def hears_the_end(self) -> None:
        assert await self.reader.read() == b""

    def stops_listening(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def listens_again(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    async def leaves(self) -> None:
        self.writer.write_eof()


class TestMemory(TransportContract):
    @asynccontextmanager
    async def connect(self, receiver: Receiver, *, stalled_after: float = 10.0):
        listener = Listener()
        near, far = memory_pair(receiver, listener, stalled_after=stalled_after)
        far.start()
        yield near, InMemory(far, listener)
        near.close()
        far.close()


class Listener:
    """A receiver that only keeps lines."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.ended = asyncio.Event()

    def frame_received(self, frame: bytes) -> None:
        self.lines.put_nowait(frame)

    def violated(self, kind: str, detail: str) -> None: ...

    def stalled(self) -> None: ...

    def lost(self, reason: str) -> None:
        del reason
        self.ended.set()


class InMemory:
    """The far end is in this process."""

    def __init__(self, transport: MemoryTransport, listener: Listener) -> None:
        self.transport = transport
        self.listener = listener

    async def says(self, data: bytes) -> None:
        for start in range(0, len(data), 65536):
            if self.transport.backlog > 500_000:
                async with asyncio.timeout(PATIENCE):
                    await self.transport.drained()
            self.transport.send(data[start : start + 65536])

    async def hears(self) -> bytes:
        return await self.listener.lines.get()

    async def hears_the_end(self) -> None:
        await self.listener.ended.wait()

    def stops_listening(self) -> None:
        self.transport.stop_listening()

    def listens_again(self) -> None:
        self.transport.listen()

    async def leaves(self) -> None:
        self.transport.close()
