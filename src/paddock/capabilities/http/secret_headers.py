"""Headers with secrets: the plugin names a declared secret and the host fills in its value, unseen. Pure.

    {"Authorization": {"secret": "api_token", "prefix": "Bearer "}}

Such a header is only sent over TLS, and never to another origin after a redirect. If the server repeats the secret in
its response, it is redacted (`response.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec import Struct

from paddock.capabilities.http.headers import (
    Headers,
    check_header_count,
    cross_origin_headers,
    header_value,
    read_headers,
)
from paddock.capabilities.params import invalid_param, text_param
from paddock.core.secret import MAX_SECRET_NAME_CHARS

MAX_PREFIX_CHARS = 64
# Redaction finds whole secrets in a response, not pieces of them that a plugin selects by range.
_RANGE_HEADERS = ("range", "if-range")


class SecretHeader(Struct, frozen=True):
    """A header whose value contains a secret."""

    header: str
    secret: str
    prefix: str = ""


def headers_by_secret(secrets: Iterable[SecretHeader]) -> dict[str, frozenset[str]]:
    """Map each requested secret to the headers that contain it, in lower case."""
    headers_of: dict[str, set[str]] = {}
    for header in secrets:
        headers_of.setdefault(header.secret, set()).add(header.header.lower())
    return {name: frozenset(headers) for name, headers in headers_of.items()}


def fill_secret_headers(headers: Headers, secrets: Iterable[SecretHeader], values: Mapping[str, str]) -> Headers:
    """Return all headers of a request as they are sent, those with secrets last.

    Args:
        headers: The headers that the plugin wrote out.
        secrets: The headers that the host fills in.
        values: The secrets, by name.

    Raises:
        CallerError: a value contains characters that a header cannot have, or the headers are too long together.
    """
    return read_headers(dict(headers) | {item.header: item.prefix + values[item.secret].strip() for item in secrets})


def split_secret_headers(headers: Any) -> tuple[Headers, tuple[SecretHeader, ...]]:
    """Split a plugin's headers into those it wrote out and those that the host fills in.

    Raises:
        CallerError: they cannot be sent.
    """
    if not isinstance(headers, dict):
        return read_headers(headers), ()
    items = cast("dict[str, Any]", headers)
    check_header_count(items)  # before each is parsed
    plain = {name: value for name, value in items.items() if not isinstance(value, dict)}
    secret_headers = [
        _read_secret_header(name, cast("dict[str, Any]", value))
        for name, value in items.items()
        if isinstance(value, dict)
    ]
    plain_headers = read_headers(plain)
    for name in _RANGE_HEADERS if secret_headers else ():
        if header_value(plain_headers, name) is not None:
            raise invalid_param("headers", f"ask for a part with {name}, beside a secret", "ask for the whole answer")
    return plain_headers, tuple(secret_headers)


def _read_secret_header(header: str, value: dict[str, Any]) -> SecretHeader:
    if value.keys() - {"secret", "prefix"}:
        raise invalid_param("headers", "have a value that is neither text nor a secret", "write {'secret': NAME}")
    prefix = text_param(value, "prefix", max_chars=MAX_PREFIX_CHARS, default="")
    secret_header = SecretHeader(header, text_param(value, "secret", max_chars=MAX_SECRET_NAME_CHARS), prefix)
    if cross_origin_headers(fill_secret_headers((), (secret_header,), {secret_header.secret: "x"})):
        raise invalid_param(
            "headers", f"hold a secret in {header}, which a redirect would send to another host", "use another one"
        )
    return secret_header
