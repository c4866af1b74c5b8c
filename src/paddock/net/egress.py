"""Where a plugin's connections may go: the pure half of the fence around its network.

Two questions, asked in this order. *Whom did it mean?* — a granted host and port, or it is refused at once
(`net.not_granted`). *May the address be dialled?* — an address is fine when it is public, or when a grant names it
itself. A granted **name** that leads to a private address is refused (`net.private_address`): whoever owns the name
could otherwise point it at this machine's neighbours. The way to such a host is to grant its address as well,
`net:10.0.0.5:5432`. `net:localhost:PORT` names the two addresses of this machine's loopback, and `net:*` is every
public host and nothing private.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

NOT_GRANTED = "net.not_granted"
PRIVATE_ADDRESS = "net.private_address"
OWN_ADDRESS = "net.own_address"
TOO_MANY_CONNECTIONS = "net.too_many_connections"
NETWORK_FAILED = "net.failed"  # ours: the plugin is without a network until it starts again

LOOPBACK_ADDRESSES = ("127.0.0.1", "::1")

# Not left to `ipaddress.is_global`, which gives other answers in other releases of Python.
_SPECIAL_NETWORKS = tuple(
    ipaddress.ip_network(prefix)
    for prefix in (
        "0.0.0.0/8",  # this network; Linux takes 0.0.0.0 for loopback
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a provider's address translation
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local, and a cloud's 169.254.169.254
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",  # measurements; the cage's made-up addresses
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "2001::/23",  # Teredo and other protocols' own
        "2001:db8::/32",
        "2002::/16",  # 6to4: an IPv4 address in disguise, and out of use
        "3fff::/20",
    )
)
# Of IPv6 this alone is handed out to hosts: loopback, link-local, unique local, site-local, multicast are all outside.
_GLOBAL_UNICAST6 = ipaddress.ip_network("2000::/3")
# An IPv4 address in IPv6 clothes, in its last four bytes: mapped, and translated by a network that has no IPv4.
_IPV4_IN_IPV6 = (ipaddress.ip_network("::ffff:0:0/96"), ipaddress.ip_network("64:ff9b::/96"))


@dataclass(frozen=True, slots=True)
class Destination:
    """A host and port that a plugin meant. The host is a name in lower case, or an address without brackets."""

    host: str
    port: int


def is_public(address: str) -> bool:
    """Whether an address is one that anybody on the internet could have; what cannot be read is not."""
    try:
        at = ipaddress.ip_address(address)
    except ValueError:
        return False
    if at.version == 6:
        for network in _IPV4_IN_IPV6:
            if at in network:
                return is_public(str(ipaddress.IPv4Address(at.packed[-4:])))
        if at not in _GLOBAL_UNICAST6:
            return False
    return not any(at in network for network in _SPECIAL_NETWORKS if network.version == at.version)


class EgressPolicy:
    """What one plugin was granted, ready to be asked."""

    def __init__(self, network: Iterable[EgressGrant]) -> None:
        grants = tuple(network)
        self._everything = any(grant.host == "*" for grant in grants)
        self._granted = {(canonical_host(grant.host), grant.port) for grant in grants}
        self._hosts = {host for host, _ in self._granted}
        self._granted |= {
            (at, port) for host, port in self._granted if host == "localhost" for at in LOOPBACK_ADDRESSES
        }

    def allows_name(self, host: str) -> bool:
        """Whether a name may be asked for at all: it is granted, on whatever port."""
        return self._everything or host in self._hosts

    def allows(self, host: str, port: int) -> bool:
        """Whether a plugin may mean this host and port. Says nothing yet about where the host leads."""
        return self._everything or self._is_granted(host, port)

    def allows_address(self, address: str, port: int) -> bool:
        """Whether a connection may go to this address: it is public, or granted by itself."""
        return self.grants_address(address, port) or is_public(address)

    def grants_address(self, address: str, port: int) -> bool:
        """Whether a grant names this very address, so that it may be private or this machine's own."""
        return self._is_granted(canonical_host(address), port)

    def _is_granted(self, host: str, port: int) -> bool:
        return (host, port) in self._granted or (host, None) in self._granted


def canonical_host(host: str) -> str:
    """A host in the one way it is compared: an address without brackets and in its short form, a name as it is."""
    return parse_ip_literal(host) or host


@dataclass(frozen=True, slots=True)
class EgressGrant:
    """One host the plugin may connect to; `*` is every host, None every port."""

    host: str
    port: int | None


def parse_ip_literal(host: str) -> str | None:
    """The address that a host is written as, without brackets; None for a name."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return None
