"""Opens paths of the host by descriptor before they are mounted, in a helper process that may hang in our place.

A spec names real paths: the compiler saw no symlink in them. But a plugin that can write next to a granted path
could put a symlink there a moment later, and a mount would follow it. So a mount is made from a descriptor opened
here, component by component and without following links; if a symlink has appeared meanwhile, nothing is mounted.

Opening a path on a file system whose server is gone (a network disk, a FUSE program) blocks, perhaps forever and
uninterruptible by signals. The warden has one thread and must not block: every plugin would hang with it. So a forked
helper opens the paths and passes the descriptors back. It is kept for the next cage, unless it does not answer in time:
then it is abandoned, and that launch is refused.
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

PIN_TIMEOUT_S = 3.0  # for all paths of one cage; meanwhile no other cage is started
_MAX_PATH_BYTES = 64 * 1024
_MAX_PIPELINED = 16  # paths requested before the first answer; so few always fit into the socket
_ANSWER = struct.Struct("=iIII")  # errno, mode, uid, gid
_REASONS = {errno.ELOOP: "a link is on the way"}


class PathHangs(OSError):
    """A path does not answer: its file system is blocked."""


class PinnedPath(NamedTuple):
    """A pinned path and its type. The caller closes the descriptor."""

    descriptor: int
    directory: bool
    owner: tuple[int, int]


PinFunction = Callable[[str], PinnedPath]


class PathPinner:
    """Pins paths for one warden.

    Args:
        timeout_s: Time limit for all paths of one cage together.
    """

    def __init__(self, timeout_s: float = PIN_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._helper: _OpenHelper | None = None
        self._hung: list[int] = []

    @contextlib.contextmanager
    def open(self, paths: Iterable[str]) -> Generator[PinFunction]:
        """Give a function that pins these paths, for one cage.

        Call the function once with each path. It raises OSError when the path does not exist or contains a symlink
        (ELOOP), and `PathHangs` when it does not answer.
        """
        self._hung = [pid for pid in self._hung if os.waitpid(pid, os.WNOHANG) == (0, 0)]
        session = _PinSession(self._helper or _OpenHelper(), self._abandon, paths, time.monotonic() + self._timeout_s)
        # Only a helper without outstanding requests can be reused for the next cage.
        self._helper = None
        try:
            yield session.pin
        finally:
            session.close()
            if session.answered:
                self._helper = session.helper
            else:
                self._abandon(session.helper)

    def _abandon(self, helper: _OpenHelper) -> None:
        """Kill a helper that may hang, without waiting: it may be unkillable where it blocks."""
        helper.connection.close()
        os.kill(helper.pid, signal.SIGKILL)
        self._hung.append(helper.pid)

    def close(self) -> None:
        """End the idle helper."""
        if self._helper is not None:
            self._helper.connection.close()
            os.waitpid(self._helper.pid, 0)
            self._helper = None


class _OpenHelper:
    """A forked copy of the warden that opens paths. Ends when the other end of its connection is closed."""

    def __init__(self) -> None:
        self.connection, helper_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with helper_end:
            self.pid = os.fork()
            if self.pid == 0:
                _serve_helper(helper_end.fileno())


class _HelperExited(Exception):
    """The helper process is gone."""


class _PinSession:
    """The paths of one cage, requested ahead of their use: a round trip for each would cost more than opening them.

    Args:
        helper: The process that opens paths.
        abandon: Gives a helper up.
        paths: The paths, in the order in which they will be pinned.
        deadline: When all of them must be answered.
    """

    def __init__(
        self, helper: _OpenHelper, abandon: Callable[[_OpenHelper], None], paths: Iterable[str], deadline: float
    ) -> None:
        self.helper = helper
        self._abandon = abandon
        self._paths = deque(paths)
        self._deadline = deadline
        self._requested: deque[str] = deque()
        self._answers: list[tuple[str, PinnedPath | OSError]] = []
        self._replaced = False

    @property
    def answered(self) -> bool:
        return not self._requested and not self._paths

    def pin(self, path: str) -> PinnedPath:
        # Mostly the first: the caller pins in the order in which the paths were listed.
        while (
            index := next((n for n, (answered_path, _) in enumerate(self._answers) if answered_path == path), None)
        ) is None:
            self._receive()
        _, answer = self._answers.pop(index)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def close(self) -> None:
        for _, answer in self._answers:
            if isinstance(answer, PinnedPath):
                os.close(answer.descriptor)

    def _receive(self) -> None:
        """Receive the next answer. Where the helper was killed by someone else, repeat with a new one, once."""
        try:
            answer, descriptors = self._next_answer()
        except _HelperExited:
            if self._replaced:
                raise OSError(errno.EIO, "who looks at it has ended", self._requested[0]) from None
            self._replace()
            return
        path = self._requested.popleft()
        self._answers.append((path, _parse_answer(path, answer, descriptors)))

    def _next_answer(self) -> tuple[bytes, list[int]]:
        connection = self.helper.connection
        connection.settimeout(max(0.001, self._deadline - time.monotonic()))
        try:
            while self._paths and len(self._requested) < _MAX_PIPELINED:
                self._requested.append(self._paths.popleft())
                connection.send(os.fsencode(self._requested[-1]))
            answer, descriptors, _, _ = socket.recv_fds(connection, _ANSWER.size, 1)
        except TimeoutError:
            raise PathHangs(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), self._requested[0]) from None
        except ConnectionError:
            raise _HelperExited from None
        if len(answer) != _ANSWER.size:
            raise _HelperExited
        return answer, descriptors

    def _replace(self) -> None:
        helper = _OpenHelper()
        self._abandon(self.helper)
        self.helper, self._replaced = helper, True
        self._paths.extendleft(reversed(self._requested))
        self._requested.clear()


def _parse_answer(path: str, answer: bytes, descriptors: list[int]) -> PinnedPath | OSError:
    number, mode, uid, gid = _ANSWER.unpack(answer)
    if number:
        return OSError(number, _REASONS.get(number) or os.strerror(number), path)
    if not descriptors:
        return OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
    os.set_inheritable(descriptors[0], False)
    return PinnedPath(descriptors[0], stat.S_ISDIR(mode), (uid, gid))


def _serve_helper(connection: int) -> None:
    """Run in the forked helper: answer until the connection is closed. Never returns."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(connection, 0)
        # A helper that hangs forever must hold no other process's pipes and sockets open.
        ceiling = os.sysconf("SC_OPEN_MAX")
        os.closerange(1, ceiling if ceiling > 0 else 1 << 20)
        requests = socket.socket(fileno=0)
        while path := requests.recv(_MAX_PATH_BYTES):
            try:
                descriptor = pin_path(os.fsdecode(path))
                status = os.fstat(descriptor)
            except OSError as error:
                requests.send(_ANSWER.pack(error.errno or errno.EIO, 0, 0, 0))
                continue
            socket.send_fds(requests, [_ANSWER.pack(0, status.st_mode, status.st_uid, status.st_gid)], [descriptor])
            os.close(descriptor)
    finally:
        os._exit(0)


def pin_path(path: str) -> int:
    """Open exactly this path, as a source of mounts (`/proc/self/fd/N`) and for nothing else.

    The caller closes the descriptor. It is close-on-exec.

    Raises:
        OSError: The path does not exist, or contains a symlink (ELOOP).
    """
    current = os.open("/", os.O_PATH | os.O_CLOEXEC)
    for component in path.split("/"):
        if component in ("", "."):
            continue
        parent = current
        try:
            current = _open_component(parent, component, path)
        finally:
            os.close(parent)
    return current


def _open_component(parent: int, component: str, path: str) -> int:
    """Open one path component, which may be anything but a symlink."""
    if component == "..":
        raise OSError(errno.ELOOP, "climbs with '..'", path)
    descriptor = os.open(component, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    # With these flags a symlink is opened itself and not refused.
    if stat.S_ISLNK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ELOOP, "a link is on the way", path)
    return descriptor
