"""Two sockets joined: every byte arrives, each half ends by itself, and nothing is left open."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from paddock.cage.network.splice import PipePool, RelayIdle, SpliceRelay

MEGABYTE = 1024 * 1024


@pytest.fixture(params=["spliced", "copied"])
def pipes(request: pytest.FixtureRequest) -> Iterator[PipePool]:
    made = PipePool(splice=request.param == "spliced")
    yield made
    made.close()


def connected() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    one.setblocking(False)
    other.setblocking(False)
    return one, other


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def send(end: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(end, data)
    end.shutdown(socket.SHUT_WR)


async def receive(end: socket.socket) -> bytes:
    parts: list[bytes] = []
    while part := await asyncio.get_running_loop().sock_recv(end, 1 << 18):
        parts.append(part)
    return b"".join(parts)


async def test_ten_megabytes_each_way_at_the_same_time_arrive_whole(pipes: PipePool) -> None:
    left, near = connected()
    far, right = connected()
    up, down = os.urandom(10 * MEGABYTE), os.urandom(10 * MEGABYTE)
    with left, near, far, right:
        carriage = SpliceRelay(near, far, pipes)
        with anyio.fail_after(20):
            sent = await asyncio.gather(
                carriage.run(idle_seconds=10), send(left, up), send(right, down), receive(left), receive(right)
            )
        assert hashlib.sha256(sent[4]).digest() == hashlib.sha256(up).digest()
        assert hashlib.sha256(sent[3]).digest() == hashlib.sha256(down).digest()
        assert (carriage.bytes_up, carriage.bytes_down) == (len(up), len(down))


async def test_one_side_may_end_its_half_and_still_receive(pipes: PipePool) -> None:
    left, near = connected()
    far, right = connected()
    with left, near, far, right:
        running = asyncio.ensure_future(SpliceRelay(near, far, pipes).run(idle_seconds=10))
        with anyio.fail_after(5):
            await send(left, b"that was all")
            assert await receive(right) == b"that was all"
            await send(right, b"and here is the answer")
            assert await receive(left) == b"and here is the answer"
            await running


async def test_a_side_that_breaks_off_ends_it(pipes: PipePool) -> None:
    left, near = connected()
    far, right = connected()
    with left, near, far:
        right.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        right.close()
        with anyio.fail_after(5), pytest.raises(OSError):
            await SpliceRelay(near, far, pipes).run(idle_seconds=10)


async def test_a_connection_on_which_nothing_moves_is_idle(pipes: PipePool) -> None:
    left, near = connected()
    far, right = connected()
    with left, near, far, right, anyio.fail_after(5), pytest.raises(RelayIdle):
        await SpliceRelay(near, far, pipes).run(idle_seconds=0.05)


async def test_a_reader_that_stops_does_not_fill_our_memory(pipes: PipePool) -> None:
    left, near = connected()
    far, right = connected()
    with left, near, far, right:
        running = asyncio.ensure_future(SpliceRelay(near, far, pipes).run(idle_seconds=10))
        sent = 0
        with anyio.move_on_after(5):
            while True:
                with anyio.move_on_after(0.3) as patience:
                    await asyncio.get_running_loop().sock_sendall(left, bytes(MEGABYTE))
                    sent += 1
                if patience.cancelled_caught:
                    break
        running.cancel()
        await asyncio.wait([running])
        assert sent < 64  # what the kernel's own buffers take, and no more


async def test_a_quiet_connection_holds_no_pipe_and_an_ended_one_nothing() -> None:
    pipes = PipePool()
    left, near = connected()
    far, right = connected()
    with left, near, far, right:
        before = descriptors()
        running = asyncio.ensure_future(SpliceRelay(near, far, pipes).run(idle_seconds=10))
        for _ in range(20):
            await asyncio.get_running_loop().sock_sendall(left, b"ping")
            assert await asyncio.get_running_loop().sock_recv(right, 100) == b"ping"
        pipes.close()
        assert descriptors() == before
        running.cancel()
        await asyncio.wait([running])
        assert descriptors() == before


async def test_bytes_left_in_a_pipe_are_never_handed_to_another_connection() -> None:
    pipes = PipePool()
    left, near = connected()
    far, right = connected()
    with left, near, far, right:
        running = asyncio.ensure_future(SpliceRelay(near, far, pipes).run(idle_seconds=10))
        with anyio.move_on_after(0.5):  # the reader never reads, so the pipe stays full
            await asyncio.get_running_loop().sock_sendall(left, b"secret!!" * (4 * MEGABYTE))
        running.cancel()
        await asyncio.wait([running])
    left, near = connected()
    far, right = connected()
    with left, near, far, right:
        running = asyncio.ensure_future(SpliceRelay(near, far, pipes).run(idle_seconds=10))
        await send(left, b"mine")
        assert await receive(right) == b"mine"
        running.cancel()
        await asyncio.wait([running])
    pipes.close()


async def test_where_the_kernel_cannot_splice_the_bytes_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_splice(*_: object, **__: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "splice", no_splice)
    pipes = PipePool()
    left, near = connected()
    far, right = connected()
    with left, near, far, right:
        running = asyncio.ensure_future(SpliceRelay(near, far, pipes).run(idle_seconds=10))
        await send(left, b"copied")
        assert await receive(right) == b"copied"
        await send(right, b"back")
        assert await receive(left) == b"back"
        await running
    pipes.close()


async def test_a_fast_connection_leaves_the_loop_to_others(pipes: PipePool) -> None:
    left, near = connected()
    far, right = connected()

    def flood() -> None:
        left.setblocking(True)
        for _ in range(200):
            left.sendall(bytes(MEGABYTE))
        left.shutdown(socket.SHUT_WR)

    def swallow() -> None:
        right.setblocking(True)
        while right.recv(MEGABYTE):
            pass
        right.shutdown(socket.SHUT_WR)

    threads = [threading.Thread(target=flood), threading.Thread(target=swallow)]
    with left, near, far, right:
        carriage = SpliceRelay(near, far, pipes)
        running = asyncio.ensure_future(carriage.run(idle_seconds=10))
        for thread in threads:
            thread.start()
        worst = 0.0
        while not running.done():
            before = anyio.current_time()
            await anyio.lowlevel.checkpoint()
            worst = max(worst, anyio.current_time() - before)
        await running
        for thread in threads:
            await anyio.to_thread.run_sync(thread.join, 10)
    assert carriage.bytes_up == 200 * MEGABYTE
    assert worst < 0.25
