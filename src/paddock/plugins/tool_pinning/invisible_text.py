"""Finds text that a model reads and a person does not see: invisible and direction-changing characters.

This finds what hides, not what persuades: a plainly visible "ignore all other tools" is for people to notice. Joiners
pass within scripts that are written with them and between emoji, and variation selectors pass behind an emoji.
Everywhere else they, and all other invisible characters, have no business in a description: their presence or absence
at each position could encode text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, cast

MAX_KEY_CHARS = 100  # characters of a key that are shown in a path
MAX_PATH_CHARS = 400

_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2934\u2935\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINING_SCRIPTS = (  # scripts whose letters join or stack
    "\u0600-\u109f\u1780-\u18af\u1900-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters but tab and line ends: terminals obey them
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # show text in another order than it is read in
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f"  # take no room on a screen
    "\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\U00016fe4\U0001d159"  # or take room and stay empty
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"  # say how to show what follows them
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"  # tags and variation selectors, in which whole sentences have been smuggled
    "\ufe00-\ufe0d]"
    f"|(?<![{_EMOJI}#*0-9])[\ufe0e\ufe0f]|(?<=[#*0-9])[\ufe0e\ufe0f](?!\u20e3)"
    f"|(?!(?<=[{_JOINING_SCRIPTS}]).[{_JOINING_SCRIPTS}])(?!(?<=[{_EMOJI}\ufe0f])\u200d[{_EMOJI}])[\u200c\u200d]"
)


def describe_invisible(raw: Any) -> str:
    """Describe what a definition hides and where; empty if it hides nothing."""
    for path, text in iter_texts(raw):
        if match := find_invisible(text):
            return f"{path or 'it'} hides the character {character_name(match[0])}"
    return ""


def find_invisible(text: str) -> re.Match[str] | None:
    """Find the first invisible character of a text."""
    return None if text.isascii() and text.isprintable() else _INVISIBLE.search(text)


def strip_invisible(text: str) -> str:
    """Return the text as it shows on a screen."""
    return text if text.isascii() and text.isprintable() else _INVISIBLE.sub("", text)


def escape_invisible(text: str) -> str:
    """Return the text with every invisible character escaped."""
    return text if text.isascii() else _INVISIBLE.sub(lambda match: _escape_code_point(ord(match[0])), text)


def _escape_code_point(code_point: int) -> str:
    return f"\\u{code_point:04x}" if code_point < 0x10000 else f"\\U{code_point:08x}"


def character_name(character: str) -> str:
    """Return a character's code point and Unicode name."""
    name = unicodedata.name(character, "a control character").lower()
    return f"U+{ord(character):04X} ({name})"


def iter_texts(raw: Any) -> Iterator[tuple[str, str]]:
    """Yield every text of a JSON value with its path, keys too.

    Paths are shortened: a long key would otherwise be repeated for everything below it.
    """
    pending: list[tuple[str, Any]] = [("", raw)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            for key, inner in cast("dict[str, Any]", value).items():
                yield f"a key of {path or 'it'}", key
                shown = key if len(key) <= MAX_KEY_CHARS else f"{key[:MAX_KEY_CHARS]}…"
                pending.append((_shorten_path(f"{path}.{shown}" if path else shown), inner))
        elif isinstance(value, list):
            pending += [
                (_shorten_path(f"{path}[{index}]"), inner) for index, inner in enumerate(cast("list[Any]", value))
            ]


def _shorten_path(path: str) -> str:
    return path if len(path) <= MAX_PATH_CHARS else f"…{path[-MAX_PATH_CHARS:]}"
