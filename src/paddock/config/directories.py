"""Where Paddock keeps its files on this machine, and the rules those places must keep.

With `$PADDOCK_HOME` everything stands below that one directory; without it the XDG places are used.
Finding them is a pure function of the environment; only `create_directories` touches the disk.
"""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from paddock.core.errors import OperatorError, Unreachable


@lru_cache(maxsize=64)  # asking takes as long as the rest of a small request
def user_name(uid: int) -> str:
    """The login name of a user of this machine, or the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def sudo_prefix(owner: int) -> str:
    """The beginning of a line that runs a command as somebody; `sudo` takes those without a name by their number."""
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = f"#{owner}"
    return f"sudo -u {shlex.quote(name)}"


def wrong_owner_hint(owner: int, path: Path, user: int | None = None) -> str:
    """The hint for whoever found it.

    Root is never told to take over what is somebody's: that would lock its owner out. What root left behind in
    somebody's home, by a `sudo` too many, is theirs to take.
    """
    user = os.geteuid() if user is None else user
    if user and not owner:
        return f"sudo chown -R {user} {shlex.quote(str(path))}"
    return (
        f"run it as user {owner}: {sudo_prefix(owner)} paddock …; or keep a place of your own: export PADDOCK_HOME=/…"
    )


@dataclass(frozen=True, slots=True)
class Directories:
    """Every place Paddock reads or writes outside a project."""

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

    def all(self) -> tuple[Path, ...]:
        """The directories, parents before children."""
        return (self.config, self.data, self.state, self.cache, self.run)


def find_directories(environ: Mapping[str, str], home: Path) -> Directories:
    """Name our directories for this environment, without looking at the disk.

    An empty variable counts as unset, and an XDG variable that is not absolute is ignored, as XDG asks.

    Raises:
        OperatorError: `PADDOCK_HOME` is relative, so two commands could mean two different places.
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


def create_directories(directories: Directories) -> None:
    """Make every directory, private to its owner, after refusing places that others can change.

    Raises:
        OperatorError: A directory belongs to someone else or is writable by others.
        Unreachable: A directory cannot be made or looked at.
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
    """Refuse a directory whose contents someone else could swap.

    Raises:
        OperatorError: It is not ours, or group or world may write to it; the hint is the line to type.
    """
    try:
        found = directory.stat()
    except OSError as error:
        raise Unreachable(
            f"cannot look at {directory}: {error.strerror}",
            code="config.home_unusable",
            hint=f"ls -ld {shlex.quote(str(directory))}",
        ) from error
    quoted = shlex.quote(str(directory))
    user = os.geteuid()
    if found.st_uid != user:
        raise OperatorError(
            f"{directory} belongs to user {found.st_uid}, not to you (user {user})",
            code="config.home_foreign",
            hint=wrong_owner_hint(found.st_uid, directory),
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OperatorError(
            f"{directory} can be written by others (mode {stat.S_IMODE(found.st_mode):04o})",
            code="config.home_writable",
            hint=f"chmod 0700 {quoted}",
        )
