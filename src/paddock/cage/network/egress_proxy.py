"""The egress proxy of cages: accepts their connections and DNS queries, relays what is granted, records the rest."""

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
from paddock.cage.plan.network_plan import SYNTHETIC_PREFIX, plan_cage_network
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
    """Relays the granted connections of one plugin, from `run` until `finish`."""

    def __init__(
        self,
        spec: CageSpec,
        sockets: Sequence[socket.socket],
        *,
        publish: EventSink,
        outside: OutboundNetwork,
        pipes: PipePool,
        limits: NetworkLimits,
        global_limit: anyio.CapacityLimiter,
    ) -> None:
        self._spec = spec
        self._plan = plan_cage_network(spec)
        self._sockets = sockets
        self._publish = publish
        self._outside = outside
        self._pipes = pipes
        self._limits = limits
        self._policy = EgressPolicy(spec.network)
        self._synthetic = SyntheticAddresses(SYNTHETIC_PREFIX)
        self._denials = DenialAggregator()
        self._connection_rate = RatePacer(per_second=limits.connections_a_second, burst=limits.connections)
        self._lookup_rate = RatePacer(per_second=limits.names_a_second, burst=int(limits.names_a_second))
        self._lookups = anyio.Semaphore(limits.lookups)
        self._global_limit = global_limit
        self._running = 0
        self._watchers: list[Callable[[], None]] = []  # called whenever the plugin's connections carry data
        self._denial_watchers: list[Callable[[NetworkDenial], None]] = []
        self._listen_scope = anyio.CancelScope()
        self._relay_scope = anyio.CancelScope()
        purposes = match_sockets(self._plan, len(sockets))
        if purposes is None:
            raise HostError(
                f"the cage's network has {len(sockets)} sockets, which is not what its plan has",
                code="cage.network_mismatch",
            )
        self._planned_sockets = purposes

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until finished or cancelled. When this returns, everything is closed and recorded."""
        try:
            with self._relay_scope:
                async with anyio.create_task_group() as connections:
                    with self._listen_scope:
                        async with anyio.create_task_group() as listeners:
                            self._listen(listeners, connections)
                            task_status.started()
                    self._accept_remaining(connections)
                    self.close()
        finally:
            self.close()
            for denial, times in self._denials.flush():
                self._publish_denial(denial, times)

    def watch(self, used: Callable[[], None]) -> None:
        """Call `used` on each connection, and when data is relayed."""
        self._watchers.append(used)

    def watch_denials(self, denied: Callable[[NetworkDenial], None]) -> None:
        """Call `denied` for each connection and each name that is refused."""
        self._denial_watchers.append(denied)

    def finish(self) -> None:
        """Stop accepting, as the plugin is gone, and give what it sent last a moment to arrive."""
        self._relay_scope.deadline = anyio.current_time() + self._limits.linger_seconds
        self._listen_scope.cancel()

    def record_failure(self) -> None:
        """Record that this plugin lost its network, through no fault of its own."""
        self._publish_denial(NetworkDenial("", None, None, NETWORK_FAILED), 1)

    def close(self) -> None:
        """Close the listeners. May be called again."""
        for listener in self._sockets:
            listener.close()

    def _listen(self, listeners: TaskGroup, connections: TaskGroup) -> None:
        for listener, planned in zip(self._sockets, self._planned_sockets, strict=True):
            listener.setblocking(False)
            if planned.purpose == "dns":
                listeners.start_soon(self._serve_dns, listener)
            else:
                listeners.start_soon(self._accept, listener, planned, connections)

    async def _accept(self, listener: socket.socket, planned: PlannedSocket, connections: TaskGroup) -> None:
        while True:
            await _wait_readable(listener, self._connection_rate)
            self._accept_one(listener, planned, connections)

    def _accept_remaining(self, connections: TaskGroup) -> None:
        """Accept what an ended plugin had connected before and is still in the backlog."""
        for listener, planned in zip(self._sockets, self._planned_sockets, strict=True):
            while planned.purpose != "dns" and self._accept_one(listener, planned, connections):
                pass

    def _accept_one(self, listener: socket.socket, planned: PlannedSocket, connections: TaskGroup) -> bool:
        """Accept a connection; False where there is none, or no descriptor is free and it has to wait."""
        try:
            connection, _ = listener.accept()
        except OSError:
            return False
        connection.setblocking(False)
        destination = self._resolve_destination(connection, planned)
        if isinstance(destination, Destination):
            self._running += 1
            connections.start_soon(self._relay_connection, connection, destination)
            return True
        close_socket(connection, broken=True)
        if destination is not None:
            self._record_denial(destination)
        return True

    def _resolve_destination(
        self, connection: socket.socket, planned: PlannedSocket
    ) -> Destination | NetworkDenial | None:
        """Where a connection goes, or why it is denied; None where it is over already."""
        address: str | None = None
        if planned.purpose == "redirect":
            try:
                address, port = original_destination(connection)
            except OSError:
                return None
            granted_host = self._synthetic.name_for(address) or self._plan.host_for(address)
            host = canonical_host(granted_host or address)
        else:
            host, port, granted_host = canonical_host(planned.host), planned.port, planned.host
        if not (granted_host or self._plan.unrestricted) or not self._policy.allows(host, port):
            return NetworkDenial(host, address, port, NOT_GRANTED)
        if self._running >= self._limits.connections or not self._global_limit.available_tokens:
            return NetworkDenial(host, address, port, TOO_MANY_CONNECTIONS)
        return Destination(host, port)

    async def _relay_connection(self, connection: socket.socket, destination: Destination) -> None:
        relay = Relay(connection, destination, self._note_use)
        started_at = anyio.current_time()
        self._note_use()
        try:
            async with self._global_limit:
                await relay.run(self._policy, self._outside, self._pipes, self._limits, self._lookups)
        finally:
            self._running -= 1
            connection.close()
            self._record_connection(relay, seconds=anyio.current_time() - started_at)

    def _note_use(self) -> None:
        for watcher in self._watchers:
            watcher()

    async def _serve_dns(self, server: socket.socket) -> None:
        while True:
            await _wait_readable(server, self._lookup_rate)
            reply = None
            with contextlib.suppress(OSError):  # a lost response is queried for again
                query, client = server.recvfrom(MAX_QUERY_BYTES + 1)
                reply = answer_query(query, self._address_for)
                if reply is not None:
                    server.sendto(reply.data, client)
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
        for watcher in self._denial_watchers:
            watcher(denial)
        for recorded, times in self._denials.add(denial, anyio.current_time()):
            self._publish_denial(recorded, times)

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


async def _wait_readable(listener: socket.socket, pacer: RatePacer) -> None:
    """Wait until the socket is readable and the rate limit allows: a flood waits in the kernel, not in our loop."""
    await anyio.wait_readable(listener)
    pause = pacer.reserve(anyio.current_time())
    if pause:
        await anyio.sleep(pause)


PublishFor: TypeAlias = Callable[[Tenant], EventSink]


class CageNetwork:
    """The networks of all cages. Made by `open_cage_network`."""

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
        self._proxies: dict[str, CageEgressProxy] = {}

    async def attach(self, cage_id: str, spec: CageSpec, listeners: Sequence[socket.socket]) -> None:
        """Serve a cage's sockets, which are ours from now on, whatever happens.

        Raises:
            HostError: The sockets do not match the network in the spec.
        """
        try:
            proxy = CageEgressProxy(
                spec,
                listeners,
                publish=self._publish_for(Tenant(spec.tenant)),
                outside=self._outside,
                pipes=self._pipes,
                limits=self._limits,
                global_limit=self._global_limit,
            )
            if listeners:
                self.detach(cage_id)
                self._proxies[cage_id] = proxy
                await self._tasks.start(_run_contained, proxy)
        except BaseException:
            for listener in listeners:
                listener.close()
            raise

    def watch(self, cage_id: str, used: Callable[[], None]) -> None:
        """Call `used` whenever a cage's network is used: on each connection, and when data is relayed.

        Never called for a cage without network.
        """
        proxy = self._proxies.get(cage_id)
        if proxy is not None:
            proxy.watch(used)

    def watch_denials(self, cage_id: str, denied: Callable[[NetworkDenial], None]) -> None:
        """Call `denied` for each connection and each name that a cage is refused."""
        proxy = self._proxies.get(cage_id)
        if proxy is not None:
            proxy.watch_denials(denied)

    def detach(self, cage_id: str) -> None:
        """Finish a cage's network, as its plugin has ended. Does nothing when it has none."""
        proxy = self._proxies.pop(cage_id, None)
        if proxy is not None:
            proxy.finish()

    def abort(self) -> None:
        """End every cage's network at once: connections are reset, and recorded."""
        self._tasks.cancel_scope.cancel()


async def _run_contained(proxy: CageEgressProxy, *, task_status: TaskStatus[None]) -> None:
    try:
        await proxy.run(task_status=task_status)
    except Exception:
        # Connections that cannot be recorded are not relayed: that cage loses its network, and no other does. For any
        # other failure, this is the record.
        with suppress(Exception):
            proxy.record_failure()


@asynccontextmanager
async def open_cage_network(
    publish_for: PublishFor, *, outside: OutboundNetwork | None = None, limits: NetworkLimits | None = None
) -> AsyncGenerator[CageNetwork, None]:
    """Run the network of all cages for the duration of the block.

    `publish_for` gives the event sink of a tenant; `outside` is replaced in tests.
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
                # Raised below: it is the block's own error, and must not be wrapped in the task group's.
                failure = error
            finally:
                network.abort()
    finally:
        pipes.close()
    if failure is not None:
        raise failure


def _max_connections(limits: NetworkLimits) -> int:
    """The configured limit, or less: half of our descriptors, at two per connection, are left for other work."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(limits.connections_in_all, descriptors // 4) if descriptors > 0 else limits.connections_in_all
