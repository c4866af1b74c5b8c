"""Noticing that a folder changed, by looking at the times and sizes of its files again and again.

No notification of the operating system is used: a look at a few hundred files takes about a millisecond, works on every
file system, and needs nothing that could run out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TypeAlias

from paddock.plugins.package.rules import DEFAULT_LIMITS, is_excluded

POLL_INTERVAL_S = 0.1  # seconds between two looks
DEBOUNCE_S = 0.03  # after a change: editors write a file in several steps
MAX_DEBOUNCE_STEPS = (
    10  # a file that does not rest within these, such as a log, holds nothing up and counts for nothing
)
SCAN_PAUSE_FACTOR = 10  # a look that takes long is followed by a pause this many times as long

# Path → what tells one content from another.
FileStamps: TypeAlias = dict[str, tuple[int, int, int]]


def scan_folder(folder: Path, most: int = DEFAULT_LIMITS.files) -> FileStamps:
    """The files that a package made of this folder would have, at most so many. Blocks."""
    found: FileStamps = {}
    pending = [str(folder)]
    while pending and len(found) < most:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if is_excluded(entry.name):
                    continue
                # A file that vanished between the two is as good as never seen.
                with contextlib.suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(about.st_mode):
                        pending.append(entry.path)
                    else:
                        found[entry.path] = (about.st_mtime_ns, about.st_size, about.st_mode)
    return found


def changed_files(before: FileStamps, after: FileStamps, folder: Path) -> tuple[str, ...]:
    """Which files differ, as paths inside the folder."""
    differ = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    return tuple(sorted(os.path.relpath(path, folder) for path in differ))


async def watch_changes(
    folder: Path, known: FileStamps, *, pause: float = POLL_INTERVAL_S
) -> AsyncGenerator[tuple[str, ...], None]:
    """The files of each change from `known` on, once nothing has moved for a moment. Never ends by itself.

    What changes while the last change is dealt with is the next one.
    """
    seen = known
    while True:
        began = time.monotonic()
        now = await asyncio.to_thread(scan_folder, folder)
        spent = time.monotonic() - began
        if now == seen:
            await asyncio.sleep(max(pause, spent * SCAN_PAUSE_FACTOR))
            continue
        restless: tuple[str, ...] = ()
        for _ in range(MAX_DEBOUNCE_STEPS):
            await asyncio.sleep(DEBOUNCE_S)
            before, now = now, await asyncio.to_thread(scan_folder, folder)
            restless = changed_files(before, now, folder)
            if not restless:
                break
        files = tuple(one for one in changed_files(seen, now, folder) if one not in restless)
        seen = now
        if files:
            yield files
