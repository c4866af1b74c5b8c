"""What a plugin lives in: a process in a cage, a connection to a server elsewhere, functions of an application."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from paddock.cage.launcher import CagedProcess, Launcher
from paddock.cage.spec import CageSpec, ProcessExit
from paddock.core.clock import Clock
from paddock.core.errors import HostError
from paddock.core.events.event import Event
from paddock.core.events.plugin_runtime import PluginSpawned
from paddock.core.ids import PluginName
from paddock.rpc.pipe_transport import open_pipe_transport
from paddock.rpc.transport import Receiver, Transport
from paddock.runtime.deployment import LaunchTarget
from paddock.runtime.stderr_tail import StderrReader, StderrTail


class PluginEndpoint(Protocol):
    """One life's worth. Whoever began it kills it, waits for its end and closes it."""

    @property
    def pid(self) -> int | None:
        """Its process as the host sees it; None where it has none."""
        ...

    @property
    def cage_id(self) -> str | None: ...

    @property
    def recent_log(self) -> list[str]:
        """The last lines of its log."""
        ...

    def start_event(self, plugin: PluginName, version: str) -> Event:
        """What is recorded about its beginning."""
        ...

    async def connect(self, receiver: Receiver) -> Transport:
        """The way to talk to it; the transport is the caller's.

        Raises:
            OSError, PaddockError: there is none.
        """
        ...

    async def wait(self) -> ProcessExit:
        """How it ended."""
        ...

    def signal(self, number: int) -> None:
        """Send it a signal, where that means something."""
        ...

    def kill(self) -> None:
        """End it at once. Harmless when it is gone already."""
        ...

    async def final_log(self) -> tuple[str, ...]:
        """After its end: the last lines of its log, once they are all read."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class ArtifactEndpoint(PluginEndpoint, Protocol):
    """One beside whose messages big bytes may travel."""

    def take_artifact_pipes(self) -> tuple[int, int] | None:
        """Descriptors of the pipes for these, to read from and to write to; the caller's from here on."""
        ...


@runtime_checkable
class NetworkedEndpoint(PluginEndpoint, Protocol):
    """One whose connections go through the host."""

    def watch_network(self, used: Callable[[], None]) -> None:
        """Tell somebody whenever it uses them."""
        ...


class NetworkActivity(Protocol):
    """The network of all cages."""

    def watch(self, cage_id: str, used: Callable[[], None]) -> None:
        """Tell somebody whenever what runs in a cage uses its network."""
        ...


class EndpointLauncher(Protocol):
    """Begins them."""

    async def launch(self, place: LaunchTarget, on_log: Callable[[str], None]) -> PluginEndpoint:
        """One at this place; `on_log` is told each line of its log.

        Raises:
            PaddockError: there can be none.
        """
        ...


class CagedEndpointLauncher:
    """Processes in cages.

    Args:
        launcher: Builds the cages.
        clock: Says when a second is over.
        networks: Tells of what they connect to; nobody is told where it is None.
    """

    def __init__(self, launcher: Launcher, clock: Clock, networks: NetworkActivity | None = None) -> None:
        self._launcher = launcher
        self._clock = clock
        self._networks = networks

    async def launch(self, place: LaunchTarget, on_log: Callable[[str], None]) -> PluginEndpoint:
        if not isinstance(place, CageSpec):
            raise HostError(f"no cage is built around {type(place).__name__}")
        return CagedEndpoint(await self._launcher.launch(place), place.cage_id, on_log, self._clock, self._networks)


class CagedEndpoint:
    """A process in a cage; see `Body`."""

    def __init__(
        self,
        process: CagedProcess,
        cage_id: str,
        on_log: Callable[[str], None],
        clock: Clock,
        networks: NetworkActivity | None = None,
    ) -> None:
        self._process = process
        self._networks = networks
        self._open_fds = {
            process.stdin,
            process.stdout,
            process.stderr,
            *(process.artifacts or ()),
        }  # ours to close yet
        self._cage_id = cage_id
        self._stderr = StderrReader(StderrTail(on_log), clock)

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def cage_id(self) -> str | None:
        return self._cage_id

    @property
    def recent_log(self) -> list[str]:
        return [*self._stderr.lines]

    def start_event(self, plugin: PluginName, version: str) -> Event:
        return PluginSpawned(name=plugin, version=version, pid=self._process.pid, cage_id=self._cage_id)

    async def connect(self, receiver: Receiver) -> Transport:
        process = self._process
        self._open_fds.remove(process.stderr)
        await self._stderr.attach(process.stderr)
        self._open_fds -= {process.stdin, process.stdout}
        return await open_pipe_transport(process.stdout, process.stdin, receiver)

    def take_artifact_pipes(self) -> tuple[int, int] | None:
        ends = self._process.artifacts
        self._open_fds -= set(ends or ())
        return ends

    def watch_network(self, used: Callable[[], None]) -> None:
        if self._networks is not None:
            self._networks.watch(self._cage_id, used)

    async def wait(self) -> ProcessExit:
        return await self._process.wait()

    def signal(self, number: int) -> None:
        self._process.signal(number)

    def kill(self) -> None:
        self._process.kill()

    async def final_log(self) -> tuple[str, ...]:
        return await self._stderr.final_lines()

    def close(self) -> None:
        self._stderr.close()
        while self._open_fds:
            os.close(self._open_fds.pop())
