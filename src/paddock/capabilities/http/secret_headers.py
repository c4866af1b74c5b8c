"""Headers whose value the plugin never sees: it names a secret that it declares, and the host writes it in. Pure.

    {"Authorization": {"secret": "api_token", "prefix": "Bearer "}}

Such a header goes over TLS alone, and not along with a redirect to another place. Where a server repeats the secret in
its answer, it is blanked (`blanking.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from paddock.capabilities.http.headers import (
    Headers,
    check_header_count,
    cross_origin_headers,
    header_value,
    read_headers,
)
from paddock.capabilities.params import invalid_param, text_param
from paddock.core.secret import MAX_SECRET_NAME_CHARS as LONGEST_NAME

MAX_PREFIX_CHARS = 64
# What a server repeats of a secret is blanked where it stands as a whole, and not in pieces that a plugin chooses.
_RANGE_HEADERS = ("range", "if-range")


@dataclass(frozen=True, slots=True)
class SecretHeader:
    """A header, and the secret that stands in it."""

    header: str
    secret: str
    prefix: str = ""


def headers_by_secret(secrets: Iterable[SecretHeader]) -> dict[str, frozenset[str]]:
    """The secrets that are asked for, each with the headers that it stands in, in lower case."""
    found: dict[str, set[str]] = {}
    for one in secrets:
        found.setdefault(one.secret, set()).add(one.header.lower())
    return {name: frozenset(headers) for name, headers in found.items()}


def fill_secret_headers(headers: Headers, secrets: Iterable[SecretHeader], values: Mapping[str, str]) -> Headers:
    """All headers of a request as they are sent, those with secrets last.

    Args:
        headers: What the plugin wrote out.
        secrets: What it leaves to the host.
        values: The secrets, by name.

    Raises:
        CallerError: a value has characters that no header can have, or they are too long together.
    """
    return read_headers(dict(headers) | {one.header: one.prefix + values[one.secret].strip() for one in secrets})


def split_secret_headers(headers: Any) -> tuple[Headers, tuple[SecretHeader, ...]]:
    """The headers that a plugin wrote out, and those whose value it leaves to the host.

    Raises:
        CallerError: they cannot be sent.
    """
    if not isinstance(headers, dict):
        return read_headers(headers), ()
    given = cast("dict[str, Any]", headers)
    check_header_count(given)  # before each is looked at
    plain = {name: value for name, value in given.items() if not isinstance(value, dict)}
    secret = [
        _read_secret_header(name, cast("dict[str, Any]", value))
        for name, value in given.items()
        if isinstance(value, dict)
    ]
    written = read_headers(plain)
    for name in _RANGE_HEADERS if secret else ():
        if header_value(written, name) is not None:
            raise invalid_param("headers", f"ask for a part with {name}, beside a secret", "ask for the whole answer")
    return written, tuple(secret)


def _read_secret_header(header: str, value: dict[str, Any]) -> SecretHeader:
    if value.keys() - {"secret", "prefix"}:
        raise invalid_param("headers", "have a value that is neither text nor a secret", "write {'secret': NAME}")
    prefix = text_param(value, "prefix", longest=MAX_PREFIX_CHARS, default="")
    found = SecretHeader(header, text_param(value, "secret", longest=LONGEST_NAME), prefix)
    if cross_origin_headers(fill_secret_headers((), (found,), {found.secret: "x"})):
        raise invalid_param(
            "headers", f"hold a secret in {header}, which others are told after a redirect", "use another one"
        )
    return found
