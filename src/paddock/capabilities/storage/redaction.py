"""A plugin's statement without the data in it, for records that people read."""

from __future__ import annotations

import re

from paddock.core.printable import printable

LONGEST = 500

_TOKENS = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
  | (?P<text> [xX]?'(?:[^']|'')*(?:'|\Z) )
  | (?P<name> "(?:[^"]|"")*(?:"|\Z) | `(?:[^`]|``)*(?:`|\Z) | \[[^\]]*(?:\]|\Z) )
  | (?P<word> [^\W\d]\w* )
  | (?P<number> \d[\w.]* )
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN_NAME = re.compile(r".\w{1,64}.\Z")


def redacted(sql: str) -> str:
    """The statement with every literal replaced by `?`, comments gone, short enough to keep."""
    return printable(" ".join(_TOKENS.sub(_shown, sql[: 8 * LONGEST]).split()), LONGEST)


def _shown(token: re.Match[str]) -> str:
    match token.lastgroup:
        case "comment":
            return " "
        case "word":
            return token[0]
        case "name":
            # Some write text in double quotes; only what looks like a name is kept.
            return token[0] if _PLAIN_NAME.match(token[0]) else "?"
        case _:
            return "?"
