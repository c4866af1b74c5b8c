"""The address of an artifact: `artifact://sha256/<64 hexadecimal digits>`, the hash of its bytes. Pure."""

from __future__ import annotations

import re
from typing import Any, cast

from paddock.capabilities.params import invalid_param

MAX_PAYLOAD_ARTIFACTS = 256  # per payload; a call that names more passes on the first ones

_PREFIX = "artifact://sha256/"
_DIGEST = re.compile(r"[0-9a-f]{64}")
# Not followed by another digit: a longer text is not an address.
_ADDRESS_IN_TEXT = re.compile(r"artifact://sha256/([0-9a-f]{64})(?![0-9A-Za-z])")


def artifact_address(digest: str) -> str:
    """Return the address of the bytes with this hash."""
    return _PREFIX + digest


def is_address(text: Any) -> bool:
    """Whether this is meant as an artifact's address, valid or not."""
    return isinstance(text, str) and text.startswith("artifact:")


def is_digest(text: str) -> bool:
    """Whether this is a hash as used in addresses."""
    return _DIGEST.fullmatch(text) is not None


def parse_address(address: Any) -> str:
    """Return the hash in an address. Anything else is rejected here, before it could become part of a path.

    Raises:
        CallerError: it is not an artifact's address.
    """
    digest = address.removeprefix(_PREFIX) if isinstance(address, str) and address.startswith(_PREFIX) else ""
    if not is_digest(digest):
        raise invalid_param("uri", "is no address of an artifact", f"addresses look like {_PREFIX}0a1b…")
    return digest


def find_digests(payload: Any, *, limit: int | None = MAX_PAYLOAD_ARTIFACTS) -> frozenset[str]:
    """Return the hashes of the addresses in a payload, anywhere in its texts and names; about `limit` of them."""
    digests: set[str] = set()
    pending = [payload]
    while pending and (limit is None or len(digests) < limit):
        value = pending.pop()
        if isinstance(value, str):
            if _PREFIX in value:
                digests.update(_ADDRESS_IN_TEXT.findall(value)[:limit])
        elif isinstance(value, dict):
            for pair in cast("dict[Any, Any]", value).items():
                pending.extend(pair)
        elif isinstance(value, list | tuple):
            pending.extend(cast("list[Any]", value))
    return frozenset(digests)
