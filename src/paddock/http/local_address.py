"""Where the daemon's local socket is, and an address for it that the kernel takes however long the path is."""

from __future__ import annotations

import os
import pwd
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from paddock.config.directories import Directories

LONGEST = 107  # bytes of a socket's address, without the closing zero


def socket_path(directories: Directories) -> Path:
    """The socket that the daemon of these directories listens on."""
    return directories.run / "paddock.sock"


@contextmanager
def address_of(path: Path) -> Generator[str, None, None]:
    """What to bind or connect to, valid inside the block.

    Raises:
        FileNotFoundError: its directory does not exist.
    """
    if len(os.fsencode(path)) <= LONGEST:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def owner_of(path: Path) -> str | None:
    """The login name of whoever owns what is at this path, or the innermost directory on the way that can be seen."""
    for place in (path, *path.parents):
        try:
            uid = place.stat().st_uid
        except OSError:
            continue
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return f"user {uid}"
    return None
