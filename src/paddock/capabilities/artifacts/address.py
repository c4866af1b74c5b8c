"""The address of an artifact: `artifact://sha256/<64 hexadecimal digits>`, the hash of its bytes. Pure."""

from __future__ import annotations

import re
from typing import Any, cast

from paddock.capabilities.params import invalid_param

MAX_PAYLOAD_ARTIFACTS = 256  # addresses in one payload; a call that names more hands over the first ones

_PREFIX = "artifact://sha256/"
_DIGEST = re.compile(r"[0-9a-f]{64}")
# Followed by no further digit: a longer one is the address of nothing.
_ADDRESS_IN_TEXT = re.compile(r"artifact://sha256/([0-9a-f]{64})(?![0-9A-Za-z])")


def artifact_address(digest: str) -> str:
    """The address of the bytes with this hash."""
    return _PREFIX + digest


def is_address(text: Any) -> bool:
    """Whether this is meant as the address of an artifact, well written or not."""
    return isinstance(text, str) and text.startswith("artifact:")


def is_digest(text: str) -> bool:
    """Whether this is a hash as addresses have it."""
    return _DIGEST.fullmatch(text) is not None


def parse_address(address: Any) -> str:
    """The hash in an address. Anything else is refused here, before it could become part of a path.

    Raises:
        CallerError: it is no address of an artifact.
    """
    digest = address.removeprefix(_PREFIX) if isinstance(address, str) and address.startswith(_PREFIX) else ""
    if not is_digest(digest):
        raise invalid_param("uri", "is no address of an artifact", f"addresses look like {_PREFIX}0a1b…")
    return digest


def find_digests(payload: Any) -> frozenset[str]:
    """The hashes of all addresses that occur in a payload: as values, or in the midst of a text."""
    found: set[str] = set()
    left = [payload]
    while left and len(found) < MAX_PAYLOAD_ARTIFACTS:
        value = left.pop()
        if isinstance(value, str):
            if _PREFIX in value:
                found.update(_ADDRESS_IN_TEXT.findall(value)[:MAX_PAYLOAD_ARTIFACTS])
        elif isinstance(value, dict):
            left.extend(cast("dict[Any, Any]", value).values())
        elif isinstance(value, list | tuple):
            left.extend(cast("list[Any]", value))
    return frozenset(found)
