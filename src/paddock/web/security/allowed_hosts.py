"""Which names lead here, and which pages may ask. Pure: values in, an answer out.

A name of somebody else that resolves to this machine must not reach us (DNS rebinding), and a page of somebody else
must not act with what a browser sends along by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from paddock.config.web_settings import HttpSettings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
TRUSTED_FETCH_SITES = frozenset({"same-origin", "none"})  # a page of ours, or a person who typed the address


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The names that we go by, and origins whose pages may ask with a key.

    Attributes:
        names: Hosts without their port, in small letters.
        origins: Of other pages.
        public: Our own origin as people see it from outside, where they see another than `Host` says.
    """

    host_names: frozenset[str]
    origins: frozenset[str] = frozenset()
    public_origin: str | None = None

    def allows_host(self, host: str) -> bool:
        """Whether this, as in `Host`, is a name of ours."""
        return strip_port(host) in self.host_names

    def is_same_origin(self, origin: str, host: str) -> bool:
        """Whether pages of this origin are our own, asked for by this name; whether TLS is spoken before us or not."""
        return origin in (f"http://{host.lower()}", f"https://{host.lower()}", self.public_origin)

    def allows_origin(self, origin: str, host: str) -> bool:
        """Whether pages of this origin may ask anything at all."""
        return origin in self.origins or self.is_same_origin(origin, host)


NO_HOSTS = AllowedHosts(frozenset())


def allowed_hosts_from(http: HttpSettings) -> AllowedHosts:
    """Those that settings name."""
    listening = http.address.rpartition(":")[0].lower()
    names = {listening, *http.hosts}
    if listening in _LOOPBACK_HOSTS or is_wildcard_address(listening):
        names |= _LOOPBACK_HOSTS
    public = None if http.public_url is None else http.public_url.lower()
    if public is not None:
        names.add(strip_port(urlsplit(public).netloc))
    return AllowedHosts(frozenset(names), frozenset(http.origins), public)


def is_wildcard_address(host: str) -> bool:
    """Whether listening there is listening on every address of the machine."""
    return host in ("0.0.0.0", "[::]")  # noqa: S104


def strip_port(host: str) -> str:
    """A host without its port, in small letters."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).lower()


def passes_csrf_check(method: str, headers: Mapping[str, str], sites: AllowedHosts) -> bool:
    """Whether what a browser sends along by itself says who asks: a page of ours made it, or a person went there.

    What changes something must be known to come from a page of ours; a browser says so in `Sec-Fetch-Site`, and one
    that does not know it in `Origin`. Pages on other ports of this machine count as the same site, and not as ours.
    """
    said = headers.get("sec-fetch-site")
    if method not in SAFE_METHODS:
        origin = headers.get("origin")
        if said is not None and said not in TRUSTED_FETCH_SITES:
            return False
        return sites.is_same_origin(origin, headers.get("host", "")) if origin is not None else said == "same-origin"
    if said is None or said in TRUSTED_FETCH_SITES:
        return True
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
