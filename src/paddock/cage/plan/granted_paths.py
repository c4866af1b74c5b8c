"""From granted paths to real ones: where `config:` and `project:` lie, where links lead, what is never shown. Pure.

Links are followed when the cage is compiled, and what they lead to must be what was granted: consent was given for a
path, not for wherever somebody later points it. So a grant is refused as soon as one link is on its way; its own real
path can be granted instead. Links *inside* a granted tree need no such rule: in the cage they lead only to what is
there.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.plan.mount_layout import NEVER_MOUNTED, is_below
from paddock.cage.plan.programs import resolve_links
from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.manifest.capability import Capability, Execute, FileAccess, PathRoot

_CAGE_PRIVATE = ("/tmp",)  # noqa: S108 below it a directory can be granted, it itself is the cage's own


@dataclass(frozen=True, slots=True)
class GrantRoots:
    """The directories that `config:` and `project:` stand for; None where this plugin has none."""

    config: str | None = None
    project: str | None = None

    def directory_for(self, root: PathRoot) -> str | None:
        """The directory for a prefix; `/` for a path that is absolute already."""
        return {"": "/", "config": self.config, "project": self.project}[root]


class PathRejected(Exception):
    """Why a granted path cannot be shown."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def config_directories(capabilities: Iterable[Capability], config: str) -> list[str]:
    """What must exist below a plugin's configuration folder before its cage is compiled; the caller creates it."""
    return sorted(
        {
            posixpath.normpath(config + capability.path)
            for capability in capabilities
            if isinstance(capability, FileAccess | Execute) and capability.root == "config"
        }
    )


def resolve_granted_path(
    capability: FileAccess | Execute, places: GrantRoots, hidden: Iterable[str], machine: HostFilesystem
) -> str:
    """The real path that a capability names.

    Raises:
        RefusedPath: there is no such place, a link leads out of it, or it is never shown.
    """
    base = places.directory_for(capability.root)
    if base is None:
        raise _rejected(
            capability,
            f"no_{capability.root}",
            f"there is no {capability.root} folder here",
            "run it in a project" if capability.root == "project" else "give the plugin a configuration folder",
        )
    beginning = resolve_links(base, machine)
    # Where the operator keeps a project or the configuration is theirs to say, links and all.
    declared = posixpath.normpath((beginning.real if beginning else base) + "/" + capability.path)
    if any(is_below(declared, never) for never in NEVER_MOUNTED):
        raise _rejected(
            capability, "forbidden_path", f"{declared} is the host's own state and never shown to a plugin", ""
        )
    found = resolve_links(declared, machine) if beginning else None
    if found is None:
        missing = f"{declared} does not exist, or Paddock may not look there"
        raise _rejected(capability, "path_missing", missing, f"mkdir -p {shlex.quote(declared)}")
    if not is_below(found.real, declared):
        raise _rejected(
            capability,
            "link_escapes",
            f"{declared} is a link that leads out of what was granted, to {printable(found.real)}",
            f"grant {printable(found.real)} itself, or replace the link by what it leads to",
        )
    if machine.kind(found.real) == "special":
        what = f"{declared} is a pipe, socket or device, at whose other end is somebody else"
        raise _rejected(capability, "special_file", what, "grant a directory or a regular file")
    if found.real in _CAGE_PRIVATE:
        raise _rejected(
            capability,
            "private_path",
            f"every cage has a {found.real} of its own",
            f"grant a directory below {found.real}",
        )
    # The plugin's own configuration folder lies among Paddock's directories.
    if capability.root != "config" and any(is_below(found.real, place) for place in hidden):
        raise _rejected(capability, "hidden_path", f"{found.real} is Paddock's own and is never shown", "")
    return found.real


def _rejected(capability: Capability, code: str, message: str, hint: str) -> PathRejected:
    return PathRejected(Problem(str(capability), message, hint, f"cage.{code}"))
