"""Addresses of the daemon: its Unix socket (also with paths too long for `bind`) and its TCP URL."""

from __future__ import annotations

import os
import pwd
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from paddock.config.directories import Directories
from paddock.config.web_settings import OFF, HttpSettings
from paddock.core.action import Action
from paddock.core.errors import Unreachable

MAX_SOCKET_PATH_BYTES = 107  # `sun_path` without the closing NUL


def socket_path(directories: Directories) -> Path:
    """Return the path of the Unix socket of the daemon that uses these directories."""
    return directories.run / "paddock.sock"


@contextmanager
def publish_daemon_url(directories: Directories, url: str | None) -> Generator[None, None, None]:
    """Write the daemon's TCP URL to the run directory while the block runs, so that commands find it."""
    url_file = directories.run / "paddock.url"
    if url is None:
        url_file.unlink(missing_ok=True)
        yield
        return
    url_file.write_text(f"{url}\n")
    try:
        yield
    finally:
        url_file.unlink(missing_ok=True)


def read_daemon_url(directories: Directories) -> str | None:
    """Return the published TCP URL of the daemon, or None if it does not listen on TCP.

    The URL of a daemon that was killed stays published.
    """
    try:
        return (directories.run / "paddock.url").read_text().strip() or None
    except OSError:
        return None


class ConsoleAddress(Struct, frozen=True):
    """Where people reach the console.

    Attributes:
        url: Its URL; None if that is not known before a daemon runs, or if there is no console.
        running: Whether a daemon serves it now.
        off: Whether there is no console, because daemons of this home do not listen on TCP.
    """

    url: str | None
    running: bool
    off: bool = False


def find_console(directories: Directories, http: HttpSettings, *, has_daemon: bool) -> ConsoleAddress:
    """Return where people reach the console, or will as soon as a daemon runs."""
    url = http.public_url or (read_daemon_url(directories) if has_daemon else _configured_url(http))
    return ConsoleAddress(url.rstrip("/") if url else None, has_daemon, off=url is None and http.address == OFF)


def _configured_url(http: HttpSettings) -> str | None:
    free_port = http.address.endswith(":0")
    return None if http.address == OFF or free_port else f"http://{http.address}"


def console_url(directories: Directories, http: HttpSettings) -> str:
    """Return the URL of the console.

    Raises:
        Unreachable: neither `http.public_url` nor a published URL exists.
    """
    url = http.public_url or read_daemon_url(directories)
    if url is None:
        raise Unreachable(
            "no daemon of this home listens on TCP",
            code="daemon.no_url",
            hint="if http.address is off, set it",
            action=Action.of("daemon.start"),
        )
    return url.rstrip("/")


@contextmanager
def socket_address(path: Path) -> Generator[str, None, None]:
    """Yield an address to bind or connect to, valid inside the block.

    A path longer than `sun_path` is reached through `/proc/self/fd`.

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
    """Return the login name of the owner of a path, or of its innermost directory that can be read."""
    for candidate in (path, *path.parents):
        try:
            uid = candidate.stat().st_uid
        except OSError:
            continue
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return f"user {uid}"
    return None
