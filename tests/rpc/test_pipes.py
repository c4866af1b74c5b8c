"""What is particular to pipes: descriptors, and sides that close only one of two."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.rpc.far_end import line
from tests.rpc.listening import PATIENCE, Owner

from paddock.rpc.errors import PeerLost
from paddock.rpc.peer import JsonRpcPeer
from paddock.rpc.pipe_transport import open_pipe_transport
from paddock.rpc.transport import MAX_BACKLOG_BYTES


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


async def test_both_descriptors_are_closed_exactly_once():
    (reading, far_out), (far_in, writing) = os.pipe(), os.pipe()
    peer = JsonRpcPeer(Owner())
    peer.attach(await open_pipe_transport(reading, writing, peer))
    peer.close("enough")
    async with asyncio.timeout(PATIENCE):
        await peer.wait_closed()
    assert not is_open(reading) and not is_open(writing)

    # The numbers are free again and somebody else's now; closing once more must not touch them.
    taken = os.pipe()
    assert {reading, writing} == set(taken)
    peer.close("again")
    await asyncio.sleep(0)
    assert all(is_open(descriptor) for descriptor in taken)
    for descriptor in (*taken, far_out, far_in):
        os.close(descriptor)


async def test_what_is_no_pipe_is_refused_and_both_descriptors_are_closed(tmp_path):
    (tmp_path / "file").touch()
    file = os.open(tmp_path / "file", os.O_RDONLY)
    far_in, writing = os.pipe()
    with pytest.raises(ValueError, match="pipes"):
        await open_pipe_transport(file, writing, JsonRpcPeer(Owner()))
    await asyncio.sleep(0)
    assert not is_open(file) and not is_open(writing)
    os.close(far_in)


async def test_a_side_that_closes_its_input_may_finish_its_sentence_and_is_then_gone():
    (reading, far_out), (far_in, writing) = os.pipe(), os.pipe()
    owner = Owner()
    peer = JsonRpcPeer(owner)
    peer.attach(await open_pipe_transport(reading, writing, peer))
    pending, never = peer.request("a"), peer.request("b")
    os.close(far_in)
    os.write(far_out, line(id=pending.id, result="on its way"))
    async with asyncio.timeout(PATIENCE):
        assert await pending.future == "on its way"
        with pytest.raises(PeerLost, match="closed its input"):
            await never.future
        await peer.wait_closed()
    assert len(owner.losses) == 1
    os.close(far_out)


async def test_what_is_said_before_anybody_listens_waits():
    (reading, far_out), (far_in, writing) = os.pipe(), os.pipe()
    os.write(far_out, line(method="early"))
    os.close(far_out)
    owner = Owner()
    peer = JsonRpcPeer(owner)
    transport = await open_pipe_transport(reading, writing, peer)
    for _ in range(3):
        await asyncio.sleep(0)
    assert owner.notifications == [] and owner.losses == []
    peer.attach(transport)
    await owner.until(lambda: owner.losses)
    assert owner.notifications == [("early", {})]
    async with asyncio.timeout(PATIENCE):
        await peer.wait_closed()
    os.close(far_in)


async def test_a_side_that_asks_and_never_reads_the_answers_is_noticed_and_costs_little():
    (reading, far_out), (far_in, writing) = os.pipe(), os.pipe()
    owner = Owner()
    peer = JsonRpcPeer(owner)
    transport = await open_pipe_transport(reading, writing, peer)
    peer.attach(transport)
    for _ in range(40):  # every line is answered with many times its size
        await asyncio.to_thread(os.write, far_out, b"{}\n" * 1_000)
    await owner.until(lambda: "unread_answers" in owner.violations)
    assert transport.backlog < 2 * MAX_BACKLOG_BYTES
    peer.close("enough")
    async with asyncio.timeout(PATIENCE):
        await peer.wait_closed()
    os.close(far_out)
    os.close(far_in)


BESIDE_A_THREAD = """
import asyncio, os, sys, threading, uvloop
from paddock.rpc.pipe_transport import open_pipe_transport
from paddock.rpc.peer import JsonRpcPeer
from tests.rpc.listening import Owner

over, hurt = threading.Event(), []

def open_files():
    while not over.is_set():
        for number in [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]:
            try:
                os.close(number)
            except OSError:
                hurt.append(number)

async def open_and_close_pipes():
    for _ in range(1_500):
        (read, theirs), (their_end, write) = os.pipe(), os.pipe()
        peer = JsonRpcPeer(Owner())
        peer.attach(await open_pipe_transport(read, write, peer))
        peer.close("enough")
        await peer.wait_closed()
        os.close(theirs)
        os.close(their_end)

thread = threading.Thread(target=open_files)
thread.start()
{"asyncio": asyncio, "uvloop": uvloop}[sys.argv[1]].run(open_and_close_pipes())
over.set()
thread.join()
print(len(hurt))
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_closing_a_pipe_never_closes_a_file_that_a_thread_opens_meanwhile(loop: str) -> None:
    """In a process of its own: an event loop whose descriptors vanish ends it."""
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", BESIDE_A_THREAD, loop],
        env=os.environ | {"PYTHONPATH": f"{root / 'src'}:{root}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (0, "0\n"), ended.stderr


async def test_threads_and_the_event_loop_write_whole_lines_side_by_side():
    (reading, far_out), (far_in, writing) = os.pipe(), os.pipe()
    peer = JsonRpcPeer(Owner())
    transport = await open_pipe_transport(reading, writing, peer)
    peer.attach(transport)
    own = b"a" * 3_000 + b"\n"

    def write_many() -> None:
        written = 0
        while written < 500:  # it may not where something waits already
            written += transport.send_at_once(b"b" * 3_000 + b"\n")

    def read_until(end: bytes) -> bytes:
        data = bytearray()
        while not data.endswith(end):
            data += os.read(far_in, 65_536)
        return bytes(data)

    got = asyncio.ensure_future(asyncio.to_thread(read_until, b"end\n"))
    writers = [asyncio.ensure_future(asyncio.to_thread(write_many)) for _ in range(2)]
    sent = 0
    while not all(writer.done() for writer in writers):
        transport.send(own)
        sent += 1
        await transport.drained()
    transport.send(b"end\n")
    lines = (await asyncio.wait_for(got, PATIENCE)).split(b"\n")
    assert {line for line in lines if line} == {own[:-1], b"b" * 3_000, b"end"}
    assert [lines.count(own[:-1]), lines.count(b"b" * 3_000)] == [sent, 1_000]

    peer.close("enough")
    await peer.wait_closed()
    assert not transport.send_at_once(b"too late\n")
    os.close(far_out)
    os.close(far_in)
