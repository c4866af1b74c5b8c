"""URI templates (RFC 6570): matches URIs against a server's template without extracting the variables. Pure.

Templates are untrusted, so matching is a bit-parallel automaton: its time grows with the URI alone, for any template.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

MAX_URI_CHARS: Final = 2_000
MAX_TEMPLATE_PARTS: Final = 2_000
_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")
_SEGMENT_SEPARATORS: Final = "/?#"  # a plain variable does not match across these


class UriTemplate(Struct, frozen=True):
    """A compiled template. Each bit is a position between two of its parts, lowest bit first."""

    characters: dict[str, int]  # by character: the positions that it follows
    plain: int  # positions followed by a variable within one segment
    wide: int  # positions followed by a variable that matches any character
    optional: int  # positions whose following part may be empty
    end: int

    def matches(self, uri: str) -> bool:
        """Whether a URI matches the template."""
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
    """Compile a template; None if it has no literal text, so that it would match everything, or is too long."""
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
