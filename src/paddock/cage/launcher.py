"""The interface of the cage for other packages: launch a spec, get a process, wait for its end.

It has two implementations: the warden's real cages, and the fake process of the tests.
"""

from __future__ import annotations

from typing import Protocol

from paddock.cage.spec import CageSpec, ProcessExit
from paddock.core.errors import Category, PluginError


class CageUnavailable(PluginError):
    """This host cannot build a cage, or not this one. The plugin does not start; the daemon goes on.

    The code says what is missing (`cage.bwrap_missing`, …) and the hint is the command to type.
    """

    code = "cage.unavailable"
    category = Category.DEPENDENCY


class CagedProcess(Protocol):
    """One plugin process. The caller of `launch` owns the descriptors and closes them."""

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
        """The artifact pipes, to read from and to write to; None where the spec asks for none."""
        ...

    async def wait(self) -> ProcessExit:
        """Wait until everything in the cage is gone, and return how the plugin ended. May be awaited again."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to the plugin's own process (not to its children)."""
        ...

    def kill(self) -> None:
        """Kill everything in the cage at once. Does nothing when it is gone already."""
        ...


class Launcher(Protocol):
    """Starts caged processes, at most a few at a time."""

    async def launch(self, spec: CageSpec) -> CagedProcess:
        """Build the cage and start its program.

        Raises:
            CageUnavailable: No cage can be built here, or the spec names something that does not exist.
        """
        ...
