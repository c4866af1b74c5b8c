"""Text that a model reads and a person does not see: invisible and direction-changing characters in a definition.

This finds what hides, not what persuades: a plainly visible "ignore all other tools" is for people to notice. Joiners
that emoji and many scripts are written with pass where they stand between such characters; anything else that shows
nothing on a screen has no business in a description.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, cast

_JOINER = "\u200c\u200d"
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters but tab and line ends: terminals obey them
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # show text in another order than it is read in
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f"  # take no room on a screen
    "\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U000e0000-\U000e0fff]"  # tags and variation selectors, in which whole sentences have been smuggled
    "|[\ufe00-\ufe0f]{2}"
    f"|(?<![^\x00-\x7f{_JOINER}])[{_JOINER}]|[{_JOINER}](?![^\x00-\x7f{_JOINER}])"
)


def hidden_text(raw: Any) -> str:
    """What a definition hides and where, in words; nothing when it hides nothing."""
    for path, text in _texts(raw):
        if not text.isascii() or not text.isprintable():
            found = _HIDDEN.search(text)
            if found:
                return f"{path or 'it'} hides the character {_named(found[0][0])}"
    return ""


def _named(character: str) -> str:
    name = unicodedata.name(character, "a control character").lower()
    return f"U+{ord(character):04X} ({name})"


def _texts(raw: Any) -> Iterator[tuple[str, str]]:
    """Every text of a JSON value with the place it stands at, keys too."""
    pending: list[tuple[str, Any]] = [("", raw)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            for key, inner in cast("dict[str, Any]", value).items():
                yield f"a key of {path or 'it'}", key
                pending.append((f"{path}.{key}" if path else key, inner))
        elif isinstance(value, list):
            pending += [(f"{path}[{index}]", inner) for index, inner in enumerate(cast("list[Any]", value))]
