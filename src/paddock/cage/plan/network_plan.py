"""Assigns an address inside the cage to each host that the plugin may reach; the files of /etc follow. Pure.

A cage has a network namespace of its own with nothing in it but loopback. Every granted host gets one address there,
`/etc/hosts` names it, and the daemon listens on it and relays the bytes:

    net:api.example.com:443   30.77.0.2 port 443, and `30.77.0.2 api.example.com` in /etc/hosts
    net:api.example.com:*     the same address; every port of it is redirected to one listener
    net:10.0.0.5:5432         10.0.0.5 itself, made a local address of the cage's network
    net:127.0.0.1:8080        the cage's own 127.0.0.1 port 8080 leads to the host's
    net:localhost:8080        the same, by name: `localhost` is always 127.0.0.1 in a cage
    net:*                     names are answered with synthetic addresses; whatever is not loopback is redirected

The addresses that stand for names look public: a server that fetches pages refuses a name whose address looks private.
Nothing here decides whether a connection may leave; it only makes sure that it reaches the proxy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from paddock.cage.spec import NOBODY, CageSpec
from paddock.net.egress import EgressGrant, parse_ip_literal

LOOPBACK = "127.0.0.1"
DNS_ADDRESS = "127.77.0.1"
DNS_PORT = 53
# Of a block whose owner, a ministry of defence, serves nothing to the public there: no host that a plugin may want is
# hidden behind an address that stands for a name.
_NAMED_PREFIX = ipaddress.IPv4Network("30.77.0.0/16")
SYNTHETIC_PREFIX = "30.78.0.0/15"
_FIRST_NAMED_HOST = 2


@dataclass(frozen=True, slots=True)
class PlannedListener:
    """One TCP listener inside the cage; a connection there means `host` on the same port."""

    address: str
    port: int
    host: str  # as the grant wrote it: an IPv6 address keeps its brackets


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """What has to exist in a cage's network before its program starts."""

    listeners: tuple[PlannedListener, ...] = ()
    # host -> address, for /etc/hosts and for the reverse lookup
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    routes: tuple[str, ...] = ()  # prefixes that are local in the cage though they are not loopback
    # Prefixes whose TCP goes to LOOPBACK:redirect_port, whatever the port; `!` negates a prefix.
    redirect: tuple[str, ...] = ()
    redirect_port: int | None = None
    dns: bool = False  # a DNS server at DNS_ADDRESS: refuses and records, or gives synthetic addresses for `net:*`
    unrestricted: bool = False  # `net:*`

    @property
    def is_empty(self) -> bool:
        """Whether the cage has no network, so that no sockets are needed."""
        return not (self.listeners or self.redirect or self.dns)

    def host_for(self, address: str) -> str | None:
        """The granted host that an address of the cage stands for; None where it stands for none."""
        for host, assigned in self.names.items():
            if assigned == address:
                return host
        return None


def plan_cage_network(spec: CageSpec) -> NetworkPlan:
    """Plan the network of a cage. In a learning cage every name and address leads to the proxy, whatever is granted."""
    learns = spec.learning is not None and spec.learning.network
    return plan_network((*spec.network, EgressGrant("*", None)) if learns else spec.network)


def plan_network(network: Iterable[EgressGrant]) -> NetworkPlan:
    """Plan addresses, names, routes and redirects for the grants. The same grants give the same plan."""
    grants = tuple(dict.fromkeys(network))
    if not grants:
        return NetworkPlan()
    unrestricted = any(grant.host == "*" for grant in grants)
    names = _assign_addresses(grants, unrestricted)
    listeners: dict[tuple[str, int], PlannedListener] = {}
    redirect: list[str] = ["!127.0.0.0/8"] if unrestricted else []
    for grant in grants:
        address = names.get(grant.host)
        if address is None:
            continue
        if grant.port is None:
            redirect.append(_single_address_prefix(address))
        else:
            # localhost and 127.0.0.1 are one address: the first grant names it.
            listeners.setdefault((address, grant.port), PlannedListener(address, grant.port, grant.host))
    taken = {port for address, port in listeners if address == LOOPBACK}
    return NetworkPlan(
        listeners=tuple(listeners.values()),
        names=names,
        routes=_routes(names, unrestricted),
        redirect=tuple(dict.fromkeys(redirect)),
        # Below 1024, where the plugin itself can never listen.
        redirect_port=next(port for port in range(1, 1024) if port not in taken) if redirect else None,
        dns=True,
        unrestricted=unrestricted,
    )


def _assign_addresses(grants: Iterable[EgressGrant], unrestricted: bool) -> dict[str, str]:
    assigned: dict[str, str] = {}
    hosts = dict.fromkeys(grant.host for grant in grants)
    free = (str(_NAMED_PREFIX[number]) for number in range(_FIRST_NAMED_HOST, _NAMED_PREFIX.num_addresses))
    unclaimed = (address for address in free if address not in hosts)
    for host in hosts:
        address = LOOPBACK if host == "localhost" else parse_ip_literal(host)
        if address is not None:
            parsed = ipaddress.ip_address(address)
            # No host can be connected to there, and listening on 0.0.0.0 would be listening for every other host.
            if parsed.is_unspecified or parsed.is_multicast:
                continue
            # With `net:*` everything outside loopback is redirected already.
            if parsed.is_loopback or not unrestricted:
                assigned[host] = address
        elif not unrestricted:
            assigned[host] = next(unclaimed)
    return assigned


def _routes(names: Mapping[str, str], unrestricted: bool) -> tuple[str, ...]:
    outside = [
        _single_address_prefix(address) for address in names.values() if not ipaddress.ip_address(address).is_loopback
    ]
    return tuple(dict.fromkeys(["0.0.0.0/0", *outside] if unrestricted else outside))


def _single_address_prefix(address: str) -> str:
    """The prefix that is just this address."""
    return f"{address}/{128 if ':' in address else 32}"


HOST_NAME = "cage"


def etc_files_for(spec: CageSpec) -> Mapping[str, str]:
    """A cage's own /etc files by path, without those for which the plugin was explicitly granted the host's."""
    bound = {bind.target for bind in spec.binds}
    return {path: text for path, text in etc_file_contents(plan_cage_network(spec)).items() if path not in bound}


def etc_file_contents(plan: NetworkPlan) -> Mapping[str, str]:
    """Path and text of each file."""
    return {
        "/etc/group": f"nogroup:x:{NOBODY}:\n",
        "/etc/hosts": _hosts(plan),
        "/etc/nsswitch.conf": f"passwd: files\ngroup: files\nhosts: files{' dns' if plan.dns else ''}\n",
        "/etc/passwd": f"nobody:x:{NOBODY}:{NOBODY}:a caged plugin:/:/usr/sbin/nologin\n",
        # One attempt with a short timeout: the DNS server is in the daemon and answers at once or never.
        "/etc/resolv.conf": f"nameserver {DNS_ADDRESS}\noptions timeout:5 attempts:1\n" if plan.dns else "",
    }


def _hosts(plan: NetworkPlan) -> str:
    # localhost is IPv4 only: a grant of localhost listens there, and a client would try ::1 first and fail.
    lines = [f"{LOOPBACK} localhost {HOST_NAME}"]
    lines += [
        f"{address} {host}"
        for host, address in plan.names.items()
        if host != "localhost" and not parse_ip_literal(host)
    ]
    return "\n".join(lines) + "\n"
