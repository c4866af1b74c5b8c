"""Files and directory entries that are on disk when a call returns, removal of trees, and the errors of a full disk."""

from __future__ import annotations

import errno
import os
import stat
from itertools import count
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


def remove_tree(root: Path) -> None:
    """Remove a file, link or directory with all that is in it, however deep it is and whatever its modes are.

    A plugin can nest directories deeper than a path can be long. So each directory inside is moved up before it is
    emptied. Links are removed and never followed.

    Raises:
        OSError: something cannot be removed.
    """
    if root.is_symlink() or not root.is_dir():
        root.unlink(missing_ok=True)
        return
    root.chmod(0o700)
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        names = _names_in(top)
        unused = (f"{os.urandom(8).hex()}-{number}" for number in count())
        while names:
            name = names.pop()
            if not _is_directory(top, name):
                os.unlink(name, dir_fd=top)
                continue
            os.chmod(name, 0o700, dir_fd=top)
            inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
            try:
                for child in _names_in(inside):
                    if _is_directory(inside, child):
                        os.chmod(child, 0o700, dir_fd=inside)  # a read-only directory cannot be moved
                        names.append(moved := next(unused))
                        os.rename(child, moved, src_dir_fd=inside, dst_dir_fd=top)
                    else:
                        os.unlink(child, dir_fd=inside)
            finally:
                os.close(inside)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    root.rmdir()


def _names_in(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def _is_directory(parent: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


OUT_OF_SPACE_ERRNOS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def system_error(error: OSError, hint: str = "") -> HostError:
    """Wrap an error of the operating system that nothing else has handled; the hint is for all but a full disk."""
    path = f": {error.filename}" if error.filename else ""
    if error.errno in OUT_OF_SPACE_ERRNOS:
        return StoreUnavailable(f"there is no room left{path}", code="store.full", hint="free some space: df -h")
    return HostError(f"the system refused: {error.strerror}{path}", code="system_refused", hint=hint)
