"""An answer without the secrets that were sent for it, in the spellings in which servers repeat such things. Pure.

A server that means to give a secret away finds a spelling that nobody knows. This is for those that do it by accident:
in a page about the request, an error, a redirect.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from urllib.parse import quote, quote_plus

from paddock.capabilities.http.hop import Reply

BLANK = "[secret]"
_SHORTEST = 6  # what is shorter occurs by chance, and blanking it would tell where
_ESCAPE = re.compile(r"%[0-9A-F]{2}")


def blanks(values: Iterable[str]) -> tuple[str, ...]:
    """What must not stand in an answer, the longest first: one spelling can be a part of another."""
    told = {spelt for value in values if len(value.strip()) >= _SHORTEST for spelt in _spellings(value.strip())}
    return tuple(sorted(told, key=len, reverse=True))


def blanked(reply: Reply, hidden: Iterable[str]) -> Reply:
    """The answer without these."""
    body = reply.body
    for text in hidden:
        body = body.replace(text.encode(), BLANK.encode())
    headers = {name: blanked_text(told, hidden) for name, told in reply.headers.items()}
    return replace(reply, headers=headers, body=body)


def blanked_text(text: str, hidden: Iterable[str]) -> str:
    for one in hidden:
        text = text.replace(one, BLANK)
    return text


def _spellings(value: str) -> set[str]:
    raw = value.encode()
    in_urls = {quote(value, safe=""), quote(value), quote_plus(value)}
    in_json = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    return {
        value,
        *in_urls,
        *(_ESCAPE.sub(lambda escape: escape[0].lower(), one) for one in in_urls),
        *in_json,
        *(one.replace("/", "\\/") for one in in_json),
        html.escape(value),
        html.escape(value, quote=False),
        raw.hex(),
        raw.hex().upper(),
        *_in_base64(raw, base64.b64encode),
        *_in_base64(raw, base64.urlsafe_b64encode),
    }


def _in_base64(raw: bytes, encoded: Callable[[bytes], bytes]) -> Iterable[str]:
    """What base64 makes of it wherever it begins among other bytes: only what depends on no neighbour."""
    for before in range(3):
        first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        yield encoded(bytes(before) + raw).decode()[first:last]
