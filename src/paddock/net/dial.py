"""Reaching the outside for a plugin: look the host up, check every address, connect to one that was checked.

The address that is dialled is the one that was judged; nobody looks the name up a second time, so it cannot lead
elsewhere in between.
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
    """The world beyond this machine, as far as a plugin's connections need it."""

    async def resolve(self, host: str) -> Sequence[str]:
        """The addresses of a name, best first. Raises OSError where there are none."""
        ...

    def is_local_address(self, address: str) -> bool:
        """Whether an address is one of this machine's."""
        ...

    async def connect(self, address: str, port: int) -> socket.socket:
        """A connection to an address, not blocking. Raises OSError where it cannot be made."""
        ...


class SystemNetwork:
    """The real one: the system's resolver and its routes."""

    def __init__(self) -> None:
        # Apart from the threads that the rest of the daemon uses: a slow name server holds these for many seconds.
        self._lookups = anyio.CapacityLimiter(_MAX_CONCURRENT_LOOKUPS)

    async def resolve(self, host: str) -> Sequence[str]:
        found = await anyio.to_thread.run_sync(
            lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM),
            limiter=self._lookups,
            abandon_on_cancel=True,
        )
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    def is_local_address(self, address: str) -> bool:
        # The kernel answers a packet to one of our own addresses from that same address; none is sent by asking.
        with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((address, 9))
            except OSError:
                return False
            return bool(probe.getsockname()[0] == address)

    async def connect(self, address: str, port: int) -> socket.socket:
        made = socket.socket(_family(address), socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            await asyncio.get_running_loop().sock_connect(made, (address, port))
        except BaseException:
            made.close()
            raise
        return made


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class DialFailed(Exception):
    """No connection was made: the code says why, and the address where it went wrong, if there was one."""

    def __init__(self, code: str, address: str | None, *, denied: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.address = address
        self.denied = denied  # our own rules kept it from being made, not the world


async def dial(
    destination: Destination,
    granted: EgressPolicy,
    outside: OutboundNetwork,
    *,
    lookups: anyio.Semaphore,
    seconds: float,
) -> tuple[socket.socket, str]:
    """A connection to where the plugin meant to go, and the address that it goes to.

    `lookups` is how many names one plugin may look up at a time, so that slow ones do not take all there are.

    Raises:
        NotDialled: no address may be dialled, or none answered in time.
    """
    trying: str | None = None
    failure = TIMED_OUT
    with anyio.move_on_after(seconds) as patience:
        addresses = await _allowed_addresses(destination, granted, outside, lookups)
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            trying = address
            # Each address that is left gets its share, so that one that never answers does not hide the next.
            share = (patience.deadline - anyio.current_time()) / left
            failure = TIMED_OUT
            with anyio.move_on_after(share):
                try:
                    return await outside.connect(address, destination.port), address
                except ConnectionRefusedError:
                    failure = REFUSED
                except OSError:
                    failure = UNREACHABLE
    raise DialFailed(failure, trying)


async def _allowed_addresses(
    destination: Destination, granted: EgressPolicy, outside: OutboundNetwork, lookups: anyio.Semaphore
) -> Sequence[str]:
    found = await _resolve_addresses(destination.host, outside, lookups)
    allowed: list[str] = []
    reason = PRIVATE_ADDRESS
    for address in found[:_MAX_ADDRESSES]:
        if not granted.allows_address(address, destination.port):
            continue
        # A public address of this machine leads to what listens on it, past whatever guards it from outside.
        if outside.is_local_address(address) and not granted.grants_address(address, destination.port):
            reason = OWN_ADDRESS
            continue
        allowed.append(address)
    if not allowed:
        raise DialFailed(reason, found[0], denied=True)
    return allowed


async def _resolve_addresses(host: str, outside: OutboundNetwork, lookups: anyio.Semaphore) -> Sequence[str]:
    if host == "localhost":
        return LOOPBACK_ADDRESSES
    address = parse_ip_literal(host)
    if address is not None:
        return (address,)
    try:
        async with lookups:
            found = await outside.resolve(host)
    except (OSError, UnicodeError):
        raise DialFailed(UNRESOLVED, None) from None
    if not found:
        raise DialFailed(UNRESOLVED, None)
    return found
