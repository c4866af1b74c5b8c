"""Holding on to a place of the host between looking at it and mounting it.

A spec names real paths: whoever compiled it saw no link on the way. But a plugin that may write beside a granted place
could put a link there a moment later, and a mount would follow it. So a mount is made from a descriptor that was opened
here, step by step and without following anything; if a link has appeared meanwhile, nothing is mounted.
"""

from __future__ import annotations

import errno
import os
import stat


def pinned(path: str) -> int:
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
            here = _step(outer, part, path)
        finally:
            os.close(outer)
    return here


def _step(outer: int, part: str, path: str) -> int:
    """One step further down, which may be anything but a link."""
    if part == "..":
        raise OSError(errno.ELOOP, "climbs with '..'", path)
    inner = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=outer)
    # Opened like this, a link is opened itself and not refused.
    if stat.S_ISLNK(os.fstat(inner).st_mode):
        os.close(inner)
        raise OSError(errno.ELOOP, "a link is on the way", path)
    return inner
