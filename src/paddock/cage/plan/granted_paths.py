"""Resolves granted paths: the roots `config:` and `project:`, symlinks, and paths that are never shown. Pure.

Links are resolved when the cage is compiled, and the target must be what was granted: consent was given for a
path, not for wherever a link later points. So a grant is refused as soon as it contains a link; the target's real
path can be granted instead. Links *inside* a granted tree need no such rule: in the cage they lead only to what is
mounted there.
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

CAGE_PRIVATE = "/tmp"  # noqa: S108 a directory below it can be granted, it itself is the cage's own


@dataclass(frozen=True, slots=True)
class GrantRoots:
    """The directories that `config:` and `project:` stand for; None where this plugin has none."""

    config: str | None = None
    project: str | None = None

    def directory_for(self, root: PathRoot) -> str | None:
        """The directory of a prefix; `/` for a path that is absolute already."""
        return {"": "/", "config": self.config, "project": self.project}[root]


class PathRejected(Exception):
    """A granted path cannot be shown; carries the reason."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def config_directories(capabilities: Iterable[Capability], config: str) -> list[str]:
    """The paths below a plugin's configuration directory that must exist before its cage is compiled; the caller
    creates them.
    """
    return sorted(
        {
            posixpath.normpath(config + capability.path)
            for capability in capabilities
            if isinstance(capability, FileAccess | Execute) and capability.root == "config"
        }
    )


def resolve_granted_path(
    capability: FileAccess | Execute, roots: GrantRoots, hidden: Iterable[str], filesystem: HostFilesystem
) -> str:
    """The real path that a capability names.

    Raises:
        PathRejected: It does not exist, a link leads out of it, or it is never shown.
    """
    base = roots.directory_for(capability.root)
    if base is None:
        raise _rejected(
            capability,
            f"no_{capability.root}",
            f"there is no {capability.root} folder here",
            "run it in a project" if capability.root == "project" else "give the plugin a configuration folder",
        )
    resolved_base = resolve_links(base, filesystem)
    # The operator chooses where a project or the configuration lies, links included.
    declared = posixpath.normpath((resolved_base.real if resolved_base else base) + "/" + capability.path)
    if any(is_below(declared, forbidden) for forbidden in NEVER_MOUNTED):
        raise _rejected(
            capability, "forbidden_path", f"{declared} is the host's own state and never shown to a plugin", ""
        )
    resolved = resolve_links(declared, filesystem) if resolved_base else None
    if resolved is None:
        message = f"{declared} does not exist, or Paddock may not look there"
        raise _rejected(capability, "path_missing", message, f"mkdir -p {shlex.quote(declared)}")
    if not is_below(resolved.real, declared):
        raise _rejected(
            capability,
            "link_escapes",
            f"{declared} is a link that leads out of what was granted, to {printable(resolved.real)}",
            f"grant {printable(resolved.real)} itself, or replace the link by what it leads to",
        )
    if filesystem.kind(resolved.real) == "special":
        message = f"{declared} is a pipe, socket or device, which connects to another process"
        raise _rejected(capability, "special_file", message, "grant a directory or a regular file")
    if resolved.real == CAGE_PRIVATE:
        raise _rejected(
            capability,
            "private_path",
            f"every cage has a {resolved.real} of its own",
            f"grant a directory below {resolved.real}",
        )
    # The plugin's own configuration directory lies among Paddock's directories.
    if capability.root != "config" and any(is_below(resolved.real, directory) for directory in hidden):
        raise _rejected(capability, "hidden_path", f"{resolved.real} is Paddock's own and is never shown", "")
    return resolved.real


def _rejected(capability: Capability, code: str, message: str, hint: str) -> PathRejected:
    return PathRejected(Problem(str(capability), message, hint, f"cage.{code}"))
