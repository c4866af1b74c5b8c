"""What the warden knows of a way to start a cage, whichever it is: cold through bubblewrap, warm from a zygote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from paddock.cage.limits.groups import Group
from paddock.cage.spec import CageSpec


@dataclass(frozen=True, slots=True)
class Streams:
    """The plugin's ends of its pipes. The warden closes its copies once a way was started."""

    stdin: int
    stdout: int
    stderr: int
    artifacts: tuple[int, int] | None = None  # where it reads big bytes from, and where it writes them to

    @property
    def all(self) -> tuple[int, ...]:
        return (self.stdin, self.stdout, self.stderr, *(self.artifacts or ()))


@dataclass(frozen=True, slots=True)
class Order:
    """One cage to be started."""

    name: str  # no other cage of this warden has or had it
    spec: CageSpec
    streams: Streams
    resource_limits: Mapping[int, int]  # what the process carries itself, by the kernel's numbers


class Body(Protocol):
    """A cage that is being built, runs, or has just ended. It never does anything unless asked to look."""

    @property
    def first(self) -> int | None:
        """The first process of the cage's pid namespace, once it is there."""
        ...

    @property
    def plugin(self) -> int | None:
        """The plugin's own process, once it stands behind every wall and waits for `go`."""
        ...

    def watched(self) -> list[int]:
        """Descriptors that become readable when there is something to look at; they may change with each look."""
        ...

    def look(self) -> int | None:
        """Take in what happened, without waiting.

        Returns None until everything in the cage is gone; then how the plugin ended: an exit code, or a signal as a
        negative number.
        """
        ...

    def go(self) -> None:
        """Let the plugin run. Called once, when it waits."""
        ...

    def kill(self) -> None:
        """End everything in the cage, in whatever state it is."""
        ...

    def close(self) -> None:
        """Let go of every descriptor, once everything is gone."""
        ...


class Way(Protocol):
    """Starts cages."""

    def group(self, spec: CageSpec) -> Group:
        """The group for the cage that is started next.

        Raises:
            OSError: the kernel refused; nothing is left of it.
        """
        ...

    def start(self, order: Order) -> Body:
        """Begin to build a cage.

        Raises:
            OSError: something the spec names is not there, or we ran out of something. Nothing is left behind.
        """
        ...
