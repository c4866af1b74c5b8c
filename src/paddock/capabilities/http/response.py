"""What a plugin is given of an answer: text where it is text, and base64 where not. Pure."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import quote, quote_plus

import orjson

from paddock.capabilities.http.headers import visible_headers
from paddock.capabilities.http.hop import FetchReply

MAX_BODY_BYTES = 3 << 20
"""In bytes of JSON, where a control character has six."""

_TEXT_MEDIA_TYPES = frozenset(
    {"", "application/json", "application/xml", "application/javascript", "application/x-www-form-urlencoded"}
)
# Not whatever Python can decode: some of those are no character sets at all.
_CHARSETS = {"utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "ascii", "iso-8859-1": "cp1252", "windows-1252": "cp1252"}


def fetch_result(reply: FetchReply, url: str, attempts: int) -> dict[str, Any]:
    """The result of `http.fetch`."""
    answer: dict[str, Any] = {
        "status": reply.status,
        "headers": visible_headers(reply.headers),
        "url": url,
        "attempts": attempts,
    }
    text = _decode_text(reply)
    if text is None:
        return answer | {"base64": binascii.b2a_base64(reply.body, newline=False).decode()}
    return answer | {"body": text}


def _decode_text(reply: FetchReply) -> str | None:
    kind, _, parameters = reply.headers.get("content-type", "").lower().partition(";")
    kind = kind.strip()
    if not (kind in _TEXT_MEDIA_TYPES or kind.startswith("text/") or kind.endswith(("+json", "+xml"))):
        return None
    named = parameters.partition("charset=")[2].partition(";")[0].strip(" \"'")
    charset = _CHARSETS.get(named or "utf-8")
    try:
        text = reply.body.decode(charset) if charset else None
    except UnicodeDecodeError:
        return None
    return text if text is not None and len(orjson.dumps(text)) <= MAX_BODY_BYTES else None


REDACTED = "[secret]"
_MIN_SECRET_CHARS = 6  # what is shorter occurs by chance, and blanking it would tell where
_PERCENT_ESCAPE = re.compile(r"%[0-9A-F]{2}")


def secret_spellings(values: Iterable[str]) -> tuple[str, ...]:
    """What must not stand in an answer, the longest first: one spelling can be a part of another."""
    told = {
        spelt for value in values if len(value.strip()) >= _MIN_SECRET_CHARS for spelt in _spellings_of(value.strip())
    }
    return tuple(sorted(told, key=len, reverse=True))


def redact_reply(reply: FetchReply, hidden: Iterable[str]) -> FetchReply:
    """The answer without these."""
    body = reply.body
    for text in hidden:
        body = body.replace(text.encode(), REDACTED.encode())
    headers = {name: redact_text(told, hidden) for name, told in reply.headers.items()}
    return replace(reply, headers=headers, body=body)


def redact_text(text: str, hidden: Iterable[str]) -> str:
    for one in hidden:
        text = text.replace(one, REDACTED)
    return text


def _spellings_of(value: str) -> set[str]:
    raw = value.encode()
    in_urls = {quote(value, safe=""), quote(value), quote_plus(value)}
    in_json = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    return {
        value,
        *in_urls,
        *(_PERCENT_ESCAPE.sub(lambda escape: escape[0].lower(), one) for one in in_urls),
        *in_json,
        *(one.replace("/", "\\/") for one in in_json),
        html.escape(value),
        html.escape(value, quote=False),
        raw.hex(),
        raw.hex().upper(),
        *_base64_spellings(raw, base64.b64encode),
        *_base64_spellings(raw, base64.urlsafe_b64encode),
    }


def _base64_spellings(raw: bytes, encoded: Callable[[bytes], bytes]) -> Iterable[str]:
    """What base64 makes of it wherever it begins among other bytes: only what depends on no neighbour."""
    for before in range(3):
        first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        yield encoded(bytes(before) + raw).decode()[first:last]
