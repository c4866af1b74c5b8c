"""Durable directory entries, and the errors of a full disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from paddock.core.errors import HostError, StoreUnavailable


def sync_directory(directory: Path) -> None:
    """Make the directory's entries durable; syncing a file does not do that for its name."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


OUT_OF_SPACE_ERRNOS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def system_error(error: OSError, hint: str = "") -> HostError:
    """Wrap an error of the operating system that nothing else has handled; the hint is for all but a full disk."""
    path = f": {error.filename}" if error.filename else ""
    if error.errno in OUT_OF_SPACE_ERRNOS:
        return StoreUnavailable(f"there is no room left{path}", code="store.full", hint="free some space: df -h")
    return HostError(f"the system refused: {error.strerror}{path}", code="system_refused", hint=hint)
