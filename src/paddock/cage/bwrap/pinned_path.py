"""Holding on to places of the host between looking at them and mounting them, in a process that may hang in our stead.

A spec names real paths: whoever compiled it saw no link on the way. But a plugin that may write beside a granted place
could put a link there a moment later, and a mount would follow it. So a mount is made from a descriptor that was opened
here, step by step and without following anything; if a link has appeared meanwhile, nothing is mounted.

Whoever looks at a file system whose server is gone (a network disk, a program that plays one) waits for it, perhaps for
ever and deaf to every signal. The warden has one thread and must not: it would take every plugin with it. So a forked
copy of it looks, and hands over descriptors. It is kept for the next cage, unless it does not answer in time: then
it is left behind, and that launch refused.
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
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple

PIN_TIMEOUT_S = 3.0  # for all places of one cage; meanwhile no other is started
_MAX_PATH_BYTES = 64 * 1024
_MAX_PIPELINED = 16  # places asked for before the first is answered; so few always fit into the socket
_ANSWER = struct.Struct("=iIII")  # errno, mode, uid, gid
_REASONS = {errno.ELOOP: "a link is on the way"}


class PathHangs(OSError):
    """A place does not answer: the file system that it is on waits for something."""


class PinnedPath(NamedTuple):
    """A pinned place and what it is; the caller closes the descriptor."""

    descriptor: int
    directory: bool
    owner: tuple[int, int]


PinFunction = Callable[[str], PinnedPath]


class PathPinner:
    """Looks at places for one warden.

    Args:
        patience: How many seconds all places of one cage may take.
    """

    def __init__(self, patience: float = PIN_TIMEOUT_S) -> None:
        self._patience = patience
        self._helper: _OpenHelper | None = None
        self._hung: list[int] = []

    @contextlib.contextmanager
    def open(self, paths: Iterable[str]) -> Generator[PinFunction]:
        """Somebody who pins these places, for one cage.

        What it gives is called once with each of them and raises OSError: nothing is there, a link is on the way
        (ELOOP), or `PlaceHangs`.
        """
        self._hung = [pid for pid in self._hung if os.waitpid(pid, os.WNOHANG) == (0, 0)]
        asking = _PinSession(self._helper or _OpenHelper(), self._abandon, paths, time.monotonic() + self._patience)
        # Only one that has told everything it was asked is of use to the next cage.
        self._helper = None
        try:
            yield asking.pin
        finally:
            asking.close()
            if asking.answered:
                self._helper = asking.helper
            else:
                self._abandon(asking.helper)

    def _abandon(self, looker: _OpenHelper) -> None:
        """Let one go that may hang: where it waits it may not even die, and nobody can wait for that."""
        looker.connection.close()
        os.kill(looker.pid, signal.SIGKILL)
        self._hung.append(looker.pid)

    def close(self) -> None:
        """Let the one go that was kept."""
        if self._helper is not None:
            self._helper.connection.close()
            os.waitpid(self._helper.pid, 0)
            self._helper = None


class _OpenHelper:
    """The copy of us that looks. Ends when nobody holds the other end of its connection."""

    def __init__(self) -> None:
        self.connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.pid = os.fork()
            if self.pid == 0:
                _serve_helper(theirs.fileno())


class _HelperExited(Exception):
    """Whoever looks is gone."""


class _PinSession:
    """The places of one cage, asked for some ahead of when they are wanted: to take turns for each would cost more
    than the looking itself.

    Args:
        looker: Who is asked.
        leave: Lets a looker go.
        paths: The places, in the order in which they will be wanted.
        deadline: When there must be an answer for all of them.
    """

    def __init__(
        self, looker: _OpenHelper, leave: Callable[[_OpenHelper], None], paths: Iterable[str], deadline: float
    ) -> None:
        self.helper = looker
        self._leave = leave
        self._paths = deque(paths)
        self._deadline = deadline
        self._asked: deque[str] = deque()
        self._answers: list[tuple[str, PinnedPath | OSError]] = []
        self._replaced = False

    @property
    def answered(self) -> bool:
        return not self._asked and not self._paths

    def pin(self, path: str) -> PinnedPath:
        # Mostly the first: whoever asks does so in the order in which the places were listed.
        while (number := next((n for n, (of, _) in enumerate(self._answers) if of == path), None)) is None:
            self._take()
        _, answer = self._answers.pop(number)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def close(self) -> None:
        for _, answer in self._answers:
            if isinstance(answer, PinnedPath):
                os.close(answer.descriptor)

    def _take(self) -> None:
        """Take the next answer; where whoever looks was ended by somebody, have another one asked instead, once."""
        try:
            answer, descriptors = self._next_answer()
        except _HelperExited:
            if self._replaced:
                raise OSError(errno.EIO, "who looks at it has ended", self._asked[0]) from None
            self._replace()
            return
        path = self._asked.popleft()
        self._answers.append((path, _parse_answer(path, answer, descriptors)))

    def _next_answer(self) -> tuple[bytes, list[int]]:
        connection = self.helper.connection
        connection.settimeout(max(0.001, self._deadline - time.monotonic()))
        try:
            while self._paths and len(self._asked) < _MAX_PIPELINED:
                self._asked.append(self._paths.popleft())
                connection.send(os.fsencode(self._asked[-1]))
            answer, descriptors, _, _ = socket.recv_fds(connection, _ANSWER.size, 1)
        except TimeoutError:
            raise PathHangs(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), self._asked[0]) from None
        except ConnectionError:
            raise _HelperExited from None
        if len(answer) != _ANSWER.size:
            raise _HelperExited
        return answer, descriptors

    def _replace(self) -> None:
        other = _OpenHelper()
        self._leave(self.helper)
        self.helper, self._replaced = other, True
        self._paths.extendleft(reversed(self._asked))
        self._asked.clear()


def _parse_answer(path: str, answer: bytes, descriptors: list[int]) -> PinnedPath | OSError:
    number, mode, uid, gid = _ANSWER.unpack(answer)
    if number:
        return OSError(number, _REASONS.get(number) or os.strerror(number), path)
    if not descriptors:
        return OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
    os.set_inheritable(descriptors[0], False)
    return PinnedPath(descriptors[0], stat.S_ISDIR(mode), (uid, gid))


def _serve_helper(connection: int) -> None:
    """What the forked copy does: answer until nobody asks. Never returns."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(connection, 0)
        # One that hangs for ever must hold nobody's pipes and sockets open.
        ceiling = os.sysconf("SC_OPEN_MAX")
        os.closerange(1, ceiling if ceiling > 0 else 1 << 20)
        asking = socket.socket(fileno=0)
        while path := asking.recv(_MAX_PATH_BYTES):
            try:
                held = pin_path(os.fsdecode(path))
                found = os.fstat(held)
            except OSError as error:
                asking.send(_ANSWER.pack(error.errno or errno.EIO, 0, 0, 0))
                continue
            socket.send_fds(asking, [_ANSWER.pack(0, found.st_mode, found.st_uid, found.st_gid)], [held])
            os.close(held)
    finally:
        os._exit(0)


def pin_path(path: str) -> int:
    """A descriptor of exactly this place, good as a source of mounts (`/proc/self/fd/N`) and for nothing else.

    The caller closes it. It is not inherited by other programs unless made so.

    Raises:
        OSError: nothing is there, or a link is on the way (ELOOP).
    """
    here = os.open("/", os.O_PATH | os.O_CLOEXEC)
    for part in path.split("/"):
        if part in ("", "."):
            continue
        outer = here
        try:
            here = _open_component(outer, part, path)
        finally:
            os.close(outer)
    return here


def _open_component(outer: int, part: str, path: str) -> int:
    """One step further down, which may be anything but a link."""
    if part == "..":
        raise OSError(errno.ELOOP, "climbs with '..'", path)
    inner = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=outer)
    # Opened like this, a link is opened itself and not refused.
    if stat.S_ISLNK(os.fstat(inner).st_mode):
        os.close(inner)
        raise OSError(errno.ELOOP, "a link is on the way", path)
    return inner
