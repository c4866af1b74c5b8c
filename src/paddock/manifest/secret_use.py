"""Permitted uses of a secret: as a value, or written by the host into one header of requests to one host.

    HOST:PORT              in `Authorization`, which services do not make readable to others
    HEADER@HOST:PORT       in another header; the consent screen shows which

The header is named because services store some headers, for instance as metadata of a file. A secret written into such
a header could be read back later without the secret.
"""

from __future__ import annotations

import re

from msgspec import Struct

from paddock.core.secret import is_valid_secret_name
from paddock.manifest.network import InvalidCapability, NetworkAccess, parse_network

AUTHORIZATION_HEADER = "authorization"
_HEADER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
_RECIPIENT_HINT = (
    "write 'api.example.com:443', or 'X-Api-Key@api.example.com:443' for another header than Authorization"
)


class SecretRecipient(Struct, frozen=True):
    """A header of requests to a host."""

    to: NetworkAccess
    header: str = AUTHORIZATION_HEADER  # in lower case

    def __str__(self) -> str:
        address = str(self.to).removeprefix("net:")
        return address if self.header == AUTHORIZATION_HEADER else f"{self.header}@{address}"

    def includes(self, other: SecretRecipient) -> bool:
        return self.header == other.header and self.to.includes(other.to)


class SecretUse(Struct, frozen=True):
    """A secret and its recipient."""

    name: str
    to: SecretRecipient | None = None  # None allows every use, including as a value that the plugin sees

    def __str__(self) -> str:
        return f"secret:{self.name}" + (f"={self.to}" if self.to else "")

    def includes(self, other: SecretUse) -> bool:
        recipient_included = self.to is None or (other.to is not None and self.to.includes(other.to))
        return self.name == other.name and recipient_included


def parse_recipient(text: str) -> SecretRecipient:
    """Parse the recipient of a secret.

    Raises:
        InvalidCapability: it names no recipient.
    """
    header_name, separator, rest = text.rpartition("@")
    header = header_name.lower() if separator else AUTHORIZATION_HEADER
    try:
        target = parse_network(text, rest)
    except InvalidCapability as error:
        raise InvalidCapability(error.message, _RECIPIENT_HINT) from None
    if not isinstance(target, NetworkAccess) or target.host == "*" or not _HEADER_NAME.fullmatch(header):
        raise InvalidCapability(f"{text!r} names no host, or no header", _RECIPIENT_HINT)
    return SecretRecipient(target, header)


def parse_secret_use(text: str, rest: str) -> SecretUse:
    """Parse what follows `secret:`.

    Raises:
        InvalidCapability: it names no secret, or no recipient.
    """
    name, separator, recipient = rest.partition("=")
    if not is_valid_secret_name(name):
        raise InvalidCapability(
            f"{text!r} names no secret", "write 'secret:api_key' or 'secret:api_key=api.example.com:443'"
        )
    return SecretUse(name, parse_recipient(recipient) if separator else None)
