"""The egress policy of a plugin: which hosts, ports and addresses its connections may go to. Pure; standard library
only.

Two checks, in this order. *Which host was meant?* It must be a granted host and port, or it is refused at once
(`net.not_granted`). *May the address be dialled?* An address is allowed when it is public, or when a grant names it
itself. A granted **name** that resolves to a private address, alone or among public ones, is refused
(`net.private_address`): the owner of the name could otherwise point it at hosts in our own network. To reach such a
host, grant its address as well: `net:10.0.0.5:5432`. `net:localhost:PORT` names the two loopback addresses of this
host, and `net:*` is every public host and nothing private.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

NOT_GRANTED = "net.not_granted"
PRIVATE_ADDRESS = "net.private_address"
OWN_ADDRESS = "net.own_address"
TOO_MANY_CONNECTIONS = "net.too_many_connections"
NETWORK_FAILED = "net.failed"  # our own failure: the plugin has no network until it starts again

LOOPBACK_ADDRESSES = ("127.0.0.1", "::1")

# Not `ipaddress.is_global`, which differs between Python releases.
_SPECIAL_NETWORKS = tuple(
    ipaddress.ip_network(prefix)
    for prefix in (
        "0.0.0.0/8",  # this network; Linux takes 0.0.0.0 for loopback
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local, and a cloud's 169.254.169.254
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "2001::/23",  # Teredo and other protocols' own
        "2001:db8::/32",
        "2002::/16",  # 6to4: an embedded IPv4 address, and out of use
        "3fff::/20",
    )
)
# The only IPv6 prefix that is assigned to hosts: loopback, link-local, unique local, site-local and multicast are all
# outside.
_GLOBAL_UNICAST6 = ipaddress.ip_network("2000::/3")
# IPv6 addresses with an IPv4 address in their last four bytes: mapped, and NAT64.
_IPV4_IN_IPV6 = (ipaddress.ip_network("::ffff:0:0/96"), ipaddress.ip_network("64:ff9b::/96"))


@dataclass(frozen=True, slots=True)
class Destination:
    """The host and port of a connection. The host is a name in lower case, or an address without brackets."""

    host: str
    port: int


def is_public(address: str) -> bool:
    """Whether an address is a public internet address; an unreadable one is not."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if parsed.version == 6:
        for network in _IPV4_IN_IPV6:
            if parsed in network:
                return is_public(str(ipaddress.IPv4Address(parsed.packed[-4:])))
        if parsed not in _GLOBAL_UNICAST6:
            return False
    return not any(parsed in network for network in _SPECIAL_NETWORKS if network.version == parsed.version)


class EgressPolicy:
    """The egress grants of one plugin, ready for checks."""

    def __init__(self, network: Iterable[EgressGrant]) -> None:
        grants = tuple(network)
        self._unrestricted = any(grant.host == "*" for grant in grants)
        self._granted = {(canonical_host(grant.host), grant.port) for grant in grants}
        self._hosts = {host for host, _ in self._granted}
        self._granted |= {
            (address, port) for host, port in self._granted if host == "localhost" for address in LOOPBACK_ADDRESSES
        }

    def allows_name(self, host: str) -> bool:
        """Whether a name may be resolved at all: it is granted, on whatever port."""
        return self._unrestricted or host in self._hosts

    def allows(self, host: str, port: int) -> bool:
        """Whether a plugin may connect to this host and port. Says nothing yet about the address behind it."""
        return self._unrestricted or self._is_granted(host, port)

    def allows_address(self, address: str, port: int) -> bool:
        """Whether a connection may go to this address: it is public, or granted by itself."""
        return self.grants_address(address, port) or is_public(address)

    def grants_address(self, address: str, port: int) -> bool:
        """Whether a grant names this very address, so that it may be private or this host's own."""
        return self._is_granted(canonical_host(address), port)

    def _is_granted(self, host: str, port: int) -> bool:
        return (host, port) in self._granted or (host, None) in self._granted


def canonical_host(host: str) -> str:
    """A host in the form used for comparison: an address without brackets and in its short form, a name as it is."""
    return parse_ip_literal(host) or host


@dataclass(frozen=True, slots=True)
class EgressGrant:
    """One host the plugin may connect to; `*` is every host, None every port."""

    host: str
    port: int | None


def parse_ip_literal(host: str) -> str | None:
    """The IP address that a host is written as, without brackets; None for a name."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return None
