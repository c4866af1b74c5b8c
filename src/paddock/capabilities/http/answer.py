"""What a plugin is given of an answer: text where it is text, and base64 where not. Pure."""

from __future__ import annotations

import binascii
from typing import Any

import orjson

from paddock.capabilities.http.headers import shown
from paddock.capabilities.http.hop import Reply

LONGEST_TEXT = 3 << 20
"""In bytes of JSON, where a control character has six."""

_TEXT = frozenset(
    {"", "application/json", "application/xml", "application/javascript", "application/x-www-form-urlencoded"}
)
# Not whatever Python can decode: some of those are no character sets at all.
_CHARSETS = {"utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "ascii", "iso-8859-1": "cp1252", "windows-1252": "cp1252"}


def answered(reply: Reply, url: str, attempts: int) -> dict[str, Any]:
    """The result of `http.fetch`."""
    answer: dict[str, Any] = {
        "status": reply.status,
        "headers": shown(reply.headers),
        "url": url,
        "attempts": attempts,
    }
    text = _text(reply)
    if text is None:
        return answer | {"base64": binascii.b2a_base64(reply.body, newline=False).decode()}
    return answer | {"body": text}


def _text(reply: Reply) -> str | None:
    kind, _, parameters = reply.headers.get("content-type", "").lower().partition(";")
    kind = kind.strip()
    if not (kind in _TEXT or kind.startswith("text/") or kind.endswith(("+json", "+xml"))):
        return None
    named = parameters.partition("charset=")[2].partition(";")[0].strip(" \"'")
    charset = _CHARSETS.get(named or "utf-8")
    try:
        text = reply.body.decode(charset) if charset else None
    except UnicodeDecodeError:
        return None
    return text if text is not None and len(orjson.dumps(text)) <= LONGEST_TEXT else None
