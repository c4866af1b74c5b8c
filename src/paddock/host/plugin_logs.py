"""What plugins write to their standard error, kept in one file each and shown to whoever follows it."""

from __future__ import annotations

import contextlib
import json
import os
from collections import deque
from pathlib import Path
from typing import Any

from paddock.core.clock import Clock
from paddock.host.followers import Followers, Following

LARGEST_FILE = 1024 * 1024
FOLLOWER_LINES = 1_000
_OLD = ".1"


class PluginLogs:
    """One log file a plugin, with one older file behind it. A full disk costs lines, never the daemon."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self.directory = directory
        self._clock = clock
        self._sizes: dict[str, int] = {}
        self._descriptors: dict[str, int] = {}
        self._followers: Followers[dict[str, Any]] = Followers(FOLLOWER_LINES)

    def write(self, plugin: str, line: str) -> None:
        """Keep one line, and show it to its followers."""
        entry = {"at": self._clock.now().isoformat(), "line": line}
        data = json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with contextlib.suppress(OSError):
            self._append(plugin, data)
        self._followers.tell(plugin, entry)

    def follow(self, plugin: str) -> Following[dict[str, Any]]:
        """The lines that are written from now on."""
        return self._followers.follow(plugin)

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _append(self, plugin: str, data: bytes) -> None:
        descriptor = self._descriptors.get(plugin)
        if descriptor is None or self._sizes[plugin] + len(data) > LARGEST_FILE:
            descriptor = self._open(plugin, rotate=descriptor is not None)
        self._sizes[plugin] += os.write(descriptor, data)

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


def last_lines(directory: Path, plugin: str, count: int) -> list[dict[str, Any]]:
    """The last lines that were kept, oldest first; works without a daemon."""
    path = log_file(directory, plugin)
    kept: deque[dict[str, Any]] = deque(maxlen=count)
    for file in (path.with_name(path.name + _OLD), path):
        with contextlib.suppress(OSError), file.open("rb") as lines:
            for line in lines:
                with contextlib.suppress(ValueError):  # cut short by a full disk
                    kept.append(json.loads(line))
    return list(kept)
