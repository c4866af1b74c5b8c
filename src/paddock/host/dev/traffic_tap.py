"""Taps the traffic between the host and a plugin, frame by frame, without changing it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from paddock.cage.launcher import CagedProcess, Launcher
from paddock.cage.network.egress_proxy import CageNetwork
from paddock.cage.spec import CageSpec
from paddock.core.clock import Clock
from paddock.core.errors import HostError
from paddock.rpc.transport import Receiver, Transport
from paddock.runtime.deployment import LaunchTarget
from paddock.runtime.endpoint import CagedEndpoint, PluginEndpoint


class TrafficTap(Protocol):
    """Receives the traffic of one process. Called from the event loop; must be quick and must not raise."""

    def sent(self, frame: bytes) -> None:
        """Called with each frame that the host wrote to the process's standard input."""
        ...

    def received(self, frame: bytes) -> None:
        """Called with each frame that the process wrote to its standard output."""
        ...


class TappedEndpointLauncher:
    """Launches caged processes, each with a tap of its own: message ids are unique only within one connection."""

    def __init__(self, cages: Launcher, clock: Clock, tap: Callable[[], TrafficTap], network: CageNetwork) -> None:
        self._cages = cages
        self._clock = clock
        self._tap = tap
        self._network = network

    async def launch(self, target: LaunchTarget, on_log: Callable[[str], None]) -> PluginEndpoint:
        if not isinstance(target, CageSpec):
            raise HostError(f"no cage is built around {type(target).__name__}")
        process = await self._cages.launch(target)
        return _TappedEndpoint(process, target.cage_id, on_log, self._clock, self._network, self._tap())


class _TappedEndpoint(CagedEndpoint):
    def __init__(
        self,
        process: CagedProcess,
        cage_id: str,
        on_log: Callable[[str], None],
        clock: Clock,
        network: CageNetwork,
        tap: TrafficTap,
    ) -> None:
        super().__init__(process, cage_id, on_log, clock, network)
        self._tap = tap

    async def connect(self, receiver: Receiver) -> Transport:
        return _TappedTransport(await super().connect(_TappedReceiver(receiver, self._tap)), self._tap)


class _TappedReceiver:
    def __init__(self, receiver: Receiver, tap: TrafficTap) -> None:
        self._receiver = receiver
        self._tap = tap

    def frame_received(self, frame: bytes) -> None:
        self._tap.received(frame)
        self._receiver.frame_received(frame)

    def violated(self, kind: str, detail: str) -> None:
        self._receiver.violated(kind, detail)

    def stalled(self) -> None:
        self._receiver.stalled()

    def lost(self, reason: str) -> None:
        self._receiver.lost(reason)


class _TappedTransport:
    def __init__(self, transport: Transport, tap: TrafficTap) -> None:
        self._transport = transport
        self._tap = tap

    @property
    def backlog(self) -> int:
        return self._transport.backlog

    def start(self) -> None:
        self._transport.start()

    def send(self, frame: bytes) -> None:
        self._transport.send(frame)
        self._tap.sent(frame)

    def send_at_once(self, frame: bytes) -> bool:
        del frame
        return False

    async def drained(self) -> None:
        await self._transport.drained()

    def finish(self) -> None:
        self._transport.finish()

    def close(self) -> None:
        self._transport.close()

    async def wait_closed(self) -> None:
        await self._transport.wait_closed()
