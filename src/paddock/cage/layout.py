"""Which files of the host stand in a cage: collected piece by piece, then put in the fewest binds that show them. Pure.

Everything stands at its own path, so that a path means the same on both sides.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from paddock.cage.machine import Machine
from paddock.cage.programs import Traced
from paddock.cage.spec import Bind, Link

# The host's own state: nothing of it is ever shown.
NEVER = ("/proc", "/sys", "/dev", "/run", "/.cage")
# Places and files that a cage has of its own. A grant of what is around them goes round them.
OWN = (*NEVER, "/tmp", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd", "/etc/resolv.conf")  # noqa: S108


def below(path: str, parent: str) -> bool:
    """Whether a path is a place or anywhere below it."""
    return parent == "/" or path == parent or path.startswith(parent + "/")


class Layout:
    """What one cage shows. A path given here is real: no link is on the way to it."""

    def __init__(self, machine: Machine, hidden: Iterable[str] = ()) -> None:
        self._machine = machine
        self.hidden = tuple(dict.fromkeys(hidden))  # directories of the host's own, shown empty
        self._binds: dict[str, Bind] = {}
        self._links: dict[str, Link] = {}

    def show(self, path: str, *, writable: bool = False) -> None:
        """Show a file or directory with everything below it, but not what a cage has of its own."""
        if any(inner != path and below(inner, path) for inner in OWN):
            for name in self._machine.entries(path):
                self._show_entry(posixpath.join(path, name), writable)
        else:
            self._bind(Bind(path, path, writable))

    def show_traced(self, traced: Traced) -> None:
        """Show a file or directory together with the links that lead there."""
        self.link(traced.links)
        self.show(traced.real)

    def place(self, bind: Bind) -> None:
        """Show something at another path than its own."""
        self._bind(bind)

    def link(self, links: Iterable[Link]) -> None:
        for link in links:
            self._links.setdefault(link.path, link)

    def shows(self, path: str) -> bool:
        """Whether the path, which is real, is seen in the cage."""
        return any(below(path, bind.target) for bind in self._binds.values())

    def finished(self) -> tuple[tuple[Bind, ...], tuple[Link, ...], tuple[str, ...]]:
        """Binds, links and covers, each sorted by path."""
        covers = tuple(sorted(path for path in self.hidden if self._needs_cover(path)))
        binds = tuple(bind for _, bind in sorted(self._binds.items()) if not self._already_shown(bind, covers))
        links = tuple(link for _, link in sorted(self._links.items()) if not _inside(link.path, binds, covers))
        return binds, links, covers

    def _show_entry(self, path: str, writable: bool) -> None:
        if path in OWN:
            return
        match self._machine.kind(path):
            case "link":
                self.link([Link(path, self._machine.link(path))])
            case "directory" | "file":
                self.show(path, writable=writable)
            case None:
                pass

    def _bind(self, bind: Bind) -> None:
        present = self._binds.get(bind.target)
        if present is None or bind.writable:
            self._binds[bind.target] = bind

    def _needs_cover(self, path: str) -> bool:
        around = [bind for bind in self._binds.values() if bind.target != path and below(path, bind.target)]
        return bool(around) and path not in self._binds and self._machine.kind(path) == "directory"

    def _already_shown(self, bind: Bind, covers: tuple[str, ...]) -> bool:
        """Whether an outer bind shows the same in the same way, so that this one adds nothing."""
        if bind.source != bind.target:
            return False
        around = [other for other in self._binds.values() if other != bind and below(bind.target, other.target)]
        if not around or any(below(bind.target, cover) for cover in covers):
            return False
        nearest = max(around, key=lambda other: len(other.target))
        return nearest.writable == bind.writable and nearest.source == nearest.target


def _inside(path: str, binds: Iterable[Bind], covers: Iterable[str]) -> bool:
    """Whether a link is there already, in a tree of the host that is shown."""
    return any(below(path, bind.target) for bind in binds) and not any(below(path, cover) for cover in covers)
