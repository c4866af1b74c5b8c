"""Files and directory entries that are on disk when a call returns, and the errors of a full disk."""

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


def create_private_file(path: Path, content: bytes) -> None:
    """Create a file that only its owner can read, from its first byte on. See `sync_directory` for its name.

    Raises:
        FileExistsError: it exists already.
        OSError: it cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_private_file(path: Path, content: bytes) -> None:
    """Create or replace a file in one step: at any time it has its old or its new content. One writer at a time.

    Raises:
        OSError: it cannot be written, and is as it was.
    """
    # One fixed name, so that the next call removes what a killed one left.
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    create_private_file(draft, content)
    draft.replace(path)
    sync_directory(path.parent)


OUT_OF_SPACE_ERRNOS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def system_error(error: OSError, hint: str = "") -> HostError:
    """Wrap an error of the operating system that nothing else has handled; the hint is for all but a full disk."""
    path = f": {error.filename}" if error.filename else ""
    if error.errno in OUT_OF_SPACE_ERRNOS:
        return StoreUnavailable(f"there is no room left{path}", code="store.full", hint="free some space: df -h")
    return HostError(f"the system refused: {error.strerror}{path}", code="system_refused", hint=hint)
