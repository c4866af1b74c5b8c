"""The little that the compiler asks of the machine about its files. Everything else about a cage is decided purely."""

from __future__ import annotations

import os
import stat
from typing import Literal, Protocol, TypeAlias

FileKind: TypeAlias = Literal["file", "directory", "link", "special"]

_HEAD_BYTES = 256  # bytes; the kernel reads no more to find an interpreter's name
# A file may have become a pipe since it was looked at: without NONBLOCK opening that would wait for a writer, for good.
_SAFE_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


class HostFilesystem(Protocol):
    """Files of the host. No method raises or waits, whatever is at a path and whatever became of it meanwhile."""

    def kind(self, path: str) -> FileKind | None:
        """What stands at the path itself; None where nothing does or nobody may look.

        Pipes, sockets and devices are special.
        """
        ...

    def link(self, path: str) -> str:
        """Where the link at the path points, as it is written; empty where there is no link."""
        ...

    def entries(self, path: str) -> list[str]:
        """The names in a directory."""
        ...

    def runnable(self, path: str) -> bool:
        """Whether there is a regular file and somebody may execute it."""
        ...

    def read_head(self, path: str) -> bytes:
        """The first bytes of a regular file, enough for a line that names its interpreter; else nothing."""
        ...


class DiskFilesystem:
    """This machine."""

    def kind(self, path: str) -> FileKind | None:
        try:
            mode = os.lstat(path).st_mode  # no Path: to make one takes longer than the look
        except (OSError, ValueError):
            return None
        if stat.S_ISLNK(mode):
            return "link"
        return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "special"

    def link(self, path: str) -> str:
        try:
            return os.readlink(path)  # noqa: PTH115 as it is written
        except (OSError, ValueError):
            return ""

    def entries(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))  # noqa: PTH208 names, not paths
        except (OSError, ValueError):
            return []

    def runnable(self, path: str) -> bool:
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116 as above
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(mode) and bool(mode & 0o111)

    def read_head(self, path: str) -> bytes:
        try:
            descriptor = os.open(path, _SAFE_OPEN_FLAGS)
        except (OSError, ValueError):
            return b""
        try:
            return os.read(descriptor, _HEAD_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
        except OSError:
            return b""
        finally:
            os.close(descriptor)


class CachedFilesystem:
    """A machine that is asked once what stands at a path, and once where a link points.

    Somebody may change a link meanwhile, and what is judged must be what is shown.
    """

    def __init__(self, machine: HostFilesystem) -> None:
        self._machine = machine
        self._kinds: dict[str, FileKind | None] = {}
        self._links: dict[str, str] = {}

    def kind(self, path: str) -> FileKind | None:
        if path not in self._kinds:
            self._kinds[path] = self._machine.kind(path)
        return self._kinds[path]

    def link(self, path: str) -> str:
        if path not in self._links:
            self._links[path] = self._machine.link(path)
        return self._links[path]

    def entries(self, path: str) -> list[str]:
        return self._machine.entries(path)

    def runnable(self, path: str) -> bool:
        return self._machine.runnable(path)

    def read_head(self, path: str) -> bytes:
        return self._machine.read_head(path)
