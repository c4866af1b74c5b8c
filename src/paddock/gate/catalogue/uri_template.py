"""Which addresses a server's template stands for (RFC 6570), told without trying to guess what the variables are. Pure.

Servers write templates, so a match takes a time that grows with the address alone, whatever the template is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_URI_CHARS: Final = 2_000
MAX_TEMPLATE_PARTS: Final = 2_000
_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")
_SEGMENT_SEPARATORS: Final = "/?#"  # what a plain variable does not reach across


@dataclass(frozen=True, slots=True)
class UriTemplate:
    """A template, made ready. Each bit is a place between two of its parts, from the first."""

    characters: dict[str, int]  # by character: the places after which it is written
    plain: int  # after which a variable within one segment stands
    wide: int  # after which one stands that may be anything
    optional: int  # after which nothing need be
    end: int

    def matches(self, uri: str) -> bool:
        """Whether the address is one of those that it stands for."""
        if len(uri) > MAX_URI_CHARS:
            return False
        positions = self._skip_optional(1)
        for character in uri:
            variables = self.wide if character in _SEGMENT_SEPARATORS else self.wide | self.plain
            steps = (positions & (self.characters.get(character, 0) | variables)) << 1
            positions = self._skip_optional(steps | (positions & (variables << 1)))
            if not positions:
                return False
        return bool(positions & self.end)

    def _skip_optional(self, positions: int) -> int:
        while True:
            reached = positions | ((positions & self.optional) << 1)
            if reached == positions:
                return positions
            positions = reached


def parse_uri_template(text: str) -> UriTemplate | None:
    """A template as a server writes it; None for one that stands for everything, or is longer than any has to be."""
    characters: dict[str, int] = {}
    plain = wide = optional = 0
    position = 1
    pieces = _EXPRESSION.split(text)
    for index, piece in enumerate(pieces):
        if index % 2:
            if piece[:1] in ("+", "#", "/", "?", "&", ";", ".") or piece.endswith("*"):
                wide |= position
                optional |= position if piece[:1] in ("#", "/", "?", "&", ";", ".") else 0
            else:
                plain |= position
            position <<= 1
            continue
        for character in piece:
            characters[character] = characters.get(character, 0) | position
            position <<= 1
    if not characters or position.bit_length() > MAX_TEMPLATE_PARTS:
        return None
    return UriTemplate(characters, plain, wide, optional, position)
