"""Where the processes of calls come from: a copy of the worker, made before anything was heard, that only makes copies.

The process that talks with the host has the words of every caller in its memory, and what it forgot can still be found
there. So no call runs in a copy of that one. The nursery never hears a word of a call, nor how one ended: whatever
happens, it stays what it was when it began, and so is each copy of it.

    worker → nursery   `n`: a new one, please
    nursery → worker   `n` with three descriptors (`Born`), or with none: it cannot be made

A copy is made by a process that ends at once. The kernel then gives it to the nearest process that adopts orphans,
which is the worker: it ends the copy, and is told how it ended.
"""

from __future__ import annotations

import _socket
import os
from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, NoReturn

from paddock_sdk.pipes import close_pipes
from paddock_sdk.worker.sandbox import become_subreaper

_FORK_REQUEST = b"n"
_PIPES_PER_FORK = 3  # descriptors for each copy


class ForkPipes(NamedTuple):
    """Descriptors of a copy."""

    source: int  # what it is told
    sink: int  # what it says
    log: int  # what it prints


class ForkedProcess(NamedTuple):
    """The worker's ends of the same pipes."""

    pid: int
    source: int  # what the copy says
    sink: int  # what it is told
    log: int  # what it prints


class ForkFailed(Exception):
    """There is no room for another process."""


class ForkServer:
    """The worker's end.

    Args:
        live: What a copy does with its ends; must not return.

    Raises:
        CannotSeclude: the kernel lacks something.
        OSError: no process can be made.
    """

    def __init__(self, live: Callable[[ForkPipes], NoReturn]) -> None:
        become_subreaper()
        self._link, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            _run_fork_server(theirs, live)
        theirs.close()

    def fork_process(self) -> ForkedProcess:
        """A copy, which begins to load the plugin at once.

        Raises:
            NoChild: it cannot be made now.
            OSError: there is no nursery any more.
        """
        self._link.send(_FORK_REQUEST)
        said, handed, _, _ = self._link.recvmsg(1, _socket.CMSG_LEN(4 * _PIPES_PER_FORK), _socket.MSG_CMSG_CLOEXEC)
        if not said:
            raise OSError("the process that makes the processes of calls has ended")
        ends = array("i")
        for _, _, data in handed:
            ends.frombytes(data)
        pid = os.read(ends[0], 4) if ends else b""  # the first that it says
        if len(pid) != 4:
            for end in ends:
                os.close(end)
            raise ForkFailed("no process can be made for this call")
        return ForkedProcess(int.from_bytes(pid, "little"), *ends)

    def close(self) -> None:
        """End it; copies live on."""
        self._link.close()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _run_fork_server(link: _socket.socket, live: Callable[[ForkPipes], NoReturn]) -> NoReturn:
    try:
        # The pipes to the host are the worker's alone.
        close_pipes()
        close_other_descriptors({0, 1, 2, link.fileno()})
        while link.recv(1):
            _fork_one(link, live)
    finally:
        os._exit(0)


def _fork_one(link: _socket.socket, live: Callable[[ForkPipes], NoReturn]) -> None:
    pipes: list[tuple[int, int]] = []
    try:
        pipes += [os.pipe() for _ in range(_PIPES_PER_FORK)]
        (theirs_to_read, sink), (source, theirs_to_write), (log, theirs_to_log) = pipes
        if os.fork() == 0:
            _orphan_fork(live, ForkPipes(theirs_to_read, theirs_to_write, theirs_to_log))
        ours = array("i", (source, sink, log) if os.wait()[1] == 0 else ())
    except OSError:
        ours = array("i")
    link.sendmsg([_FORK_REQUEST], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, ours)] if ours else [])
    for pipe in pipes:
        for end in pipe:
            os.close(end)


def _orphan_fork(live: Callable[[ForkPipes], NoReturn], ends: ForkPipes) -> NoReturn:
    """Make the copy, and end, so that it is an orphan."""
    failed = 1
    try:
        if os.fork() == 0:
            os.write(ends.sink, os.getpid().to_bytes(4, "little"))
            live(ends)
        failed = 0
    finally:
        os._exit(failed)


def close_other_descriptors(kept: set[int]) -> None:
    """Close every other descriptor of this process."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) not in kept:
            with suppress(OSError):  # the one that listed them is closed already
                os.close(int(name))
