"""The `http.fetch` request as read from a plugin's parameters. Pure."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any, cast

import orjson
from msgspec import Struct

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


class FetchRequest(Struct, frozen=True):
    """A request with its timeout, size limit and retry settings."""

    first: FetchHop
    secrets: tuple[SecretHeader, ...]
    timeout_s: float
    max_bytes: int
    redirects: bool
    retries: int
    backoff: float


def read_fetch_request(params: Mapping[str, Any]) -> FetchRequest:
    """Read the parameters of `http.fetch`.

    Raises:
        CallerError: a parameter is invalid.
        Denied: the URL is written in a forbidden way.
    """
    value: Any = params.get("request")
    if not isinstance(value, dict):
        raise invalid_param("request", "must be an object", "at least {'url': 'https://…'}")
    request = cast("dict[str, Any]", value)
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
    body, media_type = _read_body(request)
    if body is not None and method in SAFE_HTTP_METHODS:
        raise invalid_param("body", f"cannot be sent with {method}", "use POST")
    if media_type is not None and header_value(headers, "content-type") is None:
        headers = (*headers, ("Content-Type", media_type))
    if body is None and method not in SAFE_HTTP_METHODS and method != "DELETE":
        body = b""  # so that a content length of 0 is sent
    target = parse_web_url(text_param(request, "url", max_chars=MAX_URL_CHARS))
    if secrets and target.origin.scheme != "https":
        raise invalid_param("url", "is not https, and a secret would go over the wire for all to read", "use https")
    return FetchRequest(
        FetchHop(method, target, headers, body),
        secrets,
        number_param(request, "timeout", minimum=0.1, maximum=MAX_TIMEOUT_S, default=DEFAULT_TIMEOUT_S),
        int(number_param(request, "max_bytes", minimum=1, maximum=MAX_BODY_BYTES, default=MAX_BODY_BYTES)),
        redirects,
        int(number_param(params, "retries", minimum=0, maximum=MAX_RETRIES, default=DEFAULT_RETRIES)),
        number_param(params, "backoff", minimum=0, maximum=MAX_BACKOFF_S, default=DEFAULT_BACKOFF_S),
    )


def _read_body(request: Mapping[str, Any]) -> tuple[bytes | None, str | None]:
    """Return the body, and its media type where the parameter implies one."""
    given = [name for name in ("body", "json", "base64") if request.get(name) is not None]
    if len(given) > 1:
        raise invalid_param("body", f"is given as {' and as '.join(given)}", "give one of them")
    if not given:
        return None, None
    if given == ["json"]:
        try:
            body, media_type = orjson.dumps(request["json"]), "application/json"
        except TypeError:
            raise invalid_param("json", "is none that can be written") from None
    elif given == ["base64"]:
        try:
            body = binascii.a2b_base64(
                text_param(request, "base64", max_chars=MAX_BODY_BYTES * 2, default=""), strict_mode=True
            )
        except (binascii.Error, ValueError):
            raise invalid_param("base64", "is none") from None
        media_type = None
    else:
        body, media_type = (
            text_param(request, "body", max_chars=MAX_BODY_BYTES, default="").encode(),
            "text/plain; charset=utf-8",
        )
    if len(body) > MAX_BODY_BYTES:
        raise invalid_param(given[0], f"is larger than {MAX_BODY_BYTES} bytes", "send it in pieces")
    return body, media_type
