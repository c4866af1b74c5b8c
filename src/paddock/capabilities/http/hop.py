"""One request to one origin, its reply, and the redirect that follows from it. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urljoin

from msgspec import Struct

from paddock.capabilities.http.headers import Headers, cross_origin_headers, without_content
from paddock.capabilities.methods import SAFE_HTTP_METHODS
from paddock.core.errors import CallerError, Unreachable
from paddock.net.web_url import WebTarget, parse_web_url


class FetchHop(Struct, frozen=True):
    """One request to one origin."""

    method: str
    address: WebTarget
    headers: Headers
    body: bytes | None

    @property
    def safe(self) -> bool:
        """Whether its method changes nothing on the server."""
        return self.method in SAFE_HTTP_METHODS


class FetchReply(Struct, frozen=True):
    """A complete response; its headers by name in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


MAX_REDIRECTS = 5

_REDIRECT_TO_GET = (301, 302, 303)
_REDIRECT_UNCHANGED = (307, 308)


def follow_redirect(hop: FetchHop, status: int, location: str | None) -> FetchHop | None:
    """Return the next hop after this response; None if there is none.

    A request that changes something is never repeated at another origin: the plugin gets the redirect itself.

    Raises:
        Unreachable: the location is not a web address.
        Denied: the location is an address in an obfuscated spelling.
    """
    if status not in (*_REDIRECT_TO_GET, *_REDIRECT_UNCHANGED) or not location:
        return None
    try:
        target = parse_web_url(urljoin(hop.address.url, location))
    except (CallerError, ValueError) as error:
        if isinstance(error, CallerError) and error.error_code != "http.bad_url":
            raise
        raise Unreachable(
            f"{hop.address.origin.host} sends us to what is no web address", code="http.bad_redirect"
        ) from None
    method, headers, body = hop.method, hop.headers, hop.body
    if (status == 303 and method != "HEAD") or (status in _REDIRECT_TO_GET and method == "POST"):
        method, headers, body = "GET", without_content(headers), None
    cross_origin = target.origin != hop.address.origin
    next_hop = FetchHop(method, target, cross_origin_headers(headers) if cross_origin else headers, body)
    return None if cross_origin and not next_hop.safe else next_hop
