"""The network of all cages, in the daemon: what plugins connect to inside is carried outside, as far as granted.

    async with open_network(publish_for) as network:
        await network.attach(cage_id, spec, listeners)   # from the warden, before the plugin's program starts
        ...
        network.detach(cage_id)                          # its process is gone

The cage itself has no way out: its network is empty but for these listeners. Nothing is carried that is not on record.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup, TaskStatus

from paddock.cage.network.attachment import Attachment
from paddock.cage.network.dialing import Outside, SystemOutside
from paddock.cage.network.relay import NetworkLimits
from paddock.cage.network.splice import Pipes
from paddock.cage.spec import CageSpec
from paddock.core.event import Publish
from paddock.core.ids import Tenant

PublishFor: TypeAlias = Callable[[Tenant], Publish]


class CageNetwork:
    """Every cage that may connect somewhere. Made by `open_network`."""

    def __init__(
        self, publish_for: PublishFor, *, tasks: TaskGroup, outside: Outside, pipes: Pipes, limits: NetworkLimits
    ) -> None:
        self._publish_for = publish_for
        self._tasks = tasks
        self._outside = outside
        self._pipes = pipes
        self._limits = limits
        self._in_all = anyio.CapacityLimiter(_most_connections(limits))
        self._attached: dict[str, Attachment] = {}

    async def attach(self, cage_id: str, spec: CageSpec, listeners: Sequence[socket.socket]) -> None:
        """Serve a cage's sockets, which are ours from now on, whatever happens.

        Raises:
            HostError: the sockets are not those that the spec's network needs.
        """
        try:
            attachment = Attachment(
                spec,
                listeners,
                publish=self._publish_for(Tenant(spec.tenant)),
                outside=self._outside,
                pipes=self._pipes,
                limits=self._limits,
                in_all=self._in_all,
            )
            if listeners:
                self.detach(cage_id)
                self._attached[cage_id] = attachment
                await self._tasks.start(_contained, attachment)
        except BaseException:
            for one in listeners:
                one.close()
            raise

    def watch(self, cage_id: str, used: Callable[[], None]) -> None:
        """Tell somebody whenever what runs in a cage uses its network: when it connects, and when anything is carried.
        It never is where the cage has none."""
        attachment = self._attached.get(cage_id)
        if attachment is not None:
            attachment.used = used

    def detach(self, cage_id: str) -> None:
        """End a cage's network, as its plugin has ended. Harmless when it has none."""
        attachment = self._attached.pop(cage_id, None)
        if attachment is not None:
            attachment.end()

    def abort(self) -> None:
        """End every cage's network at once: connections are reset, and recorded."""
        self._tasks.cancel_scope.cancel()


async def _contained(attachment: Attachment, *, task_status: TaskStatus[None]) -> None:
    try:
        await attachment.run(task_status=task_status)
    except Exception:
        # What cannot be recorded is not carried: that cage is without a network from then on, and no other is. Should
        # it have been something else, there is a record of it.
        with suppress(Exception):
            attachment.record_failure()


@asynccontextmanager
async def open_network(
    publish_for: PublishFor, *, outside: Outside | None = None, limits: NetworkLimits | None = None
) -> AsyncGenerator[CageNetwork, None]:
    """The network of all cages, for as long as the block runs.

    `publish_for` is where a tenant's events are recorded; `outside` is the world that a test plays.
    """
    pipes = Pipes()
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as tasks:
            network = CageNetwork(
                publish_for,
                tasks=tasks,
                outside=outside or SystemOutside(),
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


def _most_connections(limits: NetworkLimits) -> int:
    """As many as the limits say, or fewer: half of our descriptors, two a connection, are for others' work."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(limits.connections_in_all, descriptors // 4) if descriptors > 0 else limits.connections_in_all
