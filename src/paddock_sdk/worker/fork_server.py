"""The fork server: a copy of the worker, made before any message was read, that only forks further copies.

The process that talks with the host has data of every caller in its memory, and freed memory may still hold it. So no
call runs in a copy of that process. The fork server never receives any part of a call, nor its outcome: it stays what
it was at its start, and so is each copy of it.

    worker → fork server   `n`: fork a process
    fork server → worker   `n` with three descriptors (`ForkedProcess`), or with none if it failed

A copy is forked by an intermediate process that exits at once. The kernel then reparents it to the nearest subreaper,
which is the worker: it kills the copy, and receives its exit status.
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
_PIPES_PER_FORK = 3  # descriptors per process


class ForkPipes(NamedTuple):
    """The descriptors of a forked process."""

    source: int  # messages to it
    sink: int  # messages from it
    log: int  # its output


class ForkedProcess(NamedTuple):
    """The worker's ends of the same pipes."""

    pid: int
    source: int  # messages from the process
    sink: int  # messages to it
    log: int  # its output


class ForkFailed(Exception):
    """No process can be forked now."""


class ForkServer:
    """The worker's handle of the fork server.

    Args:
        child_main: Runs in each forked process, with its pipes; must not return.

    Raises:
        SandboxUnavailable: the kernel lacks a feature.
        OSError: no process can be forked.
    """

    def __init__(self, child_main: Callable[[ForkPipes], NoReturn]) -> None:
        become_subreaper()
        self._link, server_link = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            _run_fork_server(server_link, child_main)
        server_link.close()

    def fork_process(self) -> ForkedProcess:
        """Fork a process, which starts loading the plugin at once.

        Raises:
            ForkFailed: it cannot be forked now.
            OSError: the fork server has ended.
        """
        self._link.send(_FORK_REQUEST)
        reply, ancillary, _, _ = self._link.recvmsg(1, _socket.CMSG_LEN(4 * _PIPES_PER_FORK), _socket.MSG_CMSG_CLOEXEC)
        if not reply:
            raise OSError("the process that makes the processes of calls has ended")
        descriptors = array("i")
        for _, _, data in ancillary:
            descriptors.frombytes(data)
        pid = os.read(descriptors[0], 4) if descriptors else b""  # its first output is its pid
        if len(pid) != 4:
            for descriptor in descriptors:
                os.close(descriptor)
            raise ForkFailed("no process can be made for this call")
        return ForkedProcess(int.from_bytes(pid, "little"), *descriptors)

    def close(self) -> None:
        """Stop the fork server; forked processes live on."""
        self._link.close()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _run_fork_server(link: _socket.socket, child_main: Callable[[ForkPipes], NoReturn]) -> NoReturn:
    try:
        # Only the worker may use the pipes to the host.
        close_pipes()
        close_other_descriptors({0, 1, 2, link.fileno()})
        while link.recv(1):
            _fork_one(link, child_main)
    finally:
        os._exit(0)


def _fork_one(link: _socket.socket, child_main: Callable[[ForkPipes], NoReturn]) -> None:
    pipes: list[tuple[int, int]] = []
    try:
        pipes += [os.pipe() for _ in range(_PIPES_PER_FORK)]
        (child_source, sink), (source, child_sink), (log, child_log) = pipes
        if os.fork() == 0:
            _orphan_fork(child_main, ForkPipes(child_source, child_sink, child_log))
        descriptors = array("i", (source, sink, log) if os.wait()[1] == 0 else ())
    except OSError:
        descriptors = array("i")
    link.sendmsg([_FORK_REQUEST], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)] if descriptors else [])
    for pipe in pipes:
        for descriptor in pipe:
            os.close(descriptor)


def _orphan_fork(child_main: Callable[[ForkPipes], NoReturn], pipes: ForkPipes) -> NoReturn:
    """Fork the call process and exit, so that it becomes an orphan."""
    failed = 1
    try:
        if os.fork() == 0:
            os.write(pipes.sink, os.getpid().to_bytes(4, "little"))
            child_main(pipes)
        failed = 0
    finally:
        os._exit(failed)


def close_other_descriptors(kept: set[int]) -> None:
    """Close all descriptors of this process but these."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) not in kept:
            with suppress(OSError):  # the descriptor of the listing itself is closed already
                os.close(int(name))
