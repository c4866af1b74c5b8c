"""One connection of a plugin, from the moment it is accepted inside the cage until it ends."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from paddock.cage.network.destinations import Destination, Destinations
from paddock.cage.network.dialing import NotDialled, Outside, dial
from paddock.cage.network.splice import Carriage, Idle, Pipes

BROKEN_OFF = "net.reset"
IDLE = "net.idle"
PLUGIN_ENDED = "net.plugin_ended"

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """How much of the daemon one plugin's network may use, and how long a connection may take."""

    connections: int = 64  # of one cage at a time
    connections_in_all: int = 512  # and of all cages
    connections_a_second: float = 100.0  # of one cage, after as many at once as it may hold
    names_a_second: float = 200.0
    lookups: int = 4  # of one cage at a time
    connect_seconds: float = 10.0  # looking up and connecting together
    idle_seconds: float = 600.0
    linger_seconds: float = 2.0  # for what an ended plugin sent last to arrive


class Relay:
    """A connection on its way out. What became of it stands in its attributes, whichever way `run` ends."""

    def __init__(
        self, connection: socket.socket, destination: Destination, used: Callable[[], None] = lambda: None
    ) -> None:
        self.destination = destination
        self.address: str | None = None
        self.error: str | None = PLUGIN_ENDED  # until it ends in another way
        self.denied = False
        self._connection = connection
        self._used = used  # told whenever it carries something
        self._carriage: Carriage | None = None

    @property
    def up(self) -> int:
        """Bytes that the plugin sent."""
        return self._carriage.up if self._carriage else 0

    @property
    def down(self) -> int:
        """Bytes that the plugin received."""
        return self._carriage.down if self._carriage else 0

    async def run(
        self,
        granted: Destinations,
        outside: Outside,
        pipes: Pipes,
        limits: NetworkLimits,
        lookups: anyio.Semaphore,
    ) -> None:
        """Dial, carry, and close both sides. Only cancellation comes out of it."""
        far: socket.socket | None = None
        try:
            far, self.address = await dial(
                self.destination, granted, outside, lookups=lookups, seconds=limits.connect_seconds
            )
            for one in (self._connection, far):
                prepare(one)
            self._carriage = Carriage(self._connection, far, pipes, self._used)
            await self._carriage.run(idle_seconds=limits.idle_seconds)
            self.error = None
        except NotDialled as refusal:
            self.error, self.address, self.denied = refusal.code, refusal.address, refusal.denied
        except Idle:
            self.error = IDLE
        except OSError:
            self.error = BROKEN_OFF
        finally:
            for one in (self._connection, far):
                if one is not None:
                    close(one, broken=self.error is not None)


def prepare(one: socket.socket) -> None:
    """Send small pieces at once, as both ends expect, and notice a far end that is gone."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def close(one: socket.socket, *, broken: bool) -> None:
    """Close a socket; a broken one with a reset, so that the other end sees a failure and not an early end of data."""
    if broken:
        with contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    one.close()
