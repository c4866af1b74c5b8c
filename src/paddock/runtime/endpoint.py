"""Plugin endpoints: what a plugin runs in. A caged process here; a remote server or in-process functions elsewhere."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from paddock.cage.network.egress_proxy import CageNetwork
from paddock.cage.spec import ProcessExit
from paddock.cage.warden.client import CagedProcess
from paddock.core.clock import Clock
from paddock.core.events.event import Event
from paddock.core.events.plugin_runtime import PluginSpawned
from paddock.core.ids import PluginName
from paddock.rpc.transport import Receiver, Transport
from paddock.runtime.deployment import LaunchTarget
from paddock.runtime.stderr_tail import StderrReader, StderrTail


class PluginEndpoint(Protocol):
    """One run of a plugin, whatever it runs in. The launcher's caller kills it, waits for its exit and closes it."""

    @property
    def pid(self) -> int | None:
        """Its process id on the host; None if it has no process."""
        ...

    @property
    def cage_id(self) -> str | None: ...

    @property
    def recent_log(self) -> list[str]:
        """The last lines of its log."""
        ...

    def start_event(self, plugin: PluginName, version: str) -> Event:
        """Return the audit event that records its start."""
        ...

    async def connect(self, receiver: Receiver) -> Transport:
        """Open the transport to it. The caller owns the transport.

        Raises:
            OSError, PaddockError: it cannot be opened.
        """
        ...

    async def wait(self) -> ProcessExit:
        """Wait for its exit."""
        ...

    def signal(self, number: int) -> None:
        """Send it a signal, where that means something."""
        ...

    def kill(self) -> None:
        """End it at once. Harmless if it is gone already."""
        ...

    async def final_log(self) -> tuple[str, ...]:
        """After its exit: the last lines of its log, once all of them are read."""
        ...

    def close(self) -> None: ...


LaunchEndpoint: TypeAlias = Callable[[LaunchTarget, Callable[[str], None]], Awaitable[PluginEndpoint]]
"""Launches an endpoint; the function given gets each line of its log. Raises PaddockError where it cannot."""

OpenTransport: TypeAlias = Callable[[int, int, Receiver], Awaitable[Transport]]
"""Opens the transport over the pipes to a process: the one to read from, and the one to write to."""


class CagedEndpoint:
    """A process in a cage; see `PluginEndpoint`."""

    def __init__(
        self,
        process: CagedProcess,
        cage_id: str,
        on_log: Callable[[str], None],
        clock: Clock,
        network: CageNetwork | None,
        open_transport: OpenTransport,
    ) -> None:
        self._process = process
        self._network = network
        self._open_transport = open_transport
        # Still ours to close.
        self._open_fds = {process.stdin, process.stdout, process.stderr, *(process.artifacts or ())}
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
        return await self._open_transport(process.stdout, process.stdin, receiver)

    def take_artifact_pipes(self) -> tuple[int, int] | None:
        """Hand over the descriptors of its artifact pipes, to read from and to write to. The caller owns them then."""
        pipes = self._process.artifacts
        self._open_fds -= set(pipes or ())
        return pipes

    def watch_network(self, used: Callable[[], None]) -> None:
        """Call `used` whenever it uses its network connections."""
        if self._network is not None:
            self._network.watch(self._cage_id, used)

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
