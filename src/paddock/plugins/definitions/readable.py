"""Definitions as lines that people can read and compare, with everything hidden made visible. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from paddock.core.printable import printable
from paddock.plugins.definitions.hidden import unhidden

WIDTH = 110
MOST_WORK = 50_000  # pairs of equal lines times lines: what is compared in good time, whoever wrote it
CONTEXT = 2  # lines around a change
LONG = 65_536  # characters; a longer definition is cut by width alone, which is quicker
_PIECES = re.compile(r"(?<=\\n)|(?<=[.!?] )")


def difference(old: str | None, new: str | None) -> list[str]:
    """A unified difference of two definitions, each as canonical JSON; None or empty where there is none.

    Lines that are equal are looked for between the first change and the last. Where that would take long, since a great
    many are alike, everything in between is shown as gone and as new.
    """
    before, after = _lines(old), _lines(new)
    start, end = _equal_ends(before, after)
    head, tail = before[max(0, start - CONTEXT) : start], before[len(before) - end :][:CONTEXT]
    gone, come = before[start : len(before) - end], after[start : len(after) - end]
    if not gone and not come:
        return []
    if _work(gone, come) > MOST_WORK:
        changed = [*(f"-{line}" for line in gone), *(f"+{line}" for line in come)]
        return [*(f" {line}" for line in head), *changed, *(f" {line}" for line in tail)]
    compared = difflib.unified_diff([*head, *gone, *tail], [*head, *come, *tail], lineterm="", n=CONTEXT)
    shown = islice(compared, 3, None)  # without names and numbers
    return ["  …" if line.startswith("@@") else line for line in shown]


def _equal_ends(before: list[str], after: list[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning, and how many at the end."""
    most = min(len(before), len(after))
    start = next((at for at in range(most) if before[at] != after[at]), most)
    end = next((at for at in range(most - start) if before[-1 - at] != after[-1 - at]), most - start)
    return start, end


def _work(before: list[str], after: list[str]) -> int:
    """How much there may be to do: each of as many steps as there are lines looks at all pairs of equal ones."""
    known = Counter(before)
    return (len(before) + len(after)) * (1 + sum(known[line] for line in after))


def _lines(text: str | None) -> list[str]:
    if not text:
        return []
    pretty = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    lines = (printable(unhidden(line), len(line) * 10 + 1) for line in pretty.split("\n"))
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
