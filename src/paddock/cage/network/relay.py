"""One outbound connection of a plugin, from its accept inside the cage until it ends; rate and denial bookkeeping."""

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
    connections_a_second: float = 100.0  # of one cage, after a burst of as many as it may hold
    names_a_second: float = 200.0
    lookups: int = 4  # of one cage at a time
    connect_seconds: float = 10.0  # name lookup and connect together
    idle_seconds: float = 600.0
    linger_seconds: float = 2.0  # for what an ended plugin sent last to arrive


class Relay:
    """One outbound connection. Its attributes hold the result, however `run` ends."""

    def __init__(
        self, connection: socket.socket, destination: Destination, used: Callable[[], None] = lambda: None
    ) -> None:
        self.destination = destination
        self.address: str | None = None
        self.error: str | None = PLUGIN_ENDED  # until it ends in another way
        self.denied = False
        self._connection = connection
        self._used = used  # called whenever it relays data
        self._splice: SpliceRelay | None = None

    @property
    def bytes_up(self) -> int:
        """Bytes that the plugin sent."""
        return self._splice.bytes_up if self._splice else 0

    @property
    def bytes_down(self) -> int:
        """Bytes that the plugin received."""
        return self._splice.bytes_down if self._splice else 0

    async def run(
        self,
        policy: EgressPolicy,
        outside: OutboundNetwork,
        pipes: PipePool,
        limits: NetworkLimits,
        lookups: anyio.Semaphore,
    ) -> None:
        """Dial, relay, and close both sides. Raises only cancellation."""
        upstream: socket.socket | None = None
        try:
            upstream, self.address = await dial(
                self.destination, policy, outside, lookups=lookups, seconds=limits.connect_seconds
            )
            for endpoint in (self._connection, upstream):
                configure_socket(endpoint)
            self._splice = SpliceRelay(self._connection, upstream, pipes, self._used)
            await self._splice.run(idle_seconds=limits.idle_seconds)
            self.error = None
        except DialFailed as failure:
            self.error, self.address, self.denied = failure.code, failure.address, failure.denied
        except RelayIdle:
            self.error = IDLE_TIMEOUT
        except OSError:
            self.error = CONNECTION_RESET
        finally:
            for endpoint in (self._connection, upstream):
                if endpoint is not None:
                    close_socket(endpoint, broken=self.error is not None)


def configure_socket(connection: socket.socket) -> None:
    """Send small writes at once, as both ends expect, and notice a dead peer."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def close_socket(connection: socket.socket, *, broken: bool) -> None:
    """Close a socket; a broken one with a reset, so that the peer sees a failure and not an early end of data."""
    if broken:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    connection.close()


DENIAL_WINDOW_S = 60.0
MAX_DISTINCT_DENIALS = 100


@dataclass(frozen=True, slots=True)
class NetworkDenial:
    """A connection or name lookup that a plugin was denied."""

    host: str
    address: str | None
    port: int | None
    reason: str


class DenialAggregator:
    """Aggregates the denials of one plugin; yields what is to be recorded, with a count."""

    def __init__(self) -> None:
        self._since = 0.0
        self._uncounted: dict[NetworkDenial, int] = {}

    def add(self, denial: NetworkDenial, now: float) -> Iterator[tuple[NetworkDenial, int]]:
        """Add one denial; `now` is monotonic."""
        if now - self._since >= DENIAL_WINDOW_S:
            yield from self.flush()
            self._since = now
        if denial not in self._uncounted and len(self._uncounted) >= MAX_DISTINCT_DENIALS:
            # Beyond the limit the destination is dropped; only the reason is counted.
            denial = replace(denial, host="", address=None, port=None)
        if denial in self._uncounted:
            self._uncounted[denial] += 1
        else:
            self._uncounted[denial] = 0
            yield denial, 1

    def flush(self) -> Iterator[tuple[NetworkDenial, int]]:
        """Yield repeats that are not recorded yet, and forget everything."""
        counted, self._uncounted = self._uncounted, {}
        yield from ((denial, times) for denial, times in counted.items() if times)


class RatePacer:
    """A token bucket whose callers wait for their token."""

    def __init__(self, *, per_second: float, burst: int) -> None:
        self._rate = per_second
        self._capacity = float(burst)
        self._tokens = float(burst)
        self._updated_at: float | None = None

    def reserve(self, now: float) -> float:
        """Take a token. Returns the seconds to wait before acting on it: 0 where one was left."""
        if self._updated_at is not None:
            self._tokens = min(self._capacity, self._tokens + (now - self._updated_at) * self._rate)
        self._updated_at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)
