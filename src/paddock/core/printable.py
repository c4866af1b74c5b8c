"""Text from outside, made safe to show on a terminal or in a log line."""

from __future__ import annotations

MAX_PATH_CHARS = 4_096


def printable(text: str, longest: int = 160) -> str:
    """One bounded line with whatever does not print written out: no escape sequence survives."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    if cut.isprintable():
        return cut
    escaped = "".join(
        character if character.isprintable() else character.encode("unicode_escape", "backslashreplace").decode()
        for character in cut
    )
    return escaped if len(escaped) <= longest else escaped[: longest - 1] + "…"
