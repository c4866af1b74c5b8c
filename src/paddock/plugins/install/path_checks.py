"""Checks of host paths that a plugin names: missing, unreadable, or not granted.

A path may be on a dead disk, where a stat call never returns. So each probe runs on a thread of its own, which is
abandoned if it hangs. A path that is being probed is not probed twice, and a caller does not wait again for a probe
that hung before.
"""

from __future__ import annotations

import os
import pwd
import shlex
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from paddock.cage.linux import is_host_root
from paddock.cage.plan.database_files import DATABASE_SUFFIXES
from paddock.cage.plan.programs import PROGRAM_SUFFIXES
from paddock.cage.spec import NOBODY
from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.manifest.capability import Capability, FileAccess, InvalidCapability, covers, parse_capability
from paddock.manifest.credential_paths import credentials_at, is_whole_home
from paddock.manifest.model import CommandRuntime, Manifest
from paddock.plugins.package.source import PackageSource

T = TypeVar("T")

MAX_HUNG_PROBES = 32


class _PathProbe(Struct, Generic[T], eq=False):
    started_at: float
    done: threading.Event = field(default_factory=threading.Event)
    result: T | None = None


class PathProber(Generic[T]):
    """Probes paths for all threads of this process.

    Args:
        inspect: Inspects a path; must not raise.
        max_hung: How many threads may hang.
    """

    def __init__(self, inspect: Callable[[str], T | None], max_hung: int = MAX_HUNG_PROBES) -> None:
        self._inspect = inspect
        self._max_hung = max_hung
        self._lock = threading.Lock()
        self._active: dict[str, _PathProbe[T]] = {}

    def probe(self, path: str, timeout_s: float) -> T | None:
        """Return what `inspect` found; None if there is nothing, or the result is not known within `timeout_s`."""
        with self._lock:
            probe = self._active.get(path)
            if probe is None:
                if len(self._active) >= self._max_hung:
                    return None
                probe = self._start_probe(path)
        probe.done.wait(max(0.0, probe.started_at + timeout_s - time.monotonic()))
        return probe.result

    def _start_probe(self, path: str) -> _PathProbe[T]:
        probe = self._active[path] = _PathProbe[T](time.monotonic())

        def work() -> None:
            probe.result = self._inspect(path)
            with self._lock:
                del self._active[path]
            probe.done.set()

        threading.Thread(target=work, name="paddock-glance", daemon=True).start()
        return probe


MISSING_PATHS_TIMEOUT_S = 0.5  # for all probes together: a dead disk never answers


def missing_paths(capabilities: Iterable[Capability]) -> list[Problem]:
    """Return a warning for each absolute path that is requested and known not to exist."""
    requested = [one for one in capabilities if isinstance(one, FileAccess) and not one.root]
    deadline = time.monotonic() + MISSING_PATHS_TIMEOUT_S
    existence = [(one, _EXISTENCE_PROBER.probe(one.path, max(0.0, deadline - time.monotonic()))) for one in requested]
    return [_missing_path_problem(one) for one, exists in existence if exists is False]


def path_exists(path: str) -> bool | None:
    """Whether a path exists; None if we may not look."""
    try:
        os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return None
    return True


# One for the whole process, since it bounds how many of its threads hang.
_EXISTENCE_PROBER = PathProber(path_exists)


def _missing_path_problem(capability: FileAccess) -> Problem:
    message = f"{printable(capability.path)} does not exist, and the plugin does not start without it"
    hint = f"create it before you consent: mkdir -p {shlex.quote(capability.path)}"
    return Problem(str(capability), message, hint, "place_missing")


UNREADABLE_PATHS_TIMEOUT_S = 0.5  # for all probes together: a dead disk never answers
_ACL_ATTRIBUTE = "system.posix_acl_access"


class PathPermissions(Struct, frozen=True):
    """The mode and owners of a path."""

    mode: int
    owner: int
    group: int


def unreadable_paths(
    capabilities: Iterable[Capability],
    *,
    prober: PathProber[PathPermissions] | None = None,
    timeout_s: float = UNREADABLE_PATHS_TIMEOUT_S,
) -> list[Problem]:
    """Return a warning for each absolute path that is granted for reading and that user nobody cannot read.

    Args:
        capabilities: The granted capabilities.
        prober: Reads the permissions of a path; None if more than its mode decides.
        timeout_s: Paths whose permissions are not known by then are left out.
    """
    requested = [one for one in capabilities if isinstance(one, FileAccess) and one.mode == "read" and not one.root]
    deadline = time.monotonic() + timeout_s
    permissions = [
        (one, (prober or _PERMISSION_PROBER).probe(one.path, max(0.0, deadline - time.monotonic())))
        for one in requested
    ]
    return [
        _unreadable_path_problem(one, path_permissions)
        for one, path_permissions in permissions
        if path_permissions and not nobody_may_read(path_permissions)
    ]


def unreadable_paths_here(capabilities: Iterable[Capability]) -> list[Problem]:
    """Check as `unreadable_paths` for a daemon that runs as we do; empty if its plugins run as the same user."""
    return unreadable_paths(capabilities) if is_host_root() else []


def nobody_may_read(permissions: PathPermissions) -> bool:
    """Whether user and group nobody may read the file, or list the directory and open its entries."""
    needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(permissions.mode) else stat.S_IROTH
    mode_bits = (
        permissions.mode >> 6
        if permissions.owner == NOBODY
        else permissions.mode >> 3
        if permissions.group == NOBODY
        else permissions.mode
    )
    return mode_bits & needed == needed


def read_permissions(path: str) -> PathPermissions | None:
    """Read the permissions of a path; None if they cannot be judged."""
    try:
        path_stat = os.stat(path)  # noqa: PTH116
        if _ACL_ATTRIBUTE in os.listxattr(path):
            return None  # the ACL may name user nobody, and the mode does not show it
    except OSError:
        return None  # reported elsewhere: it is missing, or an unusual file system
    return PathPermissions(path_stat.st_mode, path_stat.st_uid, path_stat.st_gid)


# One for the whole process, since it bounds how many of its threads hang.
_PERMISSION_PROBER = PathProber(read_permissions)


def _unreadable_path_problem(capability: FileAccess, permissions: PathPermissions) -> Problem:
    owner = _user_name(permissions.owner)
    message = (
        f"{printable(capability.path)} belongs to {owner} with mode {stat.S_IMODE(permissions.mode):04o},"
        " and a root daemon starts plugins as nobody, who may not read it"
    )
    return Problem(str(capability), message, _make_readable_hint(capability.path, permissions, owner), "place_closed")


def _make_readable_hint(path: str, permissions: PathPermissions, owner: str) -> str:
    """Return the hint; never one that would open a path to everyone, nor one with credentials to anyone."""
    credentials = credentials_at(path)
    if credentials:
        return f"leave it closed, and do without the plugin: this place holds {credentials}"
    recursive = "-R " if stat.S_ISDIR(permissions.mode) else ""
    command = f"setfacl {recursive}-m u:{NOBODY}:rX {shlex.quote(path)}"
    return f"{command}, or run the daemon as {owner}" if permissions.owner else command


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


UNGRANTED_PATHS_TIMEOUT_S = 0.5  # for all probes together: a dead disk never answers
# Present in every cage, or a program: the cage reports those itself.
_SYSTEM_DIRECTORIES = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/dev", "/proc", "/sys")
_MAX_PATHS_CHECKED = 20

NamedPath = tuple[str, str]  # the location in the manifest, and the path


class UngrantedPath(Struct, frozen=True):
    """A host path that a plugin's settings name and that no capability covers.

    Attributes:
        where: The location in the manifest.
        path: The path.
        capability: The smallest that covers it: to read it, or to write its folder if it does not exist.
    """

    where: str
    path: str
    capability: FileAccess

    @property
    def credentials(self) -> str:
        """The credentials that the grant would open; empty if there are none."""
        return credentials_at(self.capability.path)

    @property
    def writable(self) -> FileAccess | None:
        """The same place for writing, if a person may want that: a program does not change its own file.

        For a SQLite database, its folder: the journal is made there.
        """
        if self.capability.mode == "write" or self.path.endswith(PROGRAM_SUFFIXES):
            return None
        if not self.path.endswith(DATABASE_SUFFIXES):
            return FileAccess("write", self.path)
        folder = os.path.dirname(self.path)  # noqa: PTH120 - as it is written
        return None if is_whole_home(folder) else FileAccess("write", folder)

    def to_problem(self, source: PackageSource) -> Problem:
        """The warning for a person; `source` decides how more can be granted."""
        if self.capability.mode == "read":
            message = f"{printable(self.path)} is named and not granted: in its cage the plugin finds nothing there"
            hint = _grant_read_hint(self, source)
        else:
            message = (
                f"{printable(self.path)} is named and its folder is not granted: in its cage the plugin cannot make it"
            )
            hint = _grant_write_hint(self, source)
        action = None if self.credentials else source.grant_action(str(self.capability))
        return Problem(self.where, message, hint, "place_not_granted", action=action)


def ungranted_paths(manifest: Manifest, values: Mapping[str, Any]) -> tuple[UngrantedPath, ...]:
    """Return the host paths that the command names and that no capability covers.

    Args:
        manifest: The plugin's manifest.
        values: Its configuration, which may name paths too.
    """
    named_paths = {path: where for where, path in reversed(list(_paths_in_command(manifest, values)))}
    deadline = time.monotonic() + UNGRANTED_PATHS_TIMEOUT_S
    found: list[UngrantedPath] = []
    for path, where in list(named_paths.items())[:_MAX_PATHS_CHECKED]:
        read_access = _file_capability("read", path)
        if read_access is None or any(covers(one, read_access) for one in manifest.capabilities):
            continue
        folder = path.rpartition("/")[0]
        if _exists_before(path, deadline):
            found.append(UngrantedPath(where, path, read_access))
        elif (
            (write_access := _file_capability("write", folder))
            and not _is_system_path(folder)
            and _exists_before(folder, deadline)
        ):
            found.append(UngrantedPath(where, path, write_access))
    return tuple(found[::-1])


def _paths_in_command(manifest: Manifest, values: Mapping[str, Any]) -> Iterator[NamedPath]:
    runtime = manifest.runtime
    if not isinstance(runtime, CommandRuntime):
        return
    texts = [(f"runtime.command[{index}]", word) for index, word in enumerate(runtime.command) if index]
    texts += [(f"runtime.env.{name}", text) for name, text in runtime.env.items()]
    texts += [(f"system_config.{name}", text) for name, text in values.items() if isinstance(text, str)]
    for where, text in texts:
        value = text.partition("=")[2] if text.startswith("-") else text
        for part in value.split(":") if value.startswith("/") else ():
            path = os.path.normpath(part)
            if part.startswith("/") and not _is_system_path(path):
                yield where, path


def _is_system_path(path: str) -> bool:
    """Whether a path is never granted: the root, a system directory, or `/tmp`, of which each cage has its own."""
    private = path in ("/", "/tmp")  # noqa: S108 - nothing is written there
    return private or any(path == directory or path.startswith(f"{directory}/") for directory in _SYSTEM_DIRECTORIES)


def _exists_before(path: str, deadline: float) -> bool:
    return bool(_COMMAND_PATH_PROBER.probe(path, max(0.0, deadline - time.monotonic())))


def _file_capability(mode: str, path: str) -> FileAccess | None:
    try:
        capability = parse_capability(f"{mode}:fs:{path}")
    except InvalidCapability:
        return None  # the capability grammar cannot express it
    return capability if isinstance(capability, FileAccess) else None


def _grant_read_hint(ungranted: UngrantedPath, source: PackageSource) -> str:
    """Return the hint; never one that would open a path with credentials."""
    capability = ungranted.capability
    if ungranted.credentials:
        return f"leave it closed: this place holds {ungranted.credentials}"
    if takes_capability_option(source):
        return f"if it is to read there, give it the capability {capability} (write:fs: where it also writes)"
    return f"if it is to read there, its manifest has to ask for it: capabilities: ['{capability}']"


def _grant_write_hint(ungranted: UngrantedPath, source: PackageSource) -> str:
    capability = ungranted.capability
    if ungranted.credentials:
        folder = printable(capability.path)
        return f"name a file in its own folder, as config:/NAME: {folder} holds {ungranted.credentials}"
    if takes_capability_option(source):
        return f"if it is to write there, give it the capability {capability}"
    return f"if it is to write there, its manifest has to ask for it: capabilities: ['{capability}']"


def takes_capability_option(source: PackageSource) -> bool:
    """Whether a person chooses the capabilities of packages from this source."""
    return source.without_manifest


# One for the whole process, since it bounds how many of its threads hang. A path that cannot be one does not exist.
_COMMAND_PATH_PROBER = PathProber(os.path.exists)
