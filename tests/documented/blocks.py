"""The fenced code blocks of a Markdown page, as values."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, what else stands on its first line, and the text."""

    language: str
    info: str
    text: str
    line: int

    @property
    def title(self) -> str | None:
        """The file that a block with `title="…"` shows."""
        found = re.search(r'title="([^"]+)"', self.info)
        return found[1] if found else None


def blocks(page: str) -> list[Block]:
    """Every fenced block of a page, also those inside lists and admonitions.

    Raises:
        ValueError: a block is opened and never closed.
    """
    found: list[Block] = []
    opening: re.Match[str] | None = None
    start, body = 0, list[str]()
    for number, line in enumerate(page.splitlines(), start=1):
        fence = FENCE.match(line)
        if opening is None:
            if fence:
                opening, start, body = fence, number, []
        elif fence and fence["ticks"].startswith(opening["ticks"]) and not fence["info"].strip():
            language, _, info = opening["info"].strip().partition(" ")
            found.append(Block(language, info.strip(), textwrap.dedent("\n".join(body)), start))
            opening = None
        else:
            body.append(line)
    if opening is not None:
        raise ValueError(f"the block of line {start} is never closed")
    return found
