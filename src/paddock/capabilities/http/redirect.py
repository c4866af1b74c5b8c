"""Where an answer sends us, and what of the request goes along. Pure."""

from __future__ import annotations

from urllib.parse import urljoin

from paddock.capabilities.http.destination import place_of
from paddock.capabilities.http.headers import for_anybody, without_content
from paddock.capabilities.http.hop import Hop
from paddock.core.errors import CallerError, Unreachable

MOST_REDIRECTS = 5

_TO_GET = (301, 302, 303)
_AS_IT_WAS = (307, 308)


def following(hop: Hop, status: int, location: str | None) -> Hop | None:
    """The request that follows from this answer; None where it is the answer.

    What changes something is never repeated at another place: whoever asked gets the redirect itself.

    Raises:
        Unreachable: it leads to what is no web address.
        Denied: it leads to an address in an odd spelling.
    """
    if status not in (*_TO_GET, *_AS_IT_WAS) or not location:
        return None
    try:
        place = place_of(urljoin(hop.place.url, location))
    except (CallerError, ValueError) as error:
        if isinstance(error, CallerError) and error.error_code != "http.bad_url":
            raise
        raise Unreachable(
            f"{hop.place.origin.host} sends us to what is no web address", code="http.bad_redirect"
        ) from None
    method, headers, body = hop.method, hop.headers, hop.body
    if (status == 303 and method != "HEAD") or (status in _TO_GET and method == "POST"):
        method, headers, body = "GET", without_content(headers), None
    elsewhere = place.origin != hop.place.origin
    following = Hop(method, place, for_anybody(headers) if elsewhere else headers, body)
    return None if elsewhere and not following.safe else following
