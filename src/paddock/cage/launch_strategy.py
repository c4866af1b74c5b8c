"""What the warden knows of a way to start a cage, whichever it is: cold through bubblewrap, warm from a zygote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from paddock.cage.cgroups.cgroup import Cgroup
from paddock.cage.spec import CageSpec


@dataclass(frozen=True, slots=True)
class PluginStreams:
    """The plugin's ends of its pipes. The warden closes its copies once a way was started."""

    stdin: int
    stdout: int
    stderr: int
    artifacts: tuple[int, int] | None = None  # where it reads big bytes from, and where it writes them to

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self.stdin, self.stdout, self.stderr, *(self.artifacts or ()))


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One cage to be started."""

    name: str  # no other cage of this warden has or had it
    spec: CageSpec
    streams: PluginStreams
    resource_limits: Mapping[int, int]  # what the process carries itself, by the kernel's numbers


class CageHandle(Protocol):
    """A cage that is being built, runs, or has just ended. It never does anything unless asked to look."""

    @property
    def init_pid(self) -> int | None:
        """The first process of the cage's pid namespace, once it is there."""
        ...

    @property
    def plugin_pid(self) -> int | None:
        """The plugin's own process, once it stands behind every wall and waits for `go`."""
        ...

    def watched_fds(self) -> list[int]:
        """Descriptors that become readable when there is something to look at; they may change with each look."""
        ...

    def poll(self) -> int | None:
        """Take in what happened, without waiting.

        Returns None until everything in the cage is gone; then how the plugin ended: an exit code, or a signal as a
        negative number.
        """
        ...

    def release(self) -> None:
        """Let the plugin run. Called once, when it waits."""
        ...

    def kill(self) -> None:
        """End everything in the cage, in whatever state it is."""
        ...

    def close(self) -> None:
        """Let go of every descriptor, once everything is gone."""
        ...


class LaunchStrategy(Protocol):
    """Starts cages."""

    def cgroup_for(self, spec: CageSpec) -> Cgroup:
        """The group for the cage that is started next.

        Raises:
            OSError: the kernel refused; nothing is left of it.
        """
        ...

    def start(self, order: LaunchRequest) -> CageHandle:
        """Begin to build a cage.

        Raises:
            OSError: something the spec names is not there, or we ran out of something. Nothing is left behind.
        """
        ...
