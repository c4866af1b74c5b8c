"""Which files of the host stand in a cage: collected piece by piece, then put in the fewest binds that show them. Pure.

Everything stands at its own path, so that a path means the same on both sides.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.plan.programs import ResolvedPath
from paddock.cage.spec import BindMount, SymbolicLink

# The host's own state: nothing of it is ever shown.
NEVER_MOUNTED = ("/proc", "/sys", "/dev", "/run", "/.cage")
# Places and files that a cage has of its own. A grant of what is around them goes round them.
CAGE_OWNED = (
    *NEVER_MOUNTED,
    "/tmp",  # noqa: S108 the cage's own
    "/etc/group",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/resolv.conf",
)

# Beyond this building a cage would take longer than anybody waits.
MAX_BINDS = 1000


def is_below(path: str, parent: str) -> bool:
    """Whether a path is a place or anywhere below it."""
    return parent == "/" or path == parent or path.startswith(parent + "/")


def parent_directories(path: str) -> Iterator[str]:
    """The directories that a path lies in, the nearest first."""
    while path != "/":
        path = posixpath.dirname(path)
        yield path


class MountLayout:
    """What one cage shows. A path given here is real: no link is on the way to it.

    Args:
        machine: The host's files.
        hidden: Directories of the host's own. Where a bind would show one, it is covered and shown empty.
    """

    def __init__(self, machine: HostFilesystem, hidden: Iterable[str] = ()) -> None:
        self._machine = machine
        self.hidden = tuple(dict.fromkeys(hidden))
        self._binds: dict[str, BindMount] = {}
        self._links: dict[str, SymbolicLink] = {}

    @property
    def exceeds_limit(self) -> bool:
        """Whether more would have to be shown than one cage can; what came after that is missing."""
        return len(self._binds) > MAX_BINDS

    def show(self, path: str, *, writable: bool = False, own: bool = False) -> None:
        """Show a file or directory with everything below it, but not what a cage has of its own.

        Args:
            path: Real.
            writable: Whether the plugin may change it.
            own: Whether it is the plugin's own folder, where it may read whatever lies there.
        """
        if not any(inner != path and is_below(inner, path) for inner in CAGE_OWNED):
            self.add_bind(BindMount(path, path, writable, own))
            return
        for name in self._machine.entries(path):
            self._show_entry(posixpath.join(path, name), writable)

    def show_traced(self, traced: ResolvedPath) -> None:
        """Show a file or directory together with the links that lead there."""
        self.add_links(traced.links)
        self.show(traced.real)

    def add_bind(self, bind: BindMount) -> None:
        """Show something at a path that need not be its own. Whoever may write to it may, whatever else shows it."""
        present = self._binds.get(bind.target)
        if not self.exceeds_limit and (present is None or bind.writable):
            self._binds[bind.target] = bind

    def add_links(self, links: Iterable[SymbolicLink]) -> None:
        """Put links where they are on the host."""
        for link in links:
            self._links.setdefault(link.path, link)

    def copy_link(self, path: str) -> None:
        """Put a link there that is like the host's, where the host has one."""
        to = self._machine.link(path)
        if to:
            self.add_links([SymbolicLink(path, to)])

    def shows(self, path: str) -> bool:
        """Whether the path, which is real, is seen in the cage."""
        nearest = next(
            (place for place in (path, *parent_directories(path)) if place in self._binds or place in self.hidden), None
        )
        return nearest in self._binds

    def build(self) -> tuple[tuple[BindMount, ...], tuple[SymbolicLink, ...], tuple[str, ...]]:
        """Binds, links and covers, each sorted by path."""
        covers = tuple(sorted(path for path in self.hidden if self._needs_cover(path)))
        binds = tuple(bind for _, bind in sorted(self._binds.items()) if not self._is_redundant(bind, covers))
        links = tuple(link for _, link in sorted(self._links.items()) if not self._enclosing_bind(link.path, covers))
        return binds, links, covers

    def _show_entry(self, path: str, writable: bool) -> None:
        if path in CAGE_OWNED:
            return
        match self._machine.kind(path):
            case "link":
                self.copy_link(path)
            case "directory" | "file":
                self.show(path, writable=writable)
            case "special" | None:
                pass  # through a pipe or socket of the host somebody else would be reached

    def _needs_cover(self, path: str) -> bool:
        return (
            path not in self._binds
            and any(place in self._binds for place in parent_directories(path))
            and self._machine.kind(path) == "directory"
        )

    def _is_redundant(self, bind: BindMount, covers: tuple[str, ...]) -> bool:
        """Whether the bind around this one shows the same in the same way."""
        outer = self._enclosing_bind(bind.target, covers)
        if outer is None or bind.source != bind.target:
            return False
        alike = (outer.writable, outer.plugin_owned) == (bind.writable, bind.plugin_owned)
        return alike and outer.source == outer.target

    def _enclosing_bind(self, path: str, covers: tuple[str, ...]) -> BindMount | None:
        """The nearest bind that a path lies in, with no cover in between."""
        nearest = next((place for place in parent_directories(path) if place in self._binds or place in covers), None)
        return self._binds.get(nearest) if nearest is not None else None
