"""Durable directory entries, and the errors of a full disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make the directory's entries durable; syncing a file does not do that for its name."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


OUT_OF_SPACE_ERRNOS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
