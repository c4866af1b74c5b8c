"""One connection of a plugin, from the moment it is accepted inside the cage until it ends."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import anyio

from paddock.cage.network.splice import PipePool, RelayIdle, SpliceRelay
from paddock.net.dial import DialFailed, OutboundNetwork, dial
from paddock.net.egress import Destination, EgressPolicy

CONNECTION_RESET = "net.reset"
IDLE_TIMEOUT = "net.idle"
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
        self._carriage: SpliceRelay | None = None

    @property
    def bytes_up(self) -> int:
        """Bytes that the plugin sent."""
        return self._carriage.bytes_up if self._carriage else 0

    @property
    def bytes_down(self) -> int:
        """Bytes that the plugin received."""
        return self._carriage.bytes_down if self._carriage else 0

    async def run(
        self,
        granted: EgressPolicy,
        outside: OutboundNetwork,
        pipes: PipePool,
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
                configure_socket(one)
            self._carriage = SpliceRelay(self._connection, far, pipes, self._used)
            await self._carriage.run(idle_seconds=limits.idle_seconds)
            self.error = None
        except DialFailed as refusal:
            self.error, self.address, self.denied = refusal.code, refusal.address, refusal.denied
        except RelayIdle:
            self.error = IDLE_TIMEOUT
        except OSError:
            self.error = CONNECTION_RESET
        finally:
            for one in (self._connection, far):
                if one is not None:
                    close_socket(one, broken=self.error is not None)


def configure_socket(one: socket.socket) -> None:
    """Send small pieces at once, as both ends expect, and notice a far end that is gone."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def close_socket(one: socket.socket, *, broken: bool) -> None:
    """Close a socket; a broken one with a reset, so that the other end sees a failure and not an early end of data."""
    if broken:
        with contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    one.close()


DENIAL_WINDOW_S = 60.0
MAX_DISTINCT_DENIALS = 100


@dataclass(frozen=True, slots=True)
class NetworkDenial:
    """One thing that a plugin was kept from."""

    host: str
    address: str | None
    port: int | None
    reason: str


class DenialAggregator:
    """Refusals of one plugin, as they come; gives back what is to be recorded, with how many times."""

    def __init__(self) -> None:
        self._since = 0.0
        self._uncounted: dict[NetworkDenial, int] = {}

    def add(self, denial: NetworkDenial, now: float) -> Iterator[tuple[NetworkDenial, int]]:
        """Take one refusal, at a time that only ever grows."""
        if now - self._since >= DENIAL_WINDOW_S:
            yield from self.flush()
            self._since = now
        if denial not in self._uncounted and len(self._uncounted) >= MAX_DISTINCT_DENIALS:
            # What was tried is not told any more, only that it was.
            denial = replace(denial, host="", address=None, port=None)
        if denial in self._uncounted:
            self._uncounted[denial] += 1
        else:
            self._uncounted[denial] = 0
            yield denial, 1

    def flush(self) -> Iterator[tuple[NetworkDenial, int]]:
        """Repeats that are not recorded yet; forgets everything."""
        counted, self._uncounted = self._uncounted, {}
        yield from ((denial, times) for denial, times in counted.items() if times)


class RatePacer:
    """A bucket of turns that fills at a steady rate."""

    def __init__(self, *, a_second: float, at_once: int) -> None:
        self._rate = a_second
        self._capacity = float(at_once)
        self._tokens = float(at_once)
        self._at: float | None = None

    def reserve(self, now: float) -> float:
        """Take a turn. The seconds to wait before acting on it: 0 where there was one left."""
        if self._at is not None:
            self._tokens = min(self._capacity, self._tokens + (now - self._at) * self._rate)
        self._at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)
