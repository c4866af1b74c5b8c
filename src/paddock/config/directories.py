"""The directories of Paddock on this host, and the checks of their ownership and mode.

With `$PADDOCK_HOME` everything is below that one directory; without it the XDG directories are used.
Finding them is a pure function of the environment; only `create_directories` touches the disk.
"""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from paddock.core.errors import OperatorError, Unreachable


@lru_cache(maxsize=64)  # the lookup takes as long as the rest of a small request
def user_name(uid: int) -> str:
    """The login name of a user of this host, or the uid where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def sudo_prefix(owner: int) -> str:
    """The start of a command that runs as another user."""
    return f"sudo -u {shlex.quote(sudo_user(owner))}"


def sudo_user(owner: int) -> str:
    """A user as `sudo -u` accepts it: by name, or by uid where it has none."""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"#{owner}"


def wrong_owner_hint(owner: int, path: Path, user: int | None = None) -> str:
    """The hint for a path with the wrong owner.

    Root is never told to take over another user's files: that would lock the owner out. Files that root left in
    a user's home, by a `sudo` too many, may be taken over by that user.
    """
    user = os.geteuid() if user is None else user
    if user and not owner:
        return f"sudo chown -R {user} {shlex.quote(str(path))}"
    return (
        f"run it as user {owner}: {sudo_prefix(owner)} paddock …; or keep a place of your own: export PADDOCK_HOME=/…"
    )


class Directories(Struct, frozen=True):
    """Every directory that Paddock reads or writes outside a project."""

    config: Path
    data: Path
    state: Path
    cache: Path
    run: Path

    @property
    def config_file(self) -> Path:
        """Settings without secrets; may be shared between machines."""
        return self.config / "config.toml"

    @property
    def local_file(self) -> Path:
        """This machine's settings, installed plugins and their secrets; mode 0600."""
        return self.config / "local.toml"

    @property
    def database_file(self) -> Path:
        """The embedded store, where `store.url` names no other."""
        return self.data / "paddock.db"

    @property
    def restore_journal(self) -> Path:
        """Exists while a backup is moved into place; then the home is neither the old nor the new one."""
        return self.data / "restore-journal.json"

    def all(self) -> tuple[Path, ...]:
        """The directories, parents before children."""
        return (self.config, self.data, self.state, self.cache, self.run)


def find_directories(environ: Mapping[str, str], home: Path) -> Directories:
    """Compute our directories for this environment, without touching the disk.

    An empty variable counts as unset, and an XDG variable that is not absolute is ignored, as XDG requires.

    Raises:
        OperatorError: `PADDOCK_HOME` is relative, so two commands could mean two different directories.
    """
    own_home = environ.get("PADDOCK_HOME", "")
    if own_home:
        base = Path(own_home)
        if not base.is_absolute():
            raise OperatorError(
                f"PADDOCK_HOME is not an absolute path: {own_home!r}",
                code="config.home_relative",
                hint='export PADDOCK_HOME="$PWD/…"',
            )
        return Directories(base, base / "data", base / "state", base / "cache", base / "run")

    def xdg(variable: str, fallback: Path) -> Path:
        value = Path(environ.get(variable, ""))
        return (value if value.is_absolute() else fallback) / "paddock"

    state = xdg("XDG_STATE_HOME", home / ".local" / "state")
    runtime = Path(environ.get("XDG_RUNTIME_DIR", ""))
    return Directories(
        config=xdg("XDG_CONFIG_HOME", home / ".config"),
        data=xdg("XDG_DATA_HOME", home / ".local" / "share"),
        state=state,
        cache=xdg("XDG_CACHE_HOME", home / ".cache"),
        # Without a login session there is no runtime directory; ours then lives with the other state.
        run=runtime / "paddock" if runtime.is_absolute() else state / "run",
    )


_XDG_VARIABLES = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")


def directory_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that decide about our directories, for a program that another one starts.

    MCP clients, for example, pass on only a few of their variables.
    """
    names = ("PADDOCK_HOME",) if environ.get("PADDOCK_HOME") else _XDG_VARIABLES
    return {name: environ[name] for name in names if Path(environ.get(name, "")).is_absolute()}


def create_directories(directories: Directories) -> None:
    """Create every directory, private to its owner, and refuse directories that others can change.

    Raises:
        OperatorError: A directory belongs to another user or is writable by others.
        Unreachable: A directory cannot be created or read.
    """
    for directory in directories.all():
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise Unreachable(
                f"cannot create {directory}: {reason}",
                code="config.home_unusable",
                hint="export PADDOCK_HOME=/an/absolute/path/you/may/write",
            ) from error
        refuse_unsafe_directory(directory)


def refuse_unsafe_directory(directory: Path) -> None:
    """Refuse a directory whose contents another user could replace.

    Raises:
        OperatorError: It is not ours, or group or world may write to it; the hint is the command to type.
    """
    try:
        status = directory.stat()
    except OSError as error:
        raise Unreachable(
            f"cannot look at {directory}: {error.strerror}",
            code="config.home_unusable",
            hint=f"ls -ld {shlex.quote(str(directory))}",
        ) from error
    quoted = shlex.quote(str(directory))
    user = os.geteuid()
    if status.st_uid != user:
        raise OperatorError(
            f"{directory} belongs to user {status.st_uid}, not to you (user {user})",
            code="config.home_foreign",
            hint=wrong_owner_hint(status.st_uid, directory),
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OperatorError(
            f"{directory} can be written by others (mode {stat.S_IMODE(status.st_mode):04o})",
            code="config.home_writable",
            hint=f"chmod 0700 {quoted}",
        )
