"""Definitions as lines that people can read and compare, with everything hidden made visible. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from itertools import islice

from paddock.core.printable import printable

WIDTH = 110
MOST_COMPARED = 1_000  # lines on both sides; beyond, only equal beginnings and ends are left out
LONG = 65_536  # characters; a longer definition is cut by width alone, which is quicker
_PIECES = re.compile(r"(?<=\\n)|(?<=[.!?] )")


def difference(old: str | None, new: str | None) -> list[str]:
    """A unified difference of two definitions, each as canonical JSON; None or empty where there is none."""
    before, after = _lines(old), _lines(new)
    if len(before) + len(after) > MOST_COMPARED:
        return _plain_difference(before, after)
    compared = islice(difflib.unified_diff(before, after, lineterm="", n=2), 3, None)  # without names and numbers
    return ["  …" if line.startswith("@@") else line for line in compared]


def _plain_difference(before: list[str], after: list[str]) -> list[str]:
    """The same in a time that does not depend on what is compared."""
    same = next((at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    start = same if same is not None else min(len(before), len(after))
    room = min(len(before), len(after)) - start
    ends = zip(reversed(before), reversed(after), strict=False)
    tail = next((at for at, (a, b) in enumerate(ends) if a != b or at >= room), room)
    return [
        *(f"-{line}" for line in before[start : len(before) - tail]),
        *(f"+{line}" for line in after[start : len(after) - tail]),
    ]


def _lines(text: str | None) -> list[str]:
    if not text:
        return []
    pretty = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    lines = (printable(line, len(line) * 10 + 1) for line in pretty.split("\n"))
    return [piece for line in lines for piece in _pieces(line, sentences=len(text) <= LONG)]


def _pieces(line: str, *, sentences: bool) -> Iterator[str]:
    """A long line in parts, cut where sentences end, so that a changed word does not change all of it."""
    if len(line) <= WIDTH:
        yield line
        return
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    prefix = ""
    for sentence in _PIECES.split(line) if sentences else [line]:
        for at in range(0, len(sentence), WIDTH):
            yield prefix + sentence[at : at + WIDTH]
            prefix = indent
