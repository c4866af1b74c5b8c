"""Text from outside, made safe to print."""

from __future__ import annotations

# Longer than any path Linux takes.
LONGEST_PATH = 4096


def printable(text: str, longest: int = 80) -> str:
    """Text that is safe on a terminal: one line, bounded, every control character written out."""
    safe = "".join(char if char.isprintable() else char.encode("unicode_escape", "replace").decode() for char in text)
    return safe if len(safe) <= longest else safe[: longest - 1] + "…"
