"""Parameters of the artifacts service's requests, read and validated. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from paddock.capabilities.artifacts.address import is_digest
from paddock.capabilities.params import invalid_param, text_param
from paddock.core.errors import CallerError

MAX_INLINE_BYTES = 1 << 20  # limit for content inside a message
DEFAULT_MEDIA_TYPE = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}(;[ -~]{0,127})?", re.I)


def read_range(params: Mapping[str, Any], total: int, max_bytes: int) -> tuple[int, int]:
    """Return the offset and length of the requested part."""
    offset = read_count(params, "offset") or 0
    if offset > total:
        raise invalid_param("offset", f"is behind the end; the artifact has {total} bytes")
    length = read_count(params, "length")
    return offset, min(total - offset, max_bytes, total if length is None else length)


def read_count(params: Mapping[str, Any], name: str) -> int | None:
    value = params.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise invalid_param(name, "must be a whole number, and not negative")
    return value


def read_media_type(params: Mapping[str, Any]) -> str:
    media_type = text_param(params, "media_type", max_chars=255, default=DEFAULT_MEDIA_TYPE)
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise invalid_param("media_type", "is no media type", "they look like text/plain or image/png")
    return media_type


def read_expected_digest(params: Mapping[str, Any]) -> str | None:
    digest = params.get("sha256")
    if digest is not None and not (isinstance(digest, str) and is_digest(digest)):
        raise invalid_param("sha256", "must be 64 lower-case hexadecimal digits")
    return digest


def decode_base64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise invalid_param("base64", "must be text")
    if len(text) > 4 * -(-MAX_INLINE_BYTES // 3):
        raise CallerError(
            f"more than {MAX_INLINE_BYTES >> 20} MiB do not travel in a message",
            code="artifacts.too_large_inline",
            hint="announce the size instead, and send them on the pipe",
        )
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise invalid_param("base64", "is no base64") from None
