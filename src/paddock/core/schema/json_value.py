"""Checks that a Python value is plain JSON of a reasonable size.

Values from YAML, Python literals or a plugin may contain what JSON cannot (dates, bytes, NaN, lone surrogates)
or be nested until a parser's stack overflows; this finds it before anything recursive sees them.
"""

from __future__ import annotations

import math
from typing import Any, cast

from paddock.core.errors import Problem
from paddock.core.schema.problem_text import join_below, quoted

MAX_DEPTH = 64
MAX_NODES = 2_000_000
_SCALARS = frozenset({str, int, float, bool, type(None)})


def is_deeper_than(value: object, depth: int = MAX_DEPTH) -> bool:
    """Whether containers are nested more than `depth` deep (or are too many to tell)."""
    # Most are objects of a few scalars, and every call comes by here, with its arguments and its result.
    if type(value) is dict and depth and _SCALARS.issuperset(map(type, cast("dict[Any, Any]", value).values())):
        return False
    layer: list[Any] = [value] if isinstance(value, (dict, list, tuple)) else []
    seen = 0
    for _ in range(depth):
        if not layer:
            return False
        seen += len(layer)
        if seen > MAX_NODES:
            return True
        # Most values are scalars, which a type lookup recognizes in a third of the time.
        layer = [
            inner
            for outer in layer
            for inner in (cast("dict[Any, Any]", outer).values() if isinstance(outer, dict) else outer)
            if type(inner) not in _SCALARS and isinstance(inner, (dict, list, tuple))
        ]
    return bool(layer)


def json_problems(
    value: object, path: str = "", *, nodes: int = MAX_NODES, text: int = 1 << 30, depth: int = MAX_DEPTH
) -> list[Problem]:
    """List why a value is not plain JSON within these limits; empty when it is.

    Args:
        value: Anything.
        path: Its path, to put before each problem's path.
        nodes: How many values it may contain in all.
        text: How many characters its strings and keys may have together.
        depth: How deep containers may be nested.
    """
    if _is_plain_json(value, nodes, text, depth):
        return []
    problems: list[Problem] = []
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    count = characters = 0
    while pending and len(problems) < 50:
        parts, current = pending.pop()
        count += 1
        if count > nodes:
            return [Problem(path, f"holds more than {nodes} values", "make it smaller", "too_large")]
        if len(parts) > depth:
            return [Problem(path, f"nested more than {depth} levels deep", "make it flatter", "too_deep")]
        if isinstance(current, dict):
            for key, inner in cast("dict[Any, Any]", current).items():
                if not isinstance(key, str):
                    problems.append(
                        _not_json_problem(path, parts, f"the key {str(key)[:40]!r} is not text", "put it in quotes")
                    )
                    continue
                characters += len(key)
                if _has_lone_surrogate(key):
                    problems.append(
                        _not_json_problem(path, parts, "a key holds half of a character", "use valid Unicode")
                    )
                pending.append(((*parts, key), inner))
        elif isinstance(current, (list, tuple)):
            room = nodes - count + 1  # enough to notice that there are too many, no more
            pending += [((*parts, i), inner) for i, inner in enumerate(cast("list[Any]", current)[:room])]
        elif isinstance(current, str):
            characters += len(current)
            if _has_lone_surrogate(current):
                problems.append(
                    _not_json_problem(path, parts, f"{quoted(current)} holds half of a character", "use valid Unicode")
                )
        elif isinstance(current, float) and not math.isfinite(current):
            problems.append(_not_json_problem(path, parts, f"{current} is not a number that JSON knows", ""))
        elif current is not None and not isinstance(current, (bool, int, float)):
            name = type(current).__name__
            problems.append(
                _not_json_problem(path, parts, f"a value of kind {name} has no place in JSON", "put it in quotes")
            )
        if characters > text:
            return [Problem(path, f"holds more than {text} characters", "make it smaller", "too_large")]
    return problems


def _is_plain_json(value: object, nodes: int, text: int, depth: int) -> bool:
    """Whether the value certainly has no problem; the fast check that most values pass, without any paths."""
    layer: list[Any] = [value]
    count = characters = 0
    for _ in range(depth + 1):
        count += len(layer)
        if count > nodes:
            return False
        next_layer: list[Any] = []
        for current in layer:
            kind: Any = type(current)  # pyright: ignore[reportUnknownVariableType]
            if kind is str:
                characters += len(current)
                if not current.isascii() and _has_lone_surrogate(current):
                    return False
            elif kind is dict:
                for key in current:
                    if type(key) is not str or not key.isascii():
                        return False
                    characters += len(key)
                next_layer += current.values()
            elif kind is list:
                next_layer += current
            elif kind is float:
                if not math.isfinite(current):
                    return False
            elif kind is not int and kind is not bool and current is not None:
                return False
        if characters > text:
            return False
        if not next_layer:
            return True
        layer = next_layer
    return False


def _not_json_problem(path: str, parts: tuple[str | int, ...], message: str, hint: str) -> Problem:
    return Problem(join_below(path, parts), message, hint, "not_json")


def _has_lone_surrogate(text: str) -> bool:
    """Whether a string holds a lone surrogate, which UTF-8 cannot write."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
