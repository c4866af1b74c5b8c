"""What a plugin may do with one secret: have it, or have the host write it into one header of requests to one host.

    HOST:PORT              in `Authorization`, which no service keeps for others to read
    HEADER@HOST:PORT       in another header; a person is shown which

A header is named because services keep some of them, as notes beside a file for instance: what was written into such a
one could be asked for again, without the secret, and read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from paddock.core.secret_name import possible
from paddock.manifest.network import BadCapability, Network, network

AUTHORIZATION = "authorization"
_HEADER = re.compile(r"[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
_HOW = "write 'api.example.com:443', or 'X-Api-Key@api.example.com:443' for another header than Authorization"


@dataclass(frozen=True, slots=True)
class Recipient:
    """A header of requests to a host."""

    to: Network
    header: str = AUTHORIZATION  # in lower case

    def __str__(self) -> str:
        where = str(self.to).removeprefix("net:")
        return where if self.header == AUTHORIZATION else f"{self.header}@{where}"

    def includes(self, other: Recipient) -> bool:
        return self.header == other.header and self.to.includes(other.to)


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A secret, and where it goes."""

    name: str
    to: Recipient | None = None  # None is every use, also as a value that the plugin sees

    def __str__(self) -> str:
        return f"secret:{self.name}" + (f"={self.to}" if self.to else "")

    def includes(self, other: SecretUse) -> bool:
        there = self.to is None or (other.to is not None and self.to.includes(other.to))
        return self.name == other.name and there


def recipient(text: str) -> Recipient:
    """Where a secret may go, from its text.

    Raises:
        BadCapability: it names no such place.
    """
    named, at, rest = text.rpartition("@")
    header = named.lower() if at else AUTHORIZATION
    try:
        to = network(text, rest)
    except BadCapability as error:
        raise BadCapability(error.message, _HOW) from None
    if not isinstance(to, Network) or to.host == "*" or not _HEADER.fullmatch(header):
        raise BadCapability(f"{text!r} names no host, or no header", _HOW)
    return Recipient(to, header)


def secret_use(text: str, rest: str) -> SecretUse:
    """What stands after `secret:`.

    Raises:
        BadCapability: it names no secret, or no place for it.
    """
    name, bound, where = rest.partition("=")
    if not possible(name):
        raise BadCapability(
            f"{text!r} names no secret", "write 'secret:api_key' or 'secret:api_key=api.example.com:443'"
        )
    return SecretUse(name, recipient(where) if bound else None)
