"""One cage's network, seen from the daemon: its listeners and its name server, and what is recorded about them."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup, TaskStatus

from paddock.cage.network.dns import MAX_QUERY_BYTES, SyntheticAddresses, answer_query
from paddock.cage.network.netlink import original_destination
from paddock.cage.network.netns import PlannedSocket, match_sockets
from paddock.cage.network.relay import DenialAggregator, NetworkDenial, NetworkLimits, RatePacer, Relay, close_socket
from paddock.cage.network.splice import PipePool
from paddock.cage.plan.network_plan import SYNTHETIC_PREFIX, plan_network
from paddock.cage.spec import CageSpec
from paddock.core.errors import HostError
from paddock.core.events.capabilities import PluginNetConnected, PluginNetDenied
from paddock.core.events.event import EventSink
from paddock.core.ids import Tenant
from paddock.net.dial import OutboundNetwork, SystemNetwork
from paddock.net.egress import (
    NETWORK_FAILED,
    NOT_GRANTED,
    TOO_MANY_CONNECTIONS,
    Destination,
    EgressPolicy,
    canonical_host,
)


class CageEgressProxy:
    """Carries what one plugin connects to, as far as it was granted, from `run` until `end`."""

    def __init__(
        self,
        spec: CageSpec,
        sockets: Sequence[socket.socket],
        *,
        publish: EventSink,
        outside: OutboundNetwork,
        pipes: PipePool,
        limits: NetworkLimits,
        in_all: anyio.CapacityLimiter,
    ) -> None:
        self.on_use: Callable[[], None] = lambda: None  # told whenever the plugin's connections carry something
        self._spec = spec
        self._plan = plan_network(spec.network)
        self._sockets = sockets
        self._publish = publish
        self._outside = outside
        self._pipes = pipes
        self._limits = limits
        self._granted = EgressPolicy(spec.network)
        self._synthetic = SyntheticAddresses(SYNTHETIC_PREFIX)
        self._denials = DenialAggregator()
        self._connection_rate = RatePacer(a_second=limits.connections_a_second, at_once=limits.connections)
        self._lookup_rate = RatePacer(a_second=limits.names_a_second, at_once=int(limits.names_a_second))
        self._lookups = anyio.Semaphore(limits.lookups)
        self._global_limit = in_all
        self._running = 0
        self._listening = anyio.CancelScope()
        self._carrying = anyio.CancelScope()
        purposes = match_sockets(self._plan, len(sockets))
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
                    self._accept_remaining(connections)
                    self.close()
        finally:
            self.close()
            for denial, times in self._denials.flush():
                self._publish_denial(denial, times)

    def finish(self) -> None:
        """The plugin is gone: hear nothing new, and give what it sent last a moment to arrive."""
        self._carrying.deadline = anyio.current_time() + self._limits.linger_seconds
        self._listening.cancel()

    def record_failure(self) -> None:
        """Put on record that this plugin has no network any more, through no fault of its own."""
        self._publish_denial(NetworkDenial("", None, None, NETWORK_FAILED), 1)

    def close(self) -> None:
        """Close the listeners. May be called again."""
        for one in self._sockets:
            one.close()

    def _listen(self, listeners: TaskGroup, connections: TaskGroup) -> None:
        for one, purpose in zip(self._sockets, self._purposes, strict=True):
            one.setblocking(False)
            if purpose.purpose == "dns":
                listeners.start_soon(self._serve_dns, one)
            else:
                listeners.start_soon(self._accept, one, purpose, connections)

    async def _accept(self, listener: socket.socket, purpose: PlannedSocket, connections: TaskGroup) -> None:
        while True:
            await _wait_readable(listener, self._connection_rate)
            self._accept_one(listener, purpose, connections)

    def _accept_remaining(self, connections: TaskGroup) -> None:
        """Take what a plugin that has ended connected before, and nobody has taken yet."""
        for listener, purpose in zip(self._sockets, self._purposes, strict=True):
            while purpose.purpose != "dns" and self._accept_one(listener, purpose, connections):
                pass

    def _accept_one(self, listener: socket.socket, purpose: PlannedSocket, connections: TaskGroup) -> bool:
        """Accept a connection; False where there is none (any more), or no descriptor is free and it has to wait."""
        try:
            connection, _ = listener.accept()
        except OSError:
            return False
        connection.setblocking(False)
        meant = self._resolve_destination(connection, purpose)
        if isinstance(meant, Destination):
            self._running += 1
            connections.start_soon(self._relay_connection, connection, meant)
            return True
        close_socket(connection, broken=True)
        if meant is not None:
            self._record_denial(meant)
        return True

    def _resolve_destination(
        self, connection: socket.socket, purpose: PlannedSocket
    ) -> Destination | NetworkDenial | None:
        """Where a connection goes, or why it does not; None where it is over already."""
        address: str | None = None
        if purpose.purpose == "redirect":
            try:
                address, port = original_destination(connection)
            except OSError:
                return None
            known = self._synthetic.name_for(address) or self._plan.host_for(address)
            host = canonical_host(known or address)
        else:
            host, port, known = canonical_host(purpose.host), purpose.port, purpose.host
        if not (known or self._plan.unrestricted) or not self._granted.allows(host, port):
            return NetworkDenial(host, address, port, NOT_GRANTED)
        if self._running >= self._limits.connections or not self._global_limit.available_tokens:
            return NetworkDenial(host, address, port, TOO_MANY_CONNECTIONS)
        return Destination(host, port)

    async def _relay_connection(self, connection: socket.socket, destination: Destination) -> None:
        relay = Relay(connection, destination, self._note_use)
        began = anyio.current_time()
        self._note_use()
        try:
            async with self._global_limit:
                await relay.run(self._granted, self._outside, self._pipes, self._limits, self._lookups)
        finally:
            self._running -= 1
            connection.close()
            self._record_connection(relay, seconds=anyio.current_time() - began)

    def _note_use(self) -> None:
        self.on_use()

    async def _serve_dns(self, server: socket.socket) -> None:
        while True:
            await _wait_readable(server, self._lookup_rate)
            reply = None
            with contextlib.suppress(OSError):  # an answer that cannot be sent is asked for again
                question, asker = server.recvfrom(MAX_QUERY_BYTES + 1)
                reply = answer_query(question, self._address_for)
                if reply is not None:
                    server.sendto(reply.data, asker)
            if reply is not None and reply.name and not reply.found:
                self._record_denial(NetworkDenial(reply.name, None, None, NOT_GRANTED))

    def _address_for(self, name: str) -> str | None:
        planned = self._plan.names.get(name)
        if planned is None and self._plan.unrestricted:
            return self._synthetic.address_for(name)
        return planned

    def _record_connection(self, relay: Relay, *, seconds: float) -> None:
        host, port = relay.destination.host, relay.destination.port
        if relay.denied and relay.error is not None:
            self._record_denial(NetworkDenial(host, relay.address, port, relay.error))
            return
        self._publish.publish(
            PluginNetConnected(
                name=self._spec.plugin,
                cage_id=self._spec.cage_id,
                host=host,
                port=port,
                address=relay.address,
                bytes_up=relay.bytes_up,
                bytes_down=relay.bytes_down,
                duration_ms=round(seconds * 1000, 3),
                error=relay.error,
            )
        )

    def _record_denial(self, denial: NetworkDenial) -> None:
        for told, times in self._denials.add(denial, anyio.current_time()):
            self._publish_denial(told, times)

    def _publish_denial(self, denial: NetworkDenial, times: int) -> None:
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


async def _wait_readable(one: socket.socket, pace: RatePacer) -> None:
    """Wait until something has come, and until it is its turn: a flood waits in the kernel, not in our loop."""
    await anyio.wait_readable(one)
    pause = pace.reserve(anyio.current_time())
    if pause:
        await anyio.sleep(pause)


PublishFor: TypeAlias = Callable[[Tenant], EventSink]


class CageNetwork:
    """Every cage that may connect somewhere. Made by `open_network`."""

    def __init__(
        self,
        publish_for: PublishFor,
        *,
        tasks: TaskGroup,
        outside: OutboundNetwork,
        pipes: PipePool,
        limits: NetworkLimits,
    ) -> None:
        self._publish_for = publish_for
        self._tasks = tasks
        self._outside = outside
        self._pipes = pipes
        self._limits = limits
        self._global_limit = anyio.CapacityLimiter(_max_connections(limits))
        self._attached: dict[str, CageEgressProxy] = {}

    async def attach(self, cage_id: str, spec: CageSpec, listeners: Sequence[socket.socket]) -> None:
        """Serve a cage's sockets, which are ours from now on, whatever happens.

        Raises:
            HostError: the sockets are not those that the spec's network needs.
        """
        try:
            attachment = CageEgressProxy(
                spec,
                listeners,
                publish=self._publish_for(Tenant(spec.tenant)),
                outside=self._outside,
                pipes=self._pipes,
                limits=self._limits,
                in_all=self._global_limit,
            )
            if listeners:
                self.detach(cage_id)
                self._attached[cage_id] = attachment
                await self._tasks.start(_run_contained, attachment)
        except BaseException:
            for one in listeners:
                one.close()
            raise

    def watch(self, cage_id: str, used: Callable[[], None]) -> None:
        """Tell somebody whenever what runs in a cage uses its network: when it connects, and when anything is carried.
        It never is where the cage has none."""
        attachment = self._attached.get(cage_id)
        if attachment is not None:
            attachment.on_use = used

    def detach(self, cage_id: str) -> None:
        """End a cage's network, as its plugin has ended. Harmless when it has none."""
        attachment = self._attached.pop(cage_id, None)
        if attachment is not None:
            attachment.finish()

    def abort(self) -> None:
        """End every cage's network at once: connections are reset, and recorded."""
        self._tasks.cancel_scope.cancel()


async def _run_contained(attachment: CageEgressProxy, *, task_status: TaskStatus[None]) -> None:
    try:
        await attachment.run(task_status=task_status)
    except Exception:
        # What cannot be recorded is not carried: that cage is without a network from then on, and no other is. Should
        # it have been something else, there is a record of it.
        with suppress(Exception):
            attachment.record_failure()


@asynccontextmanager
async def open_cage_network(
    publish_for: PublishFor, *, outside: OutboundNetwork | None = None, limits: NetworkLimits | None = None
) -> AsyncGenerator[CageNetwork, None]:
    """The network of all cages, for as long as the block runs.

    `publish_for` is where a tenant's events are recorded; `outside` is the world that a test plays.
    """
    pipes = PipePool()
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as tasks:
            network = CageNetwork(
                publish_for,
                tasks=tasks,
                outside=outside or SystemNetwork(),
                pipes=pipes,
                limits=limits or NetworkLimits(),
            )
            try:
                yield network
            except Exception as error:
                # Raised below: it is the block's own, and must not come out dressed as a failure of our tasks.
                failure = error
            finally:
                network.abort()
    finally:
        pipes.close()
    if failure is not None:
        raise failure


def _max_connections(limits: NetworkLimits) -> int:
    """As many as the limits say, or fewer: half of our descriptors, two a connection, are for others' work."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(limits.connections_in_all, descriptors // 4) if descriptors > 0 else limits.connections_in_all
