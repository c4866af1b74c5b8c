"""What the rest of the house knows of the cage: launch a spec, get a process, wait for its end.

Two things stand behind it: the warden's real cages, and a process that a test plays.
"""

from __future__ import annotations

from typing import Protocol

from paddock.cage.spec import CageSpec, ProcessExit
from paddock.core.errors import Category, PluginError


class CageUnavailable(PluginError):
    """This machine cannot build a cage, or not this one; the plugin is refused and the daemon lives on.

    The code says which wall is missing (`cage.bwrap_missing`, …) and the hint is the line to type.
    """

    code = "cage.unavailable"
    category = Category.DEPENDENCY


class CagedProcess(Protocol):
    """One plugin process. Whoever launched it owns the descriptors and closes them."""

    @property
    def pid(self) -> int:
        """The plugin's pid as the host sees it."""
        ...

    @property
    def stdin(self) -> int: ...

    @property
    def stdout(self) -> int: ...

    @property
    def stderr(self) -> int: ...

    @property
    def artifacts(self) -> tuple[int, int] | None:
        """The pipes on which big bytes travel, to read from and to write to; None where the spec asks for none."""
        ...

    async def wait(self) -> ProcessExit:
        """How it ended, once everything that was in the cage is gone. May be awaited again."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to the plugin's own process (not to its children)."""
        ...

    def kill(self) -> None:
        """End everything in the cage, at once. Harmless when it is gone already."""
        ...


class Launcher(Protocol):
    """Starts caged processes, at most a few at a time."""

    async def launch(self, spec: CageSpec) -> CagedProcess:
        """Build the cage and start its program.

        Raises:
            CageUnavailable: no cage can be built here, or the spec asks for what is not there.
        """
        ...
