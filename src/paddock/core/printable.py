"""Texts for people: untrusted text made safe to show on a terminal or in a log line, and counts with their nouns."""

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


def count_text(number: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: `1 tool`, `1,204 tools`. `plural` is for nouns that do not end in `s` then."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
