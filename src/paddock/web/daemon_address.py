"""Where the daemon is found: its local socket, whose address the kernel takes however long the path is, and its URL."""

from __future__ import annotations

import os
import pwd
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from paddock.config.directories import Directories
from paddock.config.web_settings import HttpSettings
from paddock.core.errors import Unreachable

MAX_SOCKET_PATH_BYTES = 107  # bytes of a socket's address, without the closing zero


def socket_path(directories: Directories) -> Path:
    """The socket that the daemon of these directories listens on."""
    return directories.run / "paddock.sock"


@contextmanager
def publish_daemon_url(directories: Directories, url: str | None) -> Generator[None, None, None]:
    """Have commands find where the daemon listens on TCP, for as long as the block runs."""
    place = directories.run / "paddock.url"
    if url is None:
        place.unlink(missing_ok=True)
        yield
        return
    place.write_text(f"{url}\n")
    try:
        yield
    finally:
        place.unlink(missing_ok=True)


def read_daemon_url(directories: Directories) -> str | None:
    """Where the daemon of these directories listens on TCP, or did when it was killed; None where it does not."""
    try:
        return (directories.run / "paddock.url").read_text().strip() or None
    except OSError:
        return None


def console_url(directories: Directories, http: HttpSettings) -> str:
    """Where people open the console of the daemon of these directories.

    Raises:
        Unreachable: nowhere.
    """
    found = http.public_url or read_daemon_url(directories)
    if found is None:
        raise Unreachable(
            "no daemon of this home listens on TCP",
            code="daemon.no_url",
            hint="start one: paddock serve; where http.address is off, set it",
        )
    return found.rstrip("/")


@contextmanager
def socket_address(path: Path) -> Generator[str, None, None]:
    """What to bind or connect to, valid inside the block.

    Raises:
        FileNotFoundError: its directory does not exist.
    """
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def path_owner(path: Path) -> str | None:
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
