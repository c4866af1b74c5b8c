"""Outbound connections for a plugin: resolve the host, check every address, connect to one that was checked.

The dialled address is the one that was checked; the name is not resolved a second time, so it cannot lead
elsewhere in between (no DNS rebinding).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Protocol

import anyio
import anyio.to_thread

from paddock.net.egress import (
    LOOPBACK_ADDRESSES,
    OWN_ADDRESS,
    PRIVATE_ADDRESS,
    Destination,
    EgressPolicy,
    parse_ip_literal,
)

UNRESOLVED = "net.unresolved"
REFUSED = "net.refused"
UNREACHABLE = "net.unreachable"
TIMED_OUT = "net.timeout"

_MAX_ADDRESSES = 8
_MAX_CONCURRENT_LOOKUPS = 32


class OutboundNetwork(Protocol):
    """Name resolution and TCP connections to the outside, as far as a plugin needs them."""

    async def resolve(self, host: str) -> Sequence[str]:
        """The addresses of a name, best first. Raises OSError where there are none."""
        ...

    def is_local_address(self, address: str) -> bool:
        """Whether an address is one of this host's."""
        ...

    async def connect(self, address: str, port: int) -> socket.socket:
        """A non-blocking connection to an address. Raises OSError where it cannot be made."""
        ...


class SystemNetwork:
    """The real network: the system's resolver and its routes."""

    def __init__(self) -> None:
        # Separate from the daemon's other threads: a slow DNS server holds these for many seconds.
        self._lookups = anyio.CapacityLimiter(_MAX_CONCURRENT_LOOKUPS)

    async def resolve(self, host: str) -> Sequence[str]:
        entries = await anyio.to_thread.run_sync(
            lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM),
            limiter=self._lookups,
            abandon_on_cancel=True,
        )
        return list(dict.fromkeys(str(entry[4][0]) for entry in entries))

    def is_local_address(self, address: str) -> bool:
        # The kernel picks the same source address for a packet to one of our own addresses; `connect` sends none.
        with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((address, 9))
            except OSError:
                return False
            return bool(probe.getsockname()[0] == address)

    async def connect(self, address: str, port: int) -> socket.socket:
        connection = socket.socket(_family(address), socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connection, (address, port))
        except BaseException:
            connection.close()
            raise
        return connection


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class DialFailed(Exception):
    """No connection was made: the code says why, and the address where it failed, if there was one."""

    def __init__(self, code: str, address: str | None, *, denied: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.address = address
        self.denied = denied  # by our own policy, not by the network


async def dial(
    destination: Destination,
    policy: EgressPolicy,
    outside: OutboundNetwork,
    *,
    lookups: anyio.Semaphore,
    seconds: float,
) -> tuple[socket.socket, str]:
    """Connect to a destination. Returns the connection and the address it goes to.

    `lookups` limits how many names one plugin may resolve at a time, so that slow ones do not take all threads.

    Raises:
        DialFailed: No address may be dialled, or none answered in time.
    """
    last_address: str | None = None
    failure = TIMED_OUT
    with anyio.move_on_after(seconds) as scope:
        addresses = await _allowed_addresses(destination, policy, outside, lookups)
        for remaining, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            last_address = address
            # Each remaining address gets its share of the time, so that one that never answers does not hide the next.
            share = (scope.deadline - anyio.current_time()) / remaining
            failure = TIMED_OUT
            with anyio.move_on_after(share):
                try:
                    return await outside.connect(address, destination.port), address
                except ConnectionRefusedError:
                    failure = REFUSED
                except OSError:
                    failure = UNREACHABLE
    raise DialFailed(failure, last_address)


async def _allowed_addresses(
    destination: Destination, policy: EgressPolicy, outside: OutboundNetwork, lookups: anyio.Semaphore
) -> Sequence[str]:
    addresses = await _resolve_addresses(destination.host, outside, lookups)
    private = next((one for one in addresses if not policy.allows_address(one, destination.port)), None)
    # One is enough: a public name does not lead into a private network, except to attack it or by a mistake. Where a
    # grant names an address of the name, the others are left out.
    if private is not None and not any(policy.grants_address(one, destination.port) for one in addresses):
        raise DialFailed(PRIVATE_ADDRESS, private, denied=True)
    # A public address of this host leads to its own services, past the firewall that guards them from outside.
    allowed = [
        address
        for address in addresses[:_MAX_ADDRESSES]
        if policy.grants_address(address, destination.port)
        or (policy.allows_address(address, destination.port) and not outside.is_local_address(address))
    ]
    if not allowed:
        raise DialFailed(OWN_ADDRESS, addresses[0], denied=True)
    return allowed


async def _resolve_addresses(host: str, outside: OutboundNetwork, lookups: anyio.Semaphore) -> Sequence[str]:
    if host == "localhost":
        return LOOPBACK_ADDRESSES
    address = parse_ip_literal(host)
    if address is not None:
        return (address,)
    try:
        async with lookups:
            addresses = await outside.resolve(host)
    except (OSError, UnicodeError):
        raise DialFailed(UNRESOLVED, None) from None
    if not addresses:
        raise DialFailed(UNRESOLVED, None)
    return addresses
