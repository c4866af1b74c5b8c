"""Allowed Host names and origins, and the CSRF check. Pure.

A foreign name that resolves to this machine must not reach us (DNS rebinding), and a foreign page must not act with
the credentials that a browser sends by itself (CSRF).
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from paddock.config.web_settings import HttpSettings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
TRUSTED_FETCH_SITES = frozenset({"same-origin", "none"})  # our own page, or an address that a person typed


class AllowedHosts(Struct, frozen=True):
    """Our host names, and foreign origins whose pages may call us with a key.

    Attributes:
        host_names: Host names without port, in lower case.
        origins: Allowed foreign origins.
        public_origin: Our own origin as seen from outside, if it differs from what `Host` says.
    """

    host_names: frozenset[str]
    origins: frozenset[str] = frozenset()
    public_origin: str | None = None

    def allows_host(self, host: str) -> bool:
        """Return whether the value of a `Host` header is one of our names."""
        return strip_port(host) in self.host_names

    def is_same_origin(self, origin: str, host: str) -> bool:
        """Return whether an origin is our own under this host name, with or without TLS in front of us."""
        return origin in (f"http://{host.lower()}", f"https://{host.lower()}", self.public_origin)

    def allows_origin(self, origin: str, host: str) -> bool:
        """Return whether pages of an origin may send requests at all."""
        return origin in self.origins or self.is_same_origin(origin, host)


NO_HOSTS = AllowedHosts(frozenset())


def allowed_hosts_from(http: HttpSettings) -> AllowedHosts:
    """Build the allowed hosts from the settings."""
    listen_host = http.address.rpartition(":")[0].lower()
    names = {listen_host, *http.hosts}
    if listen_host in _LOOPBACK_HOSTS or is_wildcard_address(listen_host):
        names |= _LOOPBACK_HOSTS
    public_origin = None if http.public_url is None else http.public_url.lower()
    if public_origin is not None:
        names.add(strip_port(urlsplit(public_origin).netloc))
    return AllowedHosts(frozenset(names), frozenset(http.origins), public_origin)


def is_wildcard_address(host: str) -> bool:
    """Return whether this listens on every address of the machine."""
    return host in ("0.0.0.0", "[::]")  # noqa: S104


def strip_port(host: str) -> str:
    """Return a host without its port, in lower case."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).lower()


def passes_csrf_check(method: str, headers: Mapping[str, str], allowed_hosts: AllowedHosts) -> bool:
    """Return whether a request with a cookie was made by our own page or by a person's navigation.

    Unsafe methods must come from our own page, as shown by `Sec-Fetch-Site`, or by `Origin` in browsers without it.
    Pages on other ports of this machine are same-site but not same-origin, and rejected.
    """
    fetch_site = headers.get("sec-fetch-site")
    if method not in SAFE_METHODS:
        origin = headers.get("origin")
        if fetch_site is not None and fetch_site not in TRUSTED_FETCH_SITES:
            return False
        return (
            allowed_hosts.is_same_origin(origin, headers.get("host", ""))
            if origin is not None
            else fetch_site == "same-origin"
        )
    if fetch_site is None or fetch_site in TRUSTED_FETCH_SITES:
        return True
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
