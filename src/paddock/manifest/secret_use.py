"""What a plugin may do with one secret: have it, or have the host write it into one header of requests to one host.

    HOST:PORT              in `Authorization`, which no service keeps for others to read
    HEADER@HOST:PORT       in another header; a person is shown which

A header is named because services keep some of them, as notes beside a file for instance: what was written into such a
one could be asked for again, without the secret, and read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from paddock.core.secret import is_valid_secret_name
from paddock.manifest.network import InvalidCapability, NetworkAccess, parse_network

AUTHORIZATION_HEADER = "authorization"
_HEADER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
_RECIPIENT_HINT = (
    "write 'api.example.com:443', or 'X-Api-Key@api.example.com:443' for another header than Authorization"
)


@dataclass(frozen=True, slots=True)
class SecretRecipient:
    """A header of requests to a host."""

    to: NetworkAccess
    header: str = AUTHORIZATION_HEADER  # in lower case

    def __str__(self) -> str:
        where = str(self.to).removeprefix("net:")
        return where if self.header == AUTHORIZATION_HEADER else f"{self.header}@{where}"

    def includes(self, other: SecretRecipient) -> bool:
        return self.header == other.header and self.to.includes(other.to)


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A secret, and where it goes."""

    name: str
    to: SecretRecipient | None = None  # None is every use, also as a value that the plugin sees

    def __str__(self) -> str:
        return f"secret:{self.name}" + (f"={self.to}" if self.to else "")

    def includes(self, other: SecretUse) -> bool:
        there = self.to is None or (other.to is not None and self.to.includes(other.to))
        return self.name == other.name and there


def parse_recipient(text: str) -> SecretRecipient:
    """Where a secret may go, from its text.

    Raises:
        BadCapability: it names no such place.
    """
    named, at, rest = text.rpartition("@")
    header = named.lower() if at else AUTHORIZATION_HEADER
    try:
        to = parse_network(text, rest)
    except InvalidCapability as error:
        raise InvalidCapability(error.message, _RECIPIENT_HINT) from None
    if not isinstance(to, NetworkAccess) or to.host == "*" or not _HEADER_NAME.fullmatch(header):
        raise InvalidCapability(f"{text!r} names no host, or no header", _RECIPIENT_HINT)
    return SecretRecipient(to, header)


def parse_secret_use(text: str, rest: str) -> SecretUse:
    """What stands after `secret:`.

    Raises:
        BadCapability: it names no secret, or no place for it.
    """
    name, bound, where = rest.partition("=")
    if not is_valid_secret_name(name):
        raise InvalidCapability(
            f"{text!r} names no secret", "write 'secret:api_key' or 'secret:api_key=api.example.com:443'"
        )
    return SecretUse(name, parse_recipient(where) if bound else None)
