"""Pinning places of the host in a process of its own, which may hang in our stead.

Whoever looks at a file system whose server is gone (a network disk, a program that plays one) waits for it, perhaps for
ever and deaf to every signal. The warden has one thread and must not: it would take every plugin with it. So a forked
copy of it looks, and hands over descriptors; one that does not answer in time is left behind, and that launch refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import stat
import struct
import time
from collections.abc import Callable, Generator
from typing import NamedTuple

from paddock.cage.pinned import pinned

PATIENCE_SECONDS = 3.0  # for all places of one cage; meanwhile no other is started
_LONGEST_PATH = 64 * 1024
_ANSWER = struct.Struct("=iIII")  # errno, mode, uid, gid
_REASONS = {errno.ELOOP: "a link is on the way"}


class PlaceHangs(OSError):
    """A place does not answer: the file system that it is on waits for something."""


class Place(NamedTuple):
    """A pinned place and what it is; the caller closes the descriptor."""

    descriptor: int
    directory: bool
    owner: tuple[int, int]


Pin = Callable[[str], Place]


class Pinning:
    """Looks at places for one warden.

    Args:
        patience: How many seconds all places of one cage may take.
    """

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._hung: list[int] = []

    @contextlib.contextmanager
    def open(self) -> Generator[Pin]:
        """Somebody who pins, for the places of one cage.

        What it gives is called with a path and raises OSError: nothing is there, a link is on the way (ELOOP), or
        `PlaceHangs`.
        """
        self._hung = [pid for pid in self._hung if os.waitpid(pid, os.WNOHANG) == (0, 0)]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                looker = os.fork()
                if looker == 0:
                    _look(theirs.fileno())
            deadline = time.monotonic() + self._patience
            hangs = False

            def pin(path: str) -> Place:
                nonlocal hangs
                ours.settimeout(max(0.001, deadline - time.monotonic()))
                try:
                    return _ask(ours, path)
                except TimeoutError:
                    hangs = True
                    raise PlaceHangs(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), path) from None

            try:
                yield pin
            finally:
                ours.close()
                if hangs:
                    # Where it waits it may not even die, and nobody can wait for that.
                    os.kill(looker, signal.SIGKILL)
                    self._hung.append(looker)
                else:
                    os.waitpid(looker, 0)


def _ask(connection: socket.socket, path: str) -> Place:
    connection.send(os.fsencode(path))
    answer, descriptors, _, _ = socket.recv_fds(connection, _ANSWER.size, 1)
    if len(answer) != _ANSWER.size:
        raise OSError(errno.EIO, "who looks at it has ended", path)
    number, mode, uid, gid = _ANSWER.unpack(answer)
    if number:
        raise OSError(number, _REASONS.get(number) or os.strerror(number), path)
    if not descriptors:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
    os.set_inheritable(descriptors[0], False)
    return Place(descriptors[0], stat.S_ISDIR(mode), (uid, gid))


def _look(connection: int) -> None:
    """What the forked copy does: answer until nobody asks. Never returns."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(connection, 0)
        # One that hangs for ever must hold nobody's pipes and sockets open.
        ceiling = os.sysconf("SC_OPEN_MAX")
        os.closerange(1, ceiling if ceiling > 0 else 1 << 20)
        asking = socket.socket(fileno=0)
        while path := asking.recv(_LONGEST_PATH):
            try:
                held = pinned(os.fsdecode(path))
                found = os.fstat(held)
            except OSError as error:
                asking.send(_ANSWER.pack(error.errno or errno.EIO, 0, 0, 0))
                continue
            socket.send_fds(asking, [_ANSWER.pack(0, found.st_mode, found.st_uid, found.st_gid)], [held])
            os.close(held)
    finally:
        os._exit(0)
