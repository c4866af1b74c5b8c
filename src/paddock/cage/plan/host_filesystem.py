"""The file system queries of the cage compiler. Everything else about a cage is decided purely."""

from __future__ import annotations

import os
import stat
from typing import Literal, Protocol, TypeAlias

FileKind: TypeAlias = Literal["file", "directory", "link", "special"]

_HEAD_BYTES = 256  # bytes; the kernel reads no more to find an interpreter's name
# A file may have become a pipe since it was checked: without NONBLOCK opening it would block for a writer, forever.
_SAFE_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


class HostFilesystem(Protocol):
    """Files of the host. No method raises or blocks, whatever is at a path and whatever became of it meanwhile."""

    def kind(self, path: str) -> FileKind | None:
        """The type of the path itself; None where it does not exist or may not be read.

        Pipes, sockets and devices are special.
        """
        ...

    def link(self, path: str) -> str:
        """The target of the link at the path, as written; empty where there is no link."""
        ...

    def entries(self, path: str) -> list[str]:
        """The names in a directory."""
        ...

    def runnable(self, path: str) -> bool:
        """Whether the path is a regular file with an execute bit."""
        ...

    def read_head(self, path: str) -> bytes:
        """The first bytes of a regular file, enough for its `#!` line; else nothing."""
        ...


class DiskFilesystem:
    """The file system of this host."""

    def kind(self, path: str) -> FileKind | None:
        try:
            mode = os.lstat(path).st_mode  # no Path: creating one takes longer than the call
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
    """Caches the type of each path and the target of each link.

    A link may change meanwhile, and what was checked must be what is shown.
    """

    def __init__(self, filesystem: HostFilesystem) -> None:
        self._filesystem = filesystem
        self._kinds: dict[str, FileKind | None] = {}
        self._links: dict[str, str] = {}

    def kind(self, path: str) -> FileKind | None:
        if path not in self._kinds:
            self._kinds[path] = self._filesystem.kind(path)
        return self._kinds[path]

    def link(self, path: str) -> str:
        if path not in self._links:
            self._links[path] = self._filesystem.link(path)
        return self._links[path]

    def entries(self, path: str) -> list[str]:
        return self._filesystem.entries(path)

    def runnable(self, path: str) -> bool:
        return self._filesystem.runnable(path)

    def read_head(self, path: str) -> bytes:
        return self._filesystem.read_head(path)
