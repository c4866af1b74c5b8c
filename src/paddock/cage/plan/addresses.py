"""Which address inside the cage stands for which host that the plugin may reach. Pure: a function of the grants.

A cage has a network of its own with nothing in it but loopback. Every granted host gets one address there, `/etc/hosts`
names it, and the daemon listens on it and carries the bytes out:

    net:api.example.com:443   127.77.0.2 port 443, and `127.77.0.2 api.example.com` in /etc/hosts
    net:api.example.com:*     the same address; every port of it is redirected to one listener
    net:10.0.0.5:5432         10.0.0.5 itself, made a local address of the cage's network
    net:127.0.0.1:8080        the cage's own 127.0.0.1 port 8080 leads to the host's
    net:localhost:8080        the same, by name: `localhost` is always 127.0.0.1 in a cage
    net:*                     names are answered with made-up addresses; whatever is not loopback is redirected

Nothing here decides whether a connection may leave; it only makes sure that one can be heard.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from paddock.cage.spec import Reach

LOOPBACK = "127.0.0.1"
DNS_ADDRESS = "127.77.0.1"
DNS_PORT = 53
FAKE_PREFIX = "198.18.0.0/15"  # reserved for measurements, so no real host is hidden behind a made-up address
_FIRST_NAMED = 2  # 127.77.0.2: the first address after the name server's


@dataclass(frozen=True, slots=True)
class Listen:
    """One TCP listener inside the cage; whatever connects there means `host` on the same port."""

    address: str
    port: int
    host: str  # as the grant wrote it: an IPv6 address keeps its brackets


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """What has to stand in a cage's network before its program starts."""

    listen: tuple[Listen, ...] = ()
    # host -> address, for /etc/hosts and to know who was meant
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    routes: tuple[str, ...] = ()  # prefixes that are local in the cage though they are not loopback
    # Prefixes whose TCP goes to LOOPBACK:redirect_port, whatever port was meant; `!` in front is everything but.
    redirect: tuple[str, ...] = ()
    redirect_port: int | None = None
    dns: bool = False  # a name server at DNS_ADDRESS: refuses and records, or makes addresses up for `net:*`
    everything: bool = False  # `net:*`

    @property
    def empty(self) -> bool:
        """Whether the cage has no network to speak of, and nobody has to enter it."""
        return not (self.listen or self.redirect or self.dns)

    def host_of(self, address: str) -> str | None:
        """The granted host that an address of the cage stands for; None where it stands for none."""
        for host, at in self.names.items():
            if at == address:
                return host
        return None


def plan_network(network: Iterable[Reach]) -> NetworkPlan:
    """Addresses, names, routes and redirects for what was granted. The same grants give the same plan."""
    grants = tuple(dict.fromkeys(network))
    if not grants:
        return NetworkPlan()
    everything = any(grant.host == "*" for grant in grants)
    names = _addresses(grants, everything)
    listen: dict[tuple[str, int], Listen] = {}
    redirect: list[str] = ["!127.0.0.0/8"] if everything else []
    for grant in grants:
        address = names.get(grant.host)
        if address is None:
            continue
        if grant.port is None:
            redirect.append(_one(address))
        else:
            # localhost and 127.0.0.1 are one place: the first grant names it.
            listen.setdefault((address, grant.port), Listen(address, grant.port, grant.host))
    taken = {port for address, port in listen if address == LOOPBACK}
    return NetworkPlan(
        listen=tuple(listen.values()),
        names=names,
        routes=_routes(names, everything),
        redirect=tuple(dict.fromkeys(redirect)),
        # Below 1024, where the plugin itself can never listen.
        redirect_port=next(port for port in range(1, 1024) if port not in taken) if redirect else None,
        dns=True,
        everything=everything,
    )


def literal(host: str) -> str | None:
    """The address that a host is written as, without brackets; None for a name."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return None


def _addresses(grants: Iterable[Reach], everything: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    following = _FIRST_NAMED
    for host in dict.fromkeys(grant.host for grant in grants):
        address = LOOPBACK if host == "localhost" else literal(host)
        if address is not None:
            at = ipaddress.ip_address(address)
            # Nobody can be connected to there, and listening on 0.0.0.0 would be listening for every other host.
            if at.is_unspecified or at.is_multicast:
                continue
            # With `net:*` everything outside loopback is redirected already.
            if at.is_loopback or not everything:
                found[host] = address
        elif not everything:
            found[host] = f"127.77.{following >> 8}.{following & 255}"
            following += 1
    return found


def _routes(names: Mapping[str, str], everything: bool) -> tuple[str, ...]:
    outside = [_one(address) for address in names.values() if not ipaddress.ip_address(address).is_loopback]
    return tuple(dict.fromkeys(["0.0.0.0/0", *outside] if everything else outside))


def _one(address: str) -> str:
    """The prefix that is just this address."""
    return f"{address}/{128 if ':' in address else 32}"
