"""Quick looks at places that may be on a dead disk, where a look never returns.

Each is taken by a thread of its own, which is left behind where it hangs. A place that somebody still looks at is not
looked at twice, and whoever asks about one that hung before does not wait for it again.
"""

from __future__ import annotations

import os
import pwd
import shlex
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from paddock.cage.linux import is_host_root
from paddock.cage.spec import NOBODY
from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.manifest.capability import Capability, FileAccess, InvalidCapability, covers, parse_capability
from paddock.manifest.credential_paths import credentials_at
from paddock.manifest.model import CommandRuntime, Manifest
from paddock.plugins.package.source import PackageSource, SourceKind

T = TypeVar("T")

MAX_HUNG_PROBES = 32


@dataclass(eq=False, slots=True)
class _PathProbe(Generic[T]):
    started_at: float
    done: threading.Event = field(default_factory=threading.Event)
    result: T | None = None


class PathProber(Generic[T]):
    """Takes looks for all threads of this process.

    Args:
        look: Tells what stands at a path; must not raise.
        most: How many threads may hang.
    """

    def __init__(self, look: Callable[[str], T | None], most: int = MAX_HUNG_PROBES) -> None:
        self._inspect = look
        self._max_hung = most
        self._lock = threading.Lock()
        self._active: dict[str, _PathProbe[T]] = {}

    def probe(self, path: str, patience: float) -> T | None:
        """What stands at a path; None where nothing does, or where that is not known in so many seconds."""
        with self._lock:
            glance = self._active.get(path)
            if glance is None:
                if len(self._active) >= self._max_hung:
                    return None
                glance = self._start_probe(path)
        glance.done.wait(max(0.0, glance.started_at + patience - time.monotonic()))
        return glance.result

    def _start_probe(self, path: str) -> _PathProbe[T]:
        glance = self._active[path] = _PathProbe[T](time.monotonic())

        def work() -> None:
            glance.result = self._inspect(path)
            with self._lock:
                del self._active[path]
            glance.done.set()

        threading.Thread(target=work, name="paddock-glance", daemon=True).start()
        return glance


MISSING_PATHS_TIMEOUT_S = 0.5  # seconds for all looks together: a dead disk never answers


def missing_paths(capabilities: Iterable[Capability]) -> list[Problem]:
    """A warning for each absolute path that is asked for and is known not to be there."""
    asked = [one for one in capabilities if isinstance(one, FileAccess) and not one.root]
    deadline = time.monotonic() + MISSING_PATHS_TIMEOUT_S
    seen = [(one, _EXISTENCE_PROBER.probe(one.path, max(0.0, deadline - time.monotonic()))) for one in asked]
    return [_missing_path_problem(one) for one, there in seen if there is False]


def path_exists(path: str) -> bool | None:
    """Whether anything stands at a path; None where we may not look."""
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
    hint = f"make it before you say yes: mkdir -p {shlex.quote(capability.path)}"
    return Problem(str(capability), message, hint, "place_missing")


UNREADABLE_PATHS_TIMEOUT_S = 0.5  # seconds for all looks together: a dead disk never answers
_ACL_ATTRIBUTE = "system.posix_acl_access"


@dataclass(frozen=True, slots=True)
class PathPermissions:
    """What stands at a path."""

    mode: int
    owner: int
    group: int


def unreadable_paths(
    capabilities: Iterable[Capability],
    *,
    glances: PathProber[PathPermissions] | None = None,
    patience: float = UNREADABLE_PATHS_TIMEOUT_S,
) -> list[Problem]:
    """A warning for each absolute path that is granted for reading and that nobody may not read.

    Args:
        capabilities: What was granted.
        glances: Tells what stands at a path; nothing, where more than its mode decides.
        patience: After so many seconds what is not known yet is left out.
    """
    asked = [one for one in capabilities if isinstance(one, FileAccess) and one.mode == "read" and not one.root]
    deadline = time.monotonic() + patience
    seen = [
        (one, (glances or _PERMISSION_PROBER).probe(one.path, max(0.0, deadline - time.monotonic()))) for one in asked
    ]
    return [_unreadable_path_problem(one, found) for one, found in seen if found and not nobody_may_read(found)]


def unreadable_paths_here(capabilities: Iterable[Capability]) -> list[Problem]:
    """The same for a daemon that runs as we do; nothing to tell where its plugins run as the same user."""
    return unreadable_paths(capabilities) if is_host_root() else []


def nobody_may_read(found: PathPermissions) -> bool:
    """Whether user and group nobody may read the file, or list the directory and open what is in it."""
    needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(found.mode) else stat.S_IROTH
    given = found.mode >> 6 if found.owner == NOBODY else found.mode >> 3 if found.group == NOBODY else found.mode
    return given & needed == needed


def read_permissions(path: str) -> PathPermissions | None:
    """What stands at a path of this machine."""
    try:
        found = os.stat(path)  # noqa: PTH116
        if _ACL_ATTRIBUTE in os.listxattr(path):
            return None  # the list may name nobody, and the mode does not tell
    except OSError:
        return None  # said by others: it is missing, or no file system of the usual kind
    return PathPermissions(found.st_mode, found.st_uid, found.st_gid)


# One for the whole process, since it bounds how many of its threads hang.
_PERMISSION_PROBER = PathProber(read_permissions)


def _unreadable_path_problem(capability: FileAccess, found: PathPermissions) -> Problem:
    who = _user_name(found.owner)
    message = (
        f"{printable(capability.path)} belongs to {who} with mode {stat.S_IMODE(found.mode):04o},"
        " and a root daemon starts plugins as nobody, who may not read it"
    )
    return Problem(str(capability), message, _make_readable_hint(capability.path, found, who), "place_closed")


def _make_readable_hint(path: str, found: PathPermissions, who: str) -> str:
    """What to do: never what would open a place to everybody, nor one with credentials to anybody."""
    held = credentials_at(path)
    if held:
        return f"leave it closed, and do without the plugin: this place holds {held}"
    deep = "-R " if stat.S_ISDIR(found.mode) else ""
    line = f"setfacl {deep}-m u:{NOBODY}:rX {shlex.quote(path)}"
    return f"{line}, or run the daemon as {who}" if found.owner else line


def _user_name(owner: int) -> str:
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"user {owner}"


UNGRANTED_PATHS_TIMEOUT_S = 0.5  # seconds for all looks together: a dead disk never answers
# What is there in a cage too, or is a program: the cage has its own words for those.
_SYSTEM_DIRECTORIES = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/dev", "/proc", "/sys")
_MAX_PATHS_CHECKED = 20

NamedPath = tuple[str, str]  # where in the manifest, and the path


def ungranted_paths(manifest: Manifest, values: Mapping[str, Any], source: PackageSource) -> list[Problem]:
    """A warning for each place of this machine that the command names and that no capability covers.

    Args:
        manifest: What will run.
        values: Configuration that came with it, which may name places too.
        source: Where it comes from, which decides how to give it more.
    """
    wanted = {path: where for where, path in reversed(list(_paths_in_command(manifest, values)))}
    deadline = time.monotonic() + UNGRANTED_PATHS_TIMEOUT_S
    found: list[Problem] = []
    for path, where in list(wanted.items())[:_MAX_PATHS_CHECKED]:
        asked = _file_capability("read", path)
        if asked is None or any(covers(one, asked) for one in manifest.capabilities):
            continue
        folder = path.rpartition("/")[0]
        if _exists_before(path, deadline):
            message = f"{printable(path)} is named and not granted: in its cage the plugin finds nothing there"
            found.append(Problem(where, message, _grant_read_hint(path, asked, source), "place_not_granted"))
        elif (
            (writing := _file_capability("write", folder))
            and not _is_system_path(folder)
            and _exists_before(folder, deadline)
        ):
            message = f"{printable(path)} is named and its folder is not granted: in its cage the plugin cannot make it"
            found.append(Problem(where, message, _grant_write_hint(folder, writing, source), "place_not_granted"))
    return found[::-1]


def _paths_in_command(manifest: Manifest, values: Mapping[str, Any]) -> Iterator[NamedPath]:
    runtime = manifest.runtime
    if not isinstance(runtime, CommandRuntime):
        return
    texts = [(f"runtime.command[{index}]", word) for index, word in enumerate(runtime.command) if index]
    texts += [(f"runtime.env.{name}", text) for name, text in runtime.env.items()]
    texts += [(f"system_config.{name}", text) for name, text in values.items() if isinstance(text, str)]
    for where, text in texts:
        given = text.partition("=")[2] if text.startswith("-") else text
        for part in given.split(":") if given.startswith("/") else ():
            path = os.path.normpath(part)
            if part.startswith("/") and not _is_system_path(path):
                yield where, path


def _is_system_path(path: str) -> bool:
    """Whether it is no place to grant: the root, what is the system's, or `/tmp`, of which each cage has its own."""
    own = path in ("/", "/tmp")  # noqa: S108 - nothing is written there
    return own or any(path == place or path.startswith(f"{place}/") for place in _SYSTEM_DIRECTORIES)


def _exists_before(path: str, deadline: float) -> bool:
    return bool(_COMMAND_PATH_PROBER.probe(path, max(0.0, deadline - time.monotonic())))


def _file_capability(doing: str, path: str) -> Capability | None:
    try:
        return parse_capability(f"{doing}:fs:{path}")
    except InvalidCapability:
        return None  # no words for it in the grammar


def _grant_read_hint(path: str, asked: Capability, source: PackageSource) -> str:
    """What to do: never what would open a place with credentials."""
    held = credentials_at(path)
    if held:
        return f"leave it closed: this place holds {held}"
    if _takes_capability_option(source):
        return f"let it read there: --capability {shlex.quote(str(asked))}   (write:fs: where it also writes)"
    return f"if it is to read there, its manifest has to ask for it: capabilities: ['{asked}']"


def _grant_write_hint(folder: str, asked: Capability, source: PackageSource) -> str:
    held = credentials_at(folder)
    if held:
        return f"have it in a folder of its own: {printable(folder)} holds {held}"
    if _takes_capability_option(source):
        return f"let it write there: --capability {shlex.quote(str(asked))}"
    return f"if it is to write there, its manifest has to ask for it: capabilities: ['{asked}']"


def _takes_capability_option(source: PackageSource) -> bool:
    return source.kind.registry or source.kind is SourceKind.CONFIGURATION


def _exists(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - a path that cannot be one is no place either


# One for the whole process, since it bounds how many of its threads hang.
_COMMAND_PATH_PROBER = PathProber(_exists)
