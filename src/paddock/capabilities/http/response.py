"""The response as a plugin gets it: as text where possible, otherwise base64, with secrets redacted. Pure."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote, quote_plus

import orjson
from msgspec.structs import replace

from paddock.capabilities.http.headers import visible_headers
from paddock.capabilities.http.hop import FetchReply

MAX_BODY_BYTES = 3 << 20
"""In bytes of JSON, where a control character takes six."""

REDACTED = "[secret]"
_MIN_SECRET_CHARS = 6  # shorter texts occur by chance, and redacting them would reveal where
_PERCENT_ESCAPE = re.compile(r"%[0-9A-F]{2}")

_TEXT_MEDIA_TYPES = frozenset(
    {"", "application/json", "application/xml", "application/javascript", "application/x-www-form-urlencoded"}
)
# Not every codec of Python: some of them are not character sets.
_CHARSETS = {"utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "ascii", "iso-8859-1": "cp1252", "windows-1252": "cp1252"}


def fetch_result(reply: FetchReply, url: str, attempts: int) -> dict[str, Any]:
    """Build the result of `http.fetch`."""
    result: dict[str, Any] = {
        "status": reply.status,
        "headers": visible_headers(reply.headers),
        "url": url,
        "attempts": attempts,
    }
    text = _decode_text(reply)
    if text is None:
        return result | {"base64": binascii.b2a_base64(reply.body, newline=False).decode()}
    return result | {"body": text}


def _decode_text(reply: FetchReply) -> str | None:
    media_type, _, parameters = reply.headers.get("content-type", "").lower().partition(";")
    media_type = media_type.strip()
    if not (
        media_type in _TEXT_MEDIA_TYPES or media_type.startswith("text/") or media_type.endswith(("+json", "+xml"))
    ):
        return None
    charset_name = parameters.partition("charset=")[2].partition(";")[0].strip(" \"'")
    charset = _CHARSETS.get(charset_name or "utf-8")
    try:
        text = reply.body.decode(charset) if charset else None
    except UnicodeDecodeError:
        return None
    return text if text is not None and len(orjson.dumps(text)) <= MAX_BODY_BYTES else None


def secret_spellings(values: Iterable[str]) -> tuple[str, ...]:
    """Return all encodings of the secrets to redact, longest first: one can be part of another."""
    spellings = {
        spelling
        for value in values
        if len(value.strip()) >= _MIN_SECRET_CHARS
        for spelling in _spellings_of(value.strip())
    }
    return tuple(sorted(spellings, key=len, reverse=True))


def redact_reply(reply: FetchReply, hidden: Iterable[str]) -> FetchReply:
    """Redact these texts in the headers and the body."""
    body = reply.body
    for text in hidden:
        body = body.replace(text.encode(), REDACTED.encode())
    headers = {name: redact_text(value, hidden) for name, value in reply.headers.items()}
    return replace(reply, headers=headers, body=body)


def redact_text(text: str, hidden: Iterable[str]) -> str:
    for secret in hidden:
        text = text.replace(secret, REDACTED)
    return text


def _spellings_of(value: str) -> set[str]:
    raw = value.encode()
    in_urls = {quote(value, safe=""), quote(value), quote_plus(value)}
    in_json = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    return {
        value,
        *in_urls,
        *(_PERCENT_ESCAPE.sub(lambda escape: escape[0].lower(), text) for text in in_urls),
        *in_json,
        *(text.replace("/", "\\/") for text in in_json),
        html.escape(value),
        html.escape(value, quote=False),
        raw.hex(),
        raw.hex().upper(),
        *_base64_spellings(raw, base64.b64encode),
        *_base64_spellings(raw, base64.urlsafe_b64encode),
    }


def _base64_spellings(raw: bytes, encode: Callable[[bytes], bytes]) -> Iterable[str]:
    """Yield the base64 text of the bytes at each of the three alignments.

    Only characters that depend on no neighbouring byte are included.
    """
    for before in range(3):
        first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        yield encode(bytes(before) + raw).decode()[first:last]
