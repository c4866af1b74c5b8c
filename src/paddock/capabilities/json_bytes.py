"""A plugin's value as the JSON text that is kept of it."""

from __future__ import annotations

from typing import Any

import orjson

from paddock.capabilities.params import wrong
from paddock.core.json_value import not_json


def encoded(name: str, value: Any, most: int) -> bytes:
    """The value of this parameter as JSON.

    Raises:
        CallerError: it is no JSON, or longer than `most` bytes.
    """
    problems = not_json(value, text=most)
    if problems and problems[0].code != "too_large":
        raise wrong(name, f"cannot be kept: {problems[0].message}", problems[0].hint)
    try:
        kept = b"" if problems else orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise wrong(name, "cannot be kept: a number does not fit in 64 bits", "send it as text") from None
    if problems or len(kept) > most:
        raise wrong(name, f"is larger than {most} bytes", "keep less, or keep it in pieces")
    return kept
