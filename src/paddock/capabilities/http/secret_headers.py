"""Headers whose value the plugin never sees: it names a secret that it declares, and the host writes it in. Pure.

    {"Authorization": {"secret": "api_token", "prefix": "Bearer "}}

Such a header goes over TLS alone, and not along with a redirect to another place. Where a server repeats the secret in
its answer, it is blanked (`blanking.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from paddock.capabilities.http.headers import Headers, for_anybody, given_headers
from paddock.capabilities.params import text, wrong
from paddock.core.secret_name import LONGEST as LONGEST_NAME

LONGEST_PREFIX = 64


@dataclass(frozen=True, slots=True)
class SecretHeader:
    """A header, and the secret that stands in it."""

    header: str
    secret: str
    prefix: str = ""

    def filled(self, value: str) -> tuple[str, str]:
        """The header as it is sent.

        Raises:
            CallerError: the value has characters that no header can have.
        """
        ((name, written),) = given_headers({self.header: self.prefix + value.strip()})
        return name, written


def apart(headers: Any) -> tuple[Headers, tuple[SecretHeader, ...]]:
    """The headers that a plugin wrote out, and those whose value it leaves to the host.

    Raises:
        CallerError: they cannot be sent.
    """
    if not isinstance(headers, dict):
        return given_headers(headers), ()
    given = cast("dict[str, Any]", headers)
    plain = {name: value for name, value in given.items() if not isinstance(value, dict)}
    secret = [_secret(name, cast("dict[str, Any]", value)) for name, value in given.items() if isinstance(value, dict)]
    return given_headers(plain), tuple(secret)


def _secret(header: str, value: dict[str, Any]) -> SecretHeader:
    if value.keys() - {"secret", "prefix"}:
        raise wrong("headers", "have a value that is neither text nor a secret", "write {'secret': NAME}")
    prefix = text(value, "prefix", longest=LONGEST_PREFIX, default="")
    found = SecretHeader(header, text(value, "secret", longest=LONGEST_NAME), prefix)
    if for_anybody((found.filled("x"),)):
        raise wrong("headers", f"hold a secret in {header}, which others are told after a redirect", "use another one")
    return found
