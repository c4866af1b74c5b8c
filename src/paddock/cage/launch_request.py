"""What starting a cage takes and gives, whether bubblewrap builds it or a zygote is forked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from paddock.cage.spec import CageSpec


@dataclass(frozen=True, slots=True)
class PluginStreams:
    """The plugin's ends of its pipes. The warden closes its copies once the cage was started."""

    stdin: int
    stdout: int
    stderr: int
    artifacts: tuple[int, int] | None = None  # the pipes it reads artifacts from and writes them to

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self.stdin, self.stdout, self.stderr, *(self.artifacts or ()))


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One cage to be started."""

    name: str  # unique among all cages of this warden, past ones too
    spec: CageSpec
    streams: PluginStreams
    resource_limits: Mapping[int, int]  # rlimits of the process, by the kernel's numbers


class CageHandle(Protocol):
    """A cage that is being built, runs, or has just ended. It only makes progress when polled."""

    @property
    def init_pid(self) -> int | None:
        """The first process of the cage's pid namespace, once it is there."""
        ...

    @property
    def plugin_pid(self) -> int | None:
        """The plugin's own process, once it is fully confined and waits for `release`."""
        ...

    def watched_fds(self) -> list[int]:
        """Descriptors that become readable when `poll` has something to do; they may change with each poll."""
        ...

    def poll(self) -> int | None:
        """Process what happened, without blocking.

        Returns None until everything in the cage is gone; then how the plugin ended: an exit code, or a signal as a
        negative number.
        """
        ...

    def limit_inotify(self) -> None:
        """Limit how many file watches the plugin can take from others of the same user. Called while it waits.

        Raises:
            OSError: The limits could not be set; the plugin must not run.
        """
        ...

    def release(self) -> None:
        """Let the plugin run. Called once, when it waits."""
        ...

    def take_listener(self) -> int | None:
        """The seccomp listener of a learning cage, once the plugin waits; the caller owns it. None in all others."""
        ...

    def kill(self) -> None:
        """Kill everything in the cage, in whatever state it is."""
        ...

    def close(self) -> None:
        """Close every descriptor, once everything is gone."""
        ...
