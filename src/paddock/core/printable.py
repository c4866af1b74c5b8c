"""Makes untrusted text safe to show on a terminal or in a log line."""

from __future__ import annotations

MAX_PATH_CHARS = 4_096


def printable(text: str, max_chars: int = 160) -> str:
    """One bounded line with non-printable characters escaped: no escape sequence survives."""
    shortened = text if len(text) <= max_chars else text[: max_chars - 1] + "…"
    if shortened.isprintable():
        return shortened
    escaped = "".join(
        character if character.isprintable() else character.encode("unicode_escape", "backslashreplace").decode()
        for character in shortened
    )
    return escaped if len(escaped) <= max_chars else escaped[: max_chars - 1] + "…"
