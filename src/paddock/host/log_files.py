"""The files that keep what plugins write to their standard error: one each, with one older file behind it. Blocks."""

from __future__ import annotations

import contextlib
import json
import os
from collections import deque
from pathlib import Path
from typing import Any

LARGEST_FILE = 1024 * 1024
_OLD = ".1"


class LogFiles:
    """The files while they are written to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._sizes: dict[str, int] = {}
        self._descriptors: dict[str, int] = {}

    def append(self, plugin: str, data: bytes) -> None:
        """Put whole lines behind the others.

        Raises:
            OSError: the disk is full or gone; some of it may have been written.
        """
        descriptor = self._descriptors.get(plugin)
        if descriptor is None or self._sizes[plugin] + len(data) > LARGEST_FILE:
            descriptor = self._open(plugin, rotate=descriptor is not None)
        while data:
            written = os.write(descriptor, data)
            self._sizes[plugin] += written
            data = data[written:]

    def forget(self, plugin: str) -> None:
        """Remove what was kept of a plugin.

        Raises:
            OSError: the disk does not let us.
        """
        descriptor = self._descriptors.pop(plugin, None)
        if descriptor is not None:
            os.close(descriptor)
        remove_log(self.directory, plugin)

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _open(self, plugin: str, *, rotate: bool) -> int:
        path = log_file(self.directory, plugin)
        old = self._descriptors.pop(plugin, None)
        if old is not None:
            os.close(old)
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if rotate:
            path.rename(path.with_name(path.name + _OLD))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._descriptors[plugin] = descriptor
        self._sizes[plugin] = os.fstat(descriptor).st_size
        return descriptor


def log_file(directory: Path, plugin: str) -> Path:
    """Where a plugin's lines are. The name passed the name rules, so it cannot climb."""
    return directory / f"{plugin}.log"


def remove_log(directory: Path, plugin: str) -> None:
    """Remove what was kept of a plugin, while no daemon writes there.

    Raises:
        OSError: the disk does not let us.
    """
    path = log_file(directory, plugin)
    for file in (path.with_name(path.name + _OLD), path):
        file.unlink(missing_ok=True)


def last_lines(directory: Path, plugin: str, count: int) -> list[dict[str, Any]]:
    """The last lines that were kept, oldest first; works without a daemon."""
    path = log_file(directory, plugin)
    kept: deque[dict[str, Any]] = deque(maxlen=count)
    for file in (path.with_name(path.name + _OLD), path):
        with contextlib.suppress(OSError), file.open("rb") as lines:
            for line in lines:
                with contextlib.suppress(ValueError, RecursionError):  # cut short by a full disk, or not ours
                    kept.append(json.loads(line))
    return list(kept)
