"""Text from outside, made safe to print."""

from __future__ import annotations

_LONGEST = 80


def printable(text: str) -> str:
    """Text that is safe on a terminal: one line, bounded, every control character written out."""
    safe = "".join(char if char.isprintable() else char.encode("unicode_escape", "replace").decode() for char in text)
    return safe if len(safe) <= _LONGEST else safe[: _LONGEST - 1] + "…"
