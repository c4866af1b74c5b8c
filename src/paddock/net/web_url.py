"""Parses web URLs for plugins and decides which of them a plugin may fetch. Pure.

A URL is read strictly: whatever a browser, a resolver and this host could understand differently is refused, such
as an IPv4 address in octal or with parts left out, or one embedded in IPv6. Its destination is checked as for a
plugin's own connections (`net/egress.py`): hosts are those of its `net:` grants, private addresses only
where a grant names them. A plugin with `host:http` and no `net:` grant may fetch from every public host, on the web's
ports and on those from 1024.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from msgspec import Struct

from paddock.core.errors import CallerError, Denied
from paddock.core.printable import printable
from paddock.manifest.capability import Capability, NetworkAccess
from paddock.net.egress import EgressGrant, EgressPolicy
from paddock.net.http_client import HttpOrigin, split_url

MAX_URL_CHARS = 8_192

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# IPv6 prefixes with an embedded IPv4 address: compatible, mapped, translated, NAT64, 6to4, Teredo.
_IPV4_EMBEDDINGS = tuple(
    map(ipaddress.ip_network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48",
                               "2002::/16", "2001::/32"))
)  # fmt: skip
_NOT_A_URL = "is none with a host, or has characters that none can have"
_WEB_PORTS = (80, 443)
# below, other kinds of servers listen, and some would interpret a request's lines as their own protocol
_FIRST_UNPRIVILEGED_PORT = 1024


class WebTarget(Struct, frozen=True):
    """A parsed web URL: the origin, and the request target."""

    origin: HttpOrigin
    target: str

    @property
    def url(self) -> str:
        return f"{self.origin.scheme}://{self.origin.authority}{self.target}"


def parse_web_url(url: str) -> WebTarget:
    """Parse a web URL.

    Raises:
        CallerError: It is no web URL, or has credentials in it.
        Denied: Its host is an address in a spelling that others read differently.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _bad_url_error(_NOT_A_URL) from None
    if parts.scheme not in ("http", "https"):
        raise _bad_url_error("begins with neither http:// nor https://")
    if "@" in parts.netloc:
        raise _bad_url_error(
            "has a name or password in it", "send them in a header, for instance Authorization, from a secret"
        )
    if "\\" in url:
        raise _bad_url_error("has a backslash in it")
    try:
        origin, target = split_url(url.partition("#")[0])
    except ValueError:
        raise _bad_url_error(_NOT_A_URL) from None
    if len(url) > MAX_URL_CHARS:
        raise _bad_url_error(f"is longer than {MAX_URL_CHARS} characters")
    if parts.netloc.endswith(":") or parts.port == 0:
        raise _bad_url_error("has a port that is none")
    try:
        host = _checked_ipv6(origin.host) if "[" in parts.netloc else _checked_host(origin.host)
    except ipaddress.AddressValueError:
        raise _ambiguous_address_error(origin) from None
    return WebTarget(HttpOrigin(origin.scheme, host, origin.port), target)


def embeds_ipv4(address: str) -> bool:
    """Whether an address is an IPv6 address with an embedded IPv4 address."""
    parsed = ipaddress.ip_address(address)
    return parsed.version == 6 and int(parsed) > 1 and any(parsed in network for network in _IPV4_EMBEDDINGS)


class WebEgressPolicy(EgressPolicy):
    """The hosts that one plugin may reach through the host's HTTP capability.

    Args:
        granted: Its capabilities.
    """

    def __init__(self, granted: Iterable[Capability]) -> None:
        grants = [EgressGrant(one.host, one.port) for one in granted if isinstance(one, NetworkAccess)]
        super().__init__(grants or [EgressGrant("*", None)])
        self._web_only = not grants

    def allows(self, host: str, port: int) -> bool:
        if self._web_only and port not in _WEB_PORTS and port < _FIRST_UNPRIVILEGED_PORT:
            return False
        return super().allows(host, port)

    def allows_address(self, address: str, port: int) -> bool:
        return super().allows_address(address, port) and not embeds_ipv4(address)


def _checked_host(host: str) -> str:
    if not _NAME.fullmatch(host):
        raise _bad_url_error("has no host that a name server would know")
    # As browsers decide: a host whose last label is a number is meant as an address.
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        ipaddress.IPv4Address(host)
    return host


def _checked_ipv6(host: str) -> str:
    parsed = ipaddress.IPv6Address(host)
    if parsed.scope_id is not None or embeds_ipv4(str(parsed)):
        raise ipaddress.AddressValueError
    return str(parsed)


def _bad_url_error(reason: str, hint: str = "write it as https://host/path, in ASCII") -> CallerError:
    # Never show the URL itself: it may contain a secret.
    return CallerError(f"the url {reason}", code="http.bad_url", hint=hint)


def _ambiguous_address_error(origin: HttpOrigin) -> Denied:
    return Denied(
        "the url names an address in a way that others read differently",
        code="http.odd_address",
        hint="write an IPv4 address as four decimal numbers, and IPv6 without one inside; or use a name",
        details={"capability": f"net:{printable(origin.host, 60)}:{origin.port}"},
    )
