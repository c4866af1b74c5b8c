"""Detection of changes in a folder, by polling the times and sizes of its files.

No notification API of the operating system is used: a scan of a few hundred files takes about a millisecond, works on
every file system, and needs no limited resource.
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

from paddock.plugins.package.from_directory import development_packages
from paddock.plugins.package.rules import DEFAULT_LIMITS, is_excluded

POLL_INTERVAL_S = 0.1
DEBOUNCE_S = 0.03  # after a change: editors write a file in several steps
MAX_DEBOUNCE_STEPS = 10  # a file that still changes after these, such as a log, is ignored
SCAN_PAUSE_FACTOR = 10  # a slow scan is followed by a pause this many times as long

# Path → modification time, size and mode.
FileStamps: TypeAlias = dict[str, tuple[int, int, int]]


def scan_folder(folder: Path, max_files: int = DEFAULT_LIMITS.files) -> FileStamps:
    """Return the files that a package of this folder would contain, up to a maximum. Blocks."""
    stamps: FileStamps = {}
    left_out = development_packages(folder)
    skip = len(str(folder)) + 1
    pending = [str(folder)]
    while pending and len(stamps) < max_files:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                path = entry.path[skip:]
                if is_excluded(path) or path in left_out:
                    continue
                # A file that vanished meanwhile is treated as never seen.
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        pending.append(entry.path)
                    else:
                        stamps[entry.path] = (status.st_mtime_ns, status.st_size, status.st_mode)
    return stamps


def changed_files(before: FileStamps, after: FileStamps, folder: Path) -> tuple[str, ...]:
    """Return the files that differ, as paths inside the folder."""
    changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    return tuple(sorted(os.path.relpath(path, folder) for path in changed))


async def watch_changes(
    folder: Path, stamps: FileStamps, *, interval_s: float = POLL_INTERVAL_S
) -> AsyncGenerator[tuple[str, ...], None]:
    """Yield the files of each change since `stamps`, once they have settled. Never ends by itself.

    Changes made while the consumer handles the last change are the next change.
    """
    seen = stamps
    while True:
        started = time.monotonic()
        current = await asyncio.to_thread(scan_folder, folder)
        scan_s = time.monotonic() - started
        if current == seen:
            await asyncio.sleep(max(interval_s, scan_s * SCAN_PAUSE_FACTOR))
            continue
        unsettled: tuple[str, ...] = ()
        for _ in range(MAX_DEBOUNCE_STEPS):
            await asyncio.sleep(DEBOUNCE_S)
            previous, current = current, await asyncio.to_thread(scan_folder, folder)
            unsettled = changed_files(previous, current, folder)
            if not unsettled:
                break
        files = tuple(file for file in changed_files(seen, current, folder) if file not in unsettled)
        seen = current
        if files:
            yield files
