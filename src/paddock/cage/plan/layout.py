"""Which files of the host stand in a cage: collected piece by piece, then put in the fewest binds that show them. Pure.

Everything stands at its own path, so that a path means the same on both sides.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from paddock.cage.plan.machine import Machine
from paddock.cage.plan.programs import Traced
from paddock.cage.spec import Bind, Link

# The host's own state: nothing of it is ever shown.
NEVER = ("/proc", "/sys", "/dev", "/run", "/.cage")
# Places and files that a cage has of its own. A grant of what is around them goes round them.
OWN = (*NEVER, "/tmp", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd", "/etc/resolv.conf")  # noqa: S108

# Beyond this building a cage would take longer than anybody waits.
MOST_BINDS = 1000


def below(path: str, parent: str) -> bool:
    """Whether a path is a place or anywhere below it."""
    return parent == "/" or path == parent or path.startswith(parent + "/")


def around(path: str) -> Iterator[str]:
    """The directories that a path lies in, the nearest first."""
    while path != "/":
        path = posixpath.dirname(path)
        yield path


class Layout:
    """What one cage shows. A path given here is real: no link is on the way to it.

    Args:
        machine: The host's files.
        hidden: Directories of the host's own. Where a bind would show one, it is covered and shown empty.
    """

    def __init__(self, machine: Machine, hidden: Iterable[str] = ()) -> None:
        self._machine = machine
        self.hidden = tuple(dict.fromkeys(hidden))
        self._binds: dict[str, Bind] = {}
        self._links: dict[str, Link] = {}

    @property
    def overfull(self) -> bool:
        """Whether more would have to be shown than one cage can; what came after that is missing."""
        return len(self._binds) > MOST_BINDS

    def show(self, path: str, *, writable: bool = False, own: bool = False) -> None:
        """Show a file or directory with everything below it, but not what a cage has of its own.

        Args:
            path: Real.
            writable: Whether the plugin may change it.
            own: Whether it is the plugin's own folder, where it may read whatever lies there.
        """
        if not any(inner != path and below(inner, path) for inner in OWN):
            self.place(Bind(path, path, writable, own))
            return
        for name in self._machine.entries(path):
            self._show_entry(posixpath.join(path, name), writable)

    def show_traced(self, traced: Traced) -> None:
        """Show a file or directory together with the links that lead there."""
        self.link(traced.links)
        self.show(traced.real)

    def place(self, bind: Bind) -> None:
        """Show something at a path that need not be its own. Whoever may write to it may, whatever else shows it."""
        present = self._binds.get(bind.target)
        if not self.overfull and (present is None or bind.writable):
            self._binds[bind.target] = bind

    def link(self, links: Iterable[Link]) -> None:
        """Put links where they are on the host."""
        for link in links:
            self._links.setdefault(link.path, link)

    def link_like(self, path: str) -> None:
        """Put a link there that is like the host's, where the host has one."""
        to = self._machine.link(path)
        if to:
            self.link([Link(path, to)])

    def shows(self, path: str) -> bool:
        """Whether the path, which is real, is seen in the cage."""
        nearest = next((place for place in (path, *around(path)) if place in self._binds or place in self.hidden), None)
        return nearest in self._binds

    def finished(self) -> tuple[tuple[Bind, ...], tuple[Link, ...], tuple[str, ...]]:
        """Binds, links and covers, each sorted by path."""
        covers = tuple(sorted(path for path in self.hidden if self._needs_cover(path)))
        binds = tuple(bind for _, bind in sorted(self._binds.items()) if not self._adds_nothing(bind, covers))
        links = tuple(link for _, link in sorted(self._links.items()) if not self._shown_around(link.path, covers))
        return binds, links, covers

    def _show_entry(self, path: str, writable: bool) -> None:
        if path in OWN:
            return
        match self._machine.kind(path):
            case "link":
                self.link_like(path)
            case "directory" | "file":
                self.show(path, writable=writable)
            case "special" | None:
                pass  # through a pipe or socket of the host somebody else would be reached

    def _needs_cover(self, path: str) -> bool:
        return (
            path not in self._binds
            and any(place in self._binds for place in around(path))
            and self._machine.kind(path) == "directory"
        )

    def _adds_nothing(self, bind: Bind, covers: tuple[str, ...]) -> bool:
        """Whether the bind around this one shows the same in the same way."""
        outer = self._shown_around(bind.target, covers)
        if outer is None or bind.source != bind.target:
            return False
        alike = (outer.writable, outer.own) == (bind.writable, bind.own)
        return alike and outer.source == outer.target

    def _shown_around(self, path: str, covers: tuple[str, ...]) -> Bind | None:
        """The nearest bind that a path lies in, with no cover in between."""
        nearest = next((place for place in around(path) if place in self._binds or place in covers), None)
        return self._binds.get(nearest) if nearest is not None else None
