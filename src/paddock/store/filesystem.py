"""Making names on disk outlive a power cut."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make names in the directory durable; syncing a file does not do that for its name."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


OUT_OF_SPACE_ERRNOS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
