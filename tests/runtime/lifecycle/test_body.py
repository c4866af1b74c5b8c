"""The descriptors of a process are all closed, however early its life ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.listening import Owner

from paddock.cage.warden.client import CagedProcess
from paddock.core.clock import SystemClock
from paddock.rpc.peer import JsonRpcPeer
from paddock.rpc.pipe_transport import open_pipe_transport
from paddock.runtime.endpoint import CagedEndpoint

NOBODY: Any = None  # behind the descriptors


@pytest.fixture
def process() -> Generator[CagedProcess, None, None]:
    """A process as the warden hands it over. The far ends are the test's, ours are the body's."""
    stdin, stdout, stderr, sending, arriving = (os.pipe2(os.O_NONBLOCK) for _ in range(5))
    yield CagedProcess(0, (stdin[1], stdout[0], stderr[0]), (arriving[0], sending[1]), NOBODY, NOBODY)
    for far_end in (stdin[0], stdout[1], stderr[1], sending[0], arriving[1]):
        os.close(far_end)


def is_open(descriptor: int) -> bool:
    return Path(f"/proc/self/fd/{descriptor}").exists()


def body_of(process: CagedProcess) -> CagedEndpoint:
    return CagedEndpoint(process, "cage_1", lambda _: None, SystemClock(), None, open_pipe_transport)


def still_open(process: CagedProcess) -> list[int]:
    pipes = (process.stdin, process.stdout, process.stderr, *(process.artifacts or ()))
    return [descriptor for descriptor in pipes if is_open(descriptor)]


async def a_moment() -> None:
    """Transports close their pipes at the next turn of the loop."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_process_that_nobody_connected_to(process: CagedProcess) -> None:
    body_of(process).close()
    assert still_open(process) == []


@pytest.mark.parametrize("turns", range(6))
async def test_a_process_whose_connecting_is_cancelled(turns: int, process: CagedProcess) -> None:
    body = body_of(process)
    connecting = asyncio.ensure_future(body.connect(JsonRpcPeer(Owner())))
    for _ in range(turns):
        await asyncio.sleep(0)
    connecting.cancel()
    await asyncio.wait({connecting})
    if not connecting.cancelled():
        connecting.result().close()
    body.close()
    await a_moment()
    assert still_open(process) == []


async def test_a_process_whose_log_cannot_be_read(process: CagedProcess, tmp_path: Path) -> None:
    os.close(process.stderr)
    process.stderr = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    body = body_of(process)
    with pytest.raises(ValueError, match="pipes"):
        await body.connect(JsonRpcPeer(Owner()))
    body.close()
    await a_moment()
    assert still_open(process) == []


async def test_pipes_for_big_bytes_belong_to_whoever_took_them(process: CagedProcess) -> None:
    body = body_of(process)
    ends = body.take_artifact_pipes()
    body.close()
    assert ends == process.artifacts
    assert still_open(process) == list(ends or ())
    for descriptor in ends or ():
        os.close(descriptor)
