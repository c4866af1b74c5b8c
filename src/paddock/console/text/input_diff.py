"""The difference between the inputs that were asked for and an edited version, input by input. Pure."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

_MAX_COMPARED_LINES: Final = 2_000  # comparing more takes too long; what differs is shown as a whole then
_MAX_EQUAL_PAIRS: Final = 20_000  # of lines: comparing takes that many steps for each change, while the host waits
_NO_TITLES: Final[Mapping[str, str]] = MappingProxyType({})
LineChange: TypeAlias = Literal["same", "removed", "added"]


class InputDifference(Struct, frozen=True):
    """One changed input: its lines, each the same, removed or added."""

    title: str
    lines: tuple[tuple[LineChange, str], ...]


def in_form_order(names: Iterable[str], titles: Mapping[str, str]) -> list[str]:
    """Return the names of inputs in the order of the tool's form; what the form does not have comes last."""
    given = dict.fromkeys(names)
    return [*(name for name in titles if name in given), *(name for name in given if name not in titles)]


def compare_inputs(
    before: Mapping[str, Any], after: Mapping[str, Any], titles: Mapping[str, str] = _NO_TITLES
) -> list[InputDifference]:
    """Return the inputs that differ, in the order of `titles`, the inputs of the tool's form by their names.

    An input that is missing on one side has lines on the other.
    """
    return [
        InputDifference(titles.get(name, name), _compare_lines(_lines(before, name), _lines(after, name)))
        for name in in_form_order((*before, *after), titles)
        if as_json(before.get(name)) != as_json(after.get(name)) or (name in before) != (name in after)
    ]


def as_json(value: Any) -> str:
    """Return a value as JSON text, equal exactly where the values are: 1, 1.0 and true are three values."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True, default=str)


def _lines(inputs: Mapping[str, Any], name: str) -> list[str]:
    if name not in inputs:
        return []
    value = inputs[name]
    return (value if isinstance(value, str) else as_json(value)).split("\n")


def _compare_lines(before: list[str], after: list[str]) -> tuple[tuple[LineChange, str], ...]:
    shortest = min(len(before), len(after))
    start = next((index for index in range(shortest) if before[index] != after[index]), shortest)
    rest = shortest - start
    end = next((index for index in range(rest) if before[-1 - index] != after[-1 - index]), rest)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    return (
        *_marked("same", before[:start]),
        *_compare_different_lines(old, new),
        *_marked("same", before[len(before) - end :]),
    )


def _compare_different_lines(before: list[str], after: list[str]) -> list[tuple[LineChange, str]]:
    counts = Counter(after)
    too_slow = len(before) + len(after) > _MAX_COMPARED_LINES or sum(map(counts.__getitem__, before)) > _MAX_EQUAL_PAIRS
    if too_slow:
        return [*_marked("removed", before), *_marked("added", after)]
    changes: list[tuple[LineChange, str]] = []
    for operation, b_start, b_end, a_start, a_end in difflib.SequenceMatcher(None, before, after, False).get_opcodes():
        if operation == "equal":
            changes += _marked("same", before[b_start:b_end])
        else:
            changes += _marked("removed", before[b_start:b_end])
            changes += _marked("added", after[a_start:a_end])
    return changes


def _marked(change: LineChange, lines: list[str]) -> list[tuple[LineChange, str]]:
    return [(change, line) for line in lines]
