"""What the requests of this family may say, read and refused in words. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from paddock.capabilities.artifacts.address import is_digest
from paddock.capabilities.params import text, wrong
from paddock.core.errors import CallerError

MOST_INLINE = 1 << 20  # bytes that may travel in a message
DEFAULT_MEDIA_TYPE = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}(;[ -~]{0,127})?", re.I)


def part(params: Mapping[str, Any], total: int, most: int) -> tuple[int, int]:
    """Offset and length of what is asked for."""
    offset = count(params, "offset") or 0
    if offset > total:
        raise wrong("offset", f"is behind the end; the artifact has {total} bytes")
    wanted = count(params, "length")
    return offset, min(total - offset, most, total if wanted is None else wanted)


def count(params: Mapping[str, Any], name: str) -> int | None:
    value = params.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise wrong(name, "must be a whole number, and not negative")
    return value


def media_type(params: Mapping[str, Any]) -> str:
    named = text(params, "media_type", longest=255, default=DEFAULT_MEDIA_TYPE)
    if not _MEDIA_TYPE.fullmatch(named):
        raise wrong("media_type", "is no media type", "they look like text/plain or image/png")
    return named


def expected_digest(params: Mapping[str, Any]) -> str | None:
    digest = params.get("sha256")
    if digest is not None and not (isinstance(digest, str) and is_digest(digest)):
        raise wrong("sha256", "must be 64 lower-case hexadecimal digits")
    return digest


def decoded(written: Any) -> bytes:
    if not isinstance(written, str):
        raise wrong("base64", "must be text")
    if len(written) > 4 * -(-MOST_INLINE // 3):
        raise CallerError(
            f"more than {MOST_INLINE >> 20} MiB do not travel in a message",
            code="artifacts.too_large_inline",
            hint="announce the size instead, and send them on the pipe",
        )
    try:
        return base64.b64decode(written, validate=True)
    except (binascii.Error, ValueError):
        raise wrong("base64", "is no base64") from None
