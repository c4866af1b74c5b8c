"""Text from outside, made safe to show on a terminal or in a log line."""

from __future__ import annotations


def printable(text: str, longest: int = 200) -> str:
    """One line, bounded, with everything that does not print written out: no escape sequence survives."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "backslashreplace").decode()
        for character in cut
    )
