"""Collects the files of the host that a cage shows, and reduces them to the fewest binds. Pure.

Every file has its own path in the cage, so that a path means the same on both sides.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.plan.programs import ResolvedPath
from paddock.cage.spec import BindMount, SymbolicLink

# The host's own state, which is never shown.
NEVER_MOUNTED = ("/proc", "/sys", "/dev", "/run", "/.cage")
# Directories and files that a cage has of its own. A grant around them leaves them out.
CAGE_OWNED = (
    *NEVER_MOUNTED,
    "/tmp",  # noqa: S108 the cage's own
    "/etc/group",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/resolv.conf",
)

# With more, building a cage would take too long.
MAX_BINDS = 1000


def is_below(path: str, parent: str) -> bool:
    """Whether a path is `parent` or below it."""
    return parent == "/" or path == parent or path.startswith(parent + "/")


def parent_directories(path: str) -> Iterator[str]:
    """The parent directories of a path, nearest first."""
    while path != "/":
        path = posixpath.dirname(path)
        yield path


class MountLayout:
    """The mounts of one cage. Paths given here are real: they contain no link.

    Args:
        filesystem: The host's files.
        hidden: Directories of the host's own. Where a bind would show one, it is covered and shown empty.
    """

    def __init__(self, filesystem: HostFilesystem, hidden: Iterable[str] = ()) -> None:
        self._filesystem = filesystem
        self.hidden = tuple(dict.fromkeys(hidden))
        self._binds: dict[str, BindMount] = {}
        self._links: dict[str, SymbolicLink] = {}

    @property
    def exceeds_limit(self) -> bool:
        """Whether there are more binds than one cage may have; later ones are missing."""
        return len(self._binds) > MAX_BINDS

    def show(self, path: str, *, writable: bool = False, own: bool = False) -> None:
        """Show a file or directory with everything below it, but not what a cage has of its own.

        Args:
            path: Real.
            writable: Whether the plugin may change it.
            own: Whether the plugin owns it, and may read whatever lies there.
        """
        if not any(inner != path and is_below(inner, path) for inner in CAGE_OWNED):
            self.add_bind(BindMount(path, path, writable, own))
            return
        for name in self._filesystem.entries(path):
            self._show_entry(posixpath.join(path, name), writable)

    def show_traced(self, resolved: ResolvedPath) -> None:
        """Show a file or directory together with the links that lead there."""
        self.add_links(resolved.links)
        self.show(resolved.real)

    def add_bind(self, bind: BindMount) -> None:
        """Add a bind at any target. A writable bind wins over a read-only one of the same target."""
        existing = self._binds.get(bind.target)
        if not self.exceeds_limit and (existing is None or bind.writable):
            self._binds[bind.target] = bind

    def add_links(self, links: Iterable[SymbolicLink]) -> None:
        """Create links as they are on the host."""
        for link in links:
            self._links.setdefault(link.path, link)

    def copy_link(self, path: str) -> None:
        """Create a link like the host's, where the host has one."""
        target = self._filesystem.link(path)
        if target:
            self.add_links([SymbolicLink(path, target)])

    def shows(self, path: str, *, writable: bool = False) -> bool:
        """Whether the path, which is real, is visible in the cage, for writing too if asked."""
        nearest = next(
            (
                directory
                for directory in (path, *parent_directories(path))
                if directory in self._binds or directory in self.hidden
            ),
            None,
        )
        return nearest in self._binds and (self._binds[nearest].writable or not writable)

    def build(self) -> tuple[tuple[BindMount, ...], tuple[SymbolicLink, ...], tuple[str, ...]]:
        """Binds, links and covers, each sorted by path."""
        covers = tuple(sorted(path for path in self.hidden if self._needs_cover(path)))
        binds = tuple(bind for _, bind in sorted(self._binds.items()) if not self._is_redundant(bind, covers))
        links = tuple(link for _, link in sorted(self._links.items()) if not self._enclosing_bind(link.path, covers))
        return binds, links, covers

    def _show_entry(self, path: str, writable: bool) -> None:
        if path in CAGE_OWNED:
            return
        match self._filesystem.kind(path):
            case "link":
                self.copy_link(path)
            case "directory" | "file":
                self.show(path, writable=writable)
            case "special" | None:
                pass  # a pipe or socket of the host would connect the plugin to another process

    def _needs_cover(self, path: str) -> bool:
        return (
            path not in self._binds
            and any(directory in self._binds for directory in parent_directories(path))
            and self._filesystem.kind(path) == "directory"
        )

    def _is_redundant(self, bind: BindMount, covers: tuple[str, ...]) -> bool:
        """Whether the enclosing bind shows the same in the same way."""
        outer = self._enclosing_bind(bind.target, covers)
        if outer is None or bind.source != bind.target:
            return False
        same_mode = (outer.writable, outer.plugin_owned) == (bind.writable, bind.plugin_owned)
        return same_mode and outer.source == outer.target

    def _enclosing_bind(self, path: str, covers: tuple[str, ...]) -> BindMount | None:
        """The nearest bind that contains a path, with no cover in between."""
        nearest = next(
            (directory for directory in parent_directories(path) if directory in self._binds or directory in covers),
            None,
        )
        return self._binds.get(nearest) if nearest is not None else None
