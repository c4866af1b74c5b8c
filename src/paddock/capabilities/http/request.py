"""What a plugin wants fetched, read from what it sent. Pure."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

from paddock.capabilities.http.headers import header_value
from paddock.capabilities.http.hop import FetchHop
from paddock.capabilities.http.secret_headers import SecretHeader, split_secret_headers
from paddock.capabilities.methods import SAFE_HTTP_METHODS, http_method
from paddock.capabilities.params import invalid_param, number_param, text_param
from paddock.net.web_url import MAX_URL_CHARS, parse_web_url

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
MAX_BODY_BYTES = 2 << 20
DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S = 20.0, 300.0
DEFAULT_RETRIES, MAX_RETRIES = 2, 5
DEFAULT_BACKOFF_S, MAX_BACKOFF_S = 0.5, 30.0

_KNOWN_FIELDS = frozenset({"method", "url", "headers", "body", "json", "base64", "timeout", "max_bytes", "redirects"})


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A request, with how long and how often it is tried."""

    first: FetchHop
    secrets: tuple[SecretHeader, ...]
    seconds: float
    max_bytes: int
    redirects: bool
    retries: int
    backoff: float


def read_fetch_request(params: Mapping[str, Any]) -> FetchRequest:
    """What the parameters of `http.fetch` ask for.

    Raises:
        CallerError: something of it is wrong.
        Denied: the url is written in a way that nobody may ask for.
    """
    sent: Any = params.get("request")
    if not isinstance(sent, dict):
        raise invalid_param("request", "must be an object", "at least {'url': 'https://…'}")
    request = cast("dict[str, Any]", sent)
    unknown = sorted(request.keys() - _KNOWN_FIELDS)
    if unknown:
        raise invalid_param("request", f"has no {unknown[0][:40]!r}", f"it has {', '.join(sorted(_KNOWN_FIELDS))}")
    method = http_method(params)
    if method not in METHODS:
        raise invalid_param("method", "is none that can be sent", f"use one of {', '.join(METHODS)}")
    redirects: Any = request.get("redirects", True)
    if not isinstance(redirects, bool):
        raise invalid_param("redirects", "must be true or false")
    headers, secrets = split_secret_headers(request.get("headers") or {})
    body, kind = _read_body(request)
    if body is not None and method in SAFE_HTTP_METHODS:
        raise invalid_param("body", f"cannot be sent with {method}", "use POST")
    if kind is not None and header_value(headers, "content-type") is None:
        headers = (*headers, ("Content-Type", kind))
    if body is None and method not in SAFE_HTTP_METHODS and method != "DELETE":
        body = b""  # so that it is said to be empty
    place = parse_web_url(text_param(request, "url", longest=MAX_URL_CHARS))
    if secrets and place.origin.scheme != "https":
        raise invalid_param("url", "is not https, and a secret would go over the wire for all to read", "use https")
    return FetchRequest(
        FetchHop(method, place, headers, body),
        secrets,
        number_param(request, "timeout", least=0.1, most=MAX_TIMEOUT_S, default=DEFAULT_TIMEOUT_S),
        int(number_param(request, "max_bytes", least=1, most=MAX_BODY_BYTES, default=MAX_BODY_BYTES)),
        redirects,
        int(number_param(params, "retries", least=0, most=MAX_RETRIES, default=DEFAULT_RETRIES)),
        number_param(params, "backoff", least=0, most=MAX_BACKOFF_S, default=DEFAULT_BACKOFF_S),
    )


def _read_body(request: Mapping[str, Any]) -> tuple[bytes | None, str | None]:
    """What is sent along, and what kind of thing it is where that is plain."""
    named = [name for name in ("body", "json", "base64") if request.get(name) is not None]
    if len(named) > 1:
        raise invalid_param("body", f"is given as {' and as '.join(named)}", "give one of them")
    if not named:
        return None, None
    if named == ["json"]:
        try:
            body, kind = orjson.dumps(request["json"]), "application/json"
        except TypeError:
            raise invalid_param("json", "is none that can be written") from None
    elif named == ["base64"]:
        try:
            body = binascii.a2b_base64(
                text_param(request, "base64", longest=MAX_BODY_BYTES * 2, default=""), strict_mode=True
            )
        except (binascii.Error, ValueError):
            raise invalid_param("base64", "is none") from None
        kind = None
    else:
        body, kind = (
            text_param(request, "body", longest=MAX_BODY_BYTES, default="").encode(),
            "text/plain; charset=utf-8",
        )
    if len(body) > MAX_BODY_BYTES:
        raise invalid_param(named[0], f"is larger than {MAX_BODY_BYTES} bytes", "send it in pieces")
    return body, kind
