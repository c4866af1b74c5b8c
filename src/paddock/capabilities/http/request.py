"""What a plugin wants fetched, read from what it sent. Pure."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

from paddock.capabilities.http.destination import LONGEST_URL, place_of
from paddock.capabilities.http.headers import value_of
from paddock.capabilities.http.hop import Hop
from paddock.capabilities.http.secret_headers import SecretHeader, apart
from paddock.capabilities.methods import SAFE, http_method
from paddock.capabilities.params import number, text, wrong

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
LARGEST_BODY = 2 << 20
USUAL_SECONDS, MOST_SECONDS = 20.0, 300.0
USUAL_RETRIES, MOST_RETRIES = 2, 5
USUAL_BACKOFF, MOST_BACKOFF = 0.5, 30.0

_KNOWN = frozenset({"method", "url", "headers", "body", "json", "base64", "timeout", "max_bytes", "redirects"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request, with how long and how often it is tried."""

    first: Hop
    secrets: tuple[SecretHeader, ...]
    seconds: float
    most_bytes: int
    redirects: bool
    retries: int
    backoff: float


def wanted(params: Mapping[str, Any]) -> Wanted:
    """What the parameters of `http.fetch` ask for.

    Raises:
        CallerError: something of it is wrong.
        Denied: the url is written in a way that nobody may ask for.
    """
    sent: Any = params.get("request")
    if not isinstance(sent, dict):
        raise wrong("request", "must be an object", "at least {'url': 'https://…'}")
    request = cast("dict[str, Any]", sent)
    unknown = sorted(request.keys() - _KNOWN)
    if unknown:
        raise wrong("request", f"has no {unknown[0][:40]!r}", f"it has {', '.join(sorted(_KNOWN))}")
    method = http_method(params)
    if method not in METHODS:
        raise wrong("method", "is none that can be sent", f"use one of {', '.join(METHODS)}")
    redirects: Any = request.get("redirects", True)
    if not isinstance(redirects, bool):
        raise wrong("redirects", "must be true or false")
    headers, secrets = apart(request.get("headers") or {})
    body, kind = _body(request)
    if body is not None and method in SAFE:
        raise wrong("body", f"cannot be sent with {method}", "use POST")
    if kind is not None and value_of(headers, "content-type") is None:
        headers = (*headers, ("Content-Type", kind))
    if body is None and method not in SAFE and method != "DELETE":
        body = b""  # so that it is said to be empty
    place = place_of(text(request, "url", longest=LONGEST_URL))
    if secrets and place.origin.scheme != "https":
        raise wrong("url", "is not https, and a secret would go over the wire for all to read", "use https")
    return Wanted(
        Hop(method, place, headers, body),
        secrets,
        number(request, "timeout", least=0.1, most=MOST_SECONDS, default=USUAL_SECONDS),
        int(number(request, "max_bytes", least=1, most=LARGEST_BODY, default=LARGEST_BODY)),
        redirects,
        int(number(params, "retries", least=0, most=MOST_RETRIES, default=USUAL_RETRIES)),
        number(params, "backoff", least=0, most=MOST_BACKOFF, default=USUAL_BACKOFF),
    )


def _body(request: Mapping[str, Any]) -> tuple[bytes | None, str | None]:
    """What is sent along, and what kind of thing it is where that is plain."""
    named = [name for name in ("body", "json", "base64") if request.get(name) is not None]
    if len(named) > 1:
        raise wrong("body", f"is given as {' and as '.join(named)}", "give one of them")
    if not named:
        return None, None
    if named == ["json"]:
        try:
            body, kind = orjson.dumps(request["json"]), "application/json"
        except TypeError:
            raise wrong("json", "is none that can be written") from None
    elif named == ["base64"]:
        try:
            body = binascii.a2b_base64(text(request, "base64", longest=LARGEST_BODY * 2, default=""), strict_mode=True)
        except (binascii.Error, ValueError):
            raise wrong("base64", "is none") from None
        kind = None
    else:
        body, kind = text(request, "body", longest=LARGEST_BODY, default="").encode(), "text/plain; charset=utf-8"
    if len(body) > LARGEST_BODY:
        raise wrong(named[0], f"is larger than {LARGEST_BODY} bytes", "send it in pieces")
    return body, kind
