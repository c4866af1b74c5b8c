"""Granted places that a plugin could not read: a root daemon starts it as nobody, to whom private files stay closed.

What a plugin may write to is shown to it as its own, so only what it may merely read is looked at. One look at each
path itself tells the usual case; what lies below can still be private.
"""

from __future__ import annotations

import os
import pwd
import shlex
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass

from paddock.cage.kernel import real_root
from paddock.cage.spec import NOBODY
from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.manifest.capability import Capability, FileAccess
from paddock.manifest.credential_places import credentials_at
from paddock.plugins.glances import Glances

PATIENCE = 0.5  # seconds for all looks together: a dead disk never answers
_ACCESS_LIST = "system.posix_acl_access"


@dataclass(frozen=True, slots=True)
class Found:
    """What stands at a path."""

    mode: int
    owner: int
    group: int


def closed_places(
    capabilities: Iterable[Capability], *, glances: Glances[Found] | None = None, patience: float = PATIENCE
) -> list[Problem]:
    """A warning for each absolute path that is granted for reading and that nobody may not read.

    Args:
        capabilities: What was granted.
        glances: Tells what stands at a path; nothing, where more than its mode decides.
        patience: After so many seconds what is not known yet is left out.
    """
    asked = [one for one in capabilities if isinstance(one, FileAccess) and one.mode == "read" and not one.root]
    deadline = time.monotonic() + patience
    seen = [(one, (glances or _HERE).at(one.path, max(0.0, deadline - time.monotonic()))) for one in asked]
    return [_warning(one, found) for one, found in seen if found and not nobody_may_read(found)]


def closed_places_here(capabilities: Iterable[Capability]) -> list[Problem]:
    """The same for a daemon that runs as we do; nothing to tell where its plugins run as the same user."""
    return closed_places(capabilities) if real_root() else []


def nobody_may_read(found: Found) -> bool:
    """Whether user and group nobody may read the file, or list the directory and open what is in it."""
    needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(found.mode) else stat.S_IROTH
    given = found.mode >> 6 if found.owner == NOBODY else found.mode >> 3 if found.group == NOBODY else found.mode
    return given & needed == needed


def look_at(path: str) -> Found | None:
    """What stands at a path of this machine."""
    try:
        found = os.stat(path)  # noqa: PTH116
        if _ACCESS_LIST in os.listxattr(path):
            return None  # the list may name nobody, and the mode does not tell
    except OSError:
        return None  # said by others: it is missing, or no file system of the usual kind
    return Found(found.st_mode, found.st_uid, found.st_gid)


# One for the whole process, since it bounds how many of its threads hang.
_HERE = Glances(look_at)


def _warning(capability: FileAccess, found: Found) -> Problem:
    who = _name(found.owner)
    message = (
        f"{printable(capability.path)} belongs to {who} with mode {stat.S_IMODE(found.mode):04o},"
        " and a root daemon starts plugins as nobody, who may not read it"
    )
    return Problem(str(capability), message, _mend(capability.path, found, who), "place_closed")


def _mend(path: str, found: Found, who: str) -> str:
    """What to do: never what would open a place to everybody, nor one with credentials to anybody."""
    held = credentials_at(path)
    if held:
        return f"leave it closed, and do without the plugin: this place holds {held}"
    deep = "-R " if stat.S_ISDIR(found.mode) else ""
    line = f"setfacl {deep}-m u:{NOBODY}:rX {shlex.quote(path)}"
    return f"{line}, or run the daemon as {who}" if found.owner else line


def _name(owner: int) -> str:
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"user {owner}"
