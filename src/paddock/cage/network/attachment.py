"""One cage's network, seen from the daemon: its listeners and its name server, and what is recorded about them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup, TaskStatus

from paddock.cage.network.denials import Denial, Denials
from paddock.cage.network.destinations import FAILED, NOT_GRANTED, TOO_MANY, Destination, Destinations, bare
from paddock.cage.network.dialing import Outside
from paddock.cage.network.dns import LONGEST_QUESTION, MadeUpAddresses, reply_to
from paddock.cage.network.listeners import Wanted, handed_over
from paddock.cage.network.pace import Pace
from paddock.cage.network.redirect import meant_by
from paddock.cage.network.relay import NetworkLimits, Relay, close
from paddock.cage.network.splice import Pipes
from paddock.cage.plan.addresses import FAKE_PREFIX, plan_network
from paddock.cage.spec import CageSpec
from paddock.core.errors import HostError
from paddock.core.event import Publish
from paddock.core.events_network import PluginNetConnected, PluginNetDenied


class Attachment:
    """Carries what one plugin connects to, as far as it was granted, from `run` until `end`."""

    def __init__(
        self,
        spec: CageSpec,
        sockets: Sequence[socket.socket],
        *,
        publish: Publish,
        outside: Outside,
        pipes: Pipes,
        limits: NetworkLimits,
        in_all: anyio.CapacityLimiter,
    ) -> None:
        self.used: Callable[[], None] = lambda: None  # told whenever the plugin's connections carry something
        self._spec = spec
        self._plan = plan_network(spec.network)
        self._sockets = sockets
        self._publish = publish
        self._outside = outside
        self._pipes = pipes
        self._limits = limits
        self._granted = Destinations(spec.network)
        self._made_up = MadeUpAddresses(FAKE_PREFIX)
        self._denials = Denials()
        self._pace = Pace(a_second=limits.connections_a_second, at_once=limits.connections)
        self._name_pace = Pace(a_second=limits.names_a_second, at_once=int(limits.names_a_second))
        self._lookups = anyio.Semaphore(limits.lookups)
        self._in_all = in_all
        self._running = 0
        self._listening = anyio.CancelScope()
        self._carrying = anyio.CancelScope()
        purposes = handed_over(self._plan, len(sockets))
        if purposes is None:
            raise HostError(
                f"the cage's network has {len(sockets)} sockets, which is not what its plan has",
                code="cage.network_mismatch",
            )
        self._purposes = purposes

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listen until ended or cancelled. When this returns, everything is closed and on record."""
        try:
            with self._carrying:
                async with anyio.create_task_group() as connections:
                    with self._listening:
                        async with anyio.create_task_group() as listeners:
                            self._listen(listeners, connections)
                            task_status.started()
                    self._take_the_last(connections)
                    self.close()
        finally:
            self.close()
            for denial, times in self._denials.rest():
                self._publish_denial(denial, times)

    def end(self) -> None:
        """The plugin is gone: hear nothing new, and give what it sent last a moment to arrive."""
        self._carrying.deadline = anyio.current_time() + self._limits.linger_seconds
        self._listening.cancel()

    def record_failure(self) -> None:
        """Put on record that this plugin has no network any more, through no fault of its own."""
        self._publish_denial(Denial("", None, None, FAILED), 1)

    def close(self) -> None:
        """Close the listeners. May be called again."""
        for one in self._sockets:
            one.close()

    def _listen(self, listeners: TaskGroup, connections: TaskGroup) -> None:
        for one, purpose in zip(self._sockets, self._purposes, strict=True):
            one.setblocking(False)
            if purpose.purpose == "dns":
                listeners.start_soon(self._answer_names, one)
            else:
                listeners.start_soon(self._accept, one, purpose, connections)

    async def _accept(self, listener: socket.socket, purpose: Wanted, connections: TaskGroup) -> None:
        while True:
            await _readable(listener, self._pace)
            self._take_one(listener, purpose, connections)

    def _take_the_last(self, connections: TaskGroup) -> None:
        """Take what a plugin that has ended connected before, and nobody has taken yet."""
        for listener, purpose in zip(self._sockets, self._purposes, strict=True):
            while purpose.purpose != "dns" and self._take_one(listener, purpose, connections):
                pass

    def _take_one(self, listener: socket.socket, purpose: Wanted, connections: TaskGroup) -> bool:
        """Accept a connection; False where there is none (any more), or no descriptor is free and it has to wait."""
        try:
            connection, _ = listener.accept()
        except OSError:
            return False
        connection.setblocking(False)
        meant = self._meant(connection, purpose)
        if isinstance(meant, Destination):
            self._running += 1
            connections.start_soon(self._serve, connection, meant)
            return True
        close(connection, broken=True)
        if meant is not None:
            self._deny(meant)
        return True

    def _meant(self, connection: socket.socket, purpose: Wanted) -> Destination | Denial | None:
        """Where a connection goes, or why it does not; None where it is over already."""
        address: str | None = None
        if purpose.purpose == "redirect":
            try:
                address, port = meant_by(connection)
            except OSError:
                return None
            known = self._made_up.name_of(address) or self._plan.host_of(address)
            host = bare(known or address)
        else:
            host, port, known = bare(purpose.host), purpose.port, purpose.host
        if not (known or self._plan.everything) or not self._granted.allows(host, port):
            return Denial(host, address, port, NOT_GRANTED)
        if self._running >= self._limits.connections or not self._in_all.available_tokens:
            return Denial(host, address, port, TOO_MANY)
        return Destination(host, port)

    async def _serve(self, connection: socket.socket, destination: Destination) -> None:
        relay = Relay(connection, destination, self._note_use)
        began = anyio.current_time()
        self._note_use()
        try:
            async with self._in_all:
                await relay.run(self._granted, self._outside, self._pipes, self._limits, self._lookups)
        finally:
            self._running -= 1
            connection.close()
            self._record(relay, seconds=anyio.current_time() - began)

    def _note_use(self) -> None:
        self.used()

    async def _answer_names(self, server: socket.socket) -> None:
        while True:
            await _readable(server, self._name_pace)
            reply = None
            with contextlib.suppress(OSError):  # an answer that cannot be sent is asked for again
                question, asker = server.recvfrom(LONGEST_QUESTION + 1)
                reply = reply_to(question, self._address_of)
                if reply is not None:
                    server.sendto(reply.data, asker)
            if reply is not None and reply.name and not reply.found:
                self._deny(Denial(reply.name, None, None, NOT_GRANTED))

    def _address_of(self, name: str) -> str | None:
        planned = self._plan.names.get(name)
        if planned is None and self._plan.everything:
            return self._made_up.address_of(name)
        return planned

    def _record(self, relay: Relay, *, seconds: float) -> None:
        host, port = relay.destination.host, relay.destination.port
        if relay.denied and relay.error is not None:
            self._deny(Denial(host, relay.address, port, relay.error))
            return
        self._publish.publish(
            PluginNetConnected(
                name=self._spec.plugin,
                cage_id=self._spec.cage_id,
                host=host,
                port=port,
                address=relay.address,
                bytes_up=relay.up,
                bytes_down=relay.down,
                duration_ms=round(seconds * 1000, 3),
                error=relay.error,
            )
        )

    def _deny(self, denial: Denial) -> None:
        for told, times in self._denials.note(denial, anyio.current_time()):
            self._publish_denial(told, times)

    def _publish_denial(self, denial: Denial, times: int) -> None:
        self._publish.publish(
            PluginNetDenied(
                name=self._spec.plugin,
                cage_id=self._spec.cage_id,
                host=denial.host,
                address=denial.address,
                port=denial.port,
                reason=denial.reason,
                times=times,
            )
        )


async def _readable(one: socket.socket, pace: Pace) -> None:
    """Wait until something has come, and until it is its turn: a flood waits in the kernel, not in our loop."""
    await anyio.wait_readable(one)
    pause = pace.take(anyio.current_time())
    if pause:
        await anyio.sleep(pause)
