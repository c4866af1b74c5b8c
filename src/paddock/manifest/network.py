"""Hosts and ports in the capability grammar: `net:HOST:PORT`, and other texts that name a host."""

from __future__ import annotations

import ipaddress
import re

from msgspec import Struct

_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")


class InvalidCapability(ValueError):
    """A text is not a capability. Carries the reason, and a hint with a valid one."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NetworkAccess(Struct, frozen=True):
    host: str  # "*" means every host
    port: int | None  # None means every port

    def __str__(self) -> str:
        return "net:*" if self.host == "*" else f"net:{self.host}:{'*' if self.port is None else self.port}"

    def includes(self, other: NetworkAccess) -> bool:
        """Whether this access covers the other one."""
        return self.host == "*" or (self.host == other.host and self.port in (None, other.port))


class NoNetwork(Struct, frozen=True):
    def __str__(self) -> str:
        return "net:[]"


def parse_network(text: str, rest: str) -> NetworkAccess | NoNetwork:
    """Parse what follows `net:`.

    Args:
        text: The whole capability, for messages.
        rest: The part that names the host.

    Raises:
        InvalidCapability: it names no host.
    """
    if rest == "[]":
        return NoNetwork()
    if rest == "*":
        return NetworkAccess("*", None)
    host, colon, port = rest.rpartition(":")
    host = host.lower()
    if not colon or not (_HOST.fullmatch(host) or _is_ipv6(host)):
        raise InvalidCapability(
            f"{text!r} does not name a host and a port", "write 'net:api.example.com:443', or ':*' for all ports"
        )
    if port == "*":
        return NetworkAccess(host, None)
    if not port.isascii() or not port.isdigit() or len(port) > 5 or not 1 <= int(port) <= 65535:
        raise InvalidCapability(f"{port!r} is not a port", "write a number from 1 to 65535, or '*'")
    return NetworkAccess(host, int(port))


def _is_ipv6(host: str) -> bool:
    if not (host.startswith("[") and host.endswith("]")):
        return False
    try:
        ipaddress.IPv6Address(host[1:-1])
    except ValueError:
        return False
    return "%" not in host
