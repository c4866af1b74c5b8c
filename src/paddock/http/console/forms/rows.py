"""Rows that come and go while somebody fills in a form, for pages without scripts too. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

ADD: Final = "_add"
REMOVE: Final = "_remove"
REFRESH: Final = "_refresh"


def goes_on(sent: Mapping[str, Sequence[str]]) -> bool:
    """Whether somebody only changes the form, and is not done with it."""
    return any(word in sent for word in (ADD, REMOVE, REFRESH))


def with_changed_rows(value: Any, sent: Mapping[str, Sequence[str]]) -> Any:
    """The value with a row more, or one less, where that was asked for. The value itself is changed."""
    for place in sent.get(ADD, ()):
        *way, last = _steps(place)
        holder = _at(value, way, make=True)
        if isinstance(holder, dict):
            rows = cast("dict[str, Any]", holder).setdefault(last, [])
            if isinstance(rows, list):
                cast("list[Any]", rows).append(None)
    for place in sent.get(REMOVE, ()):
        *way, last = _steps(place)
        rows = _at(value, way, make=False)
        if isinstance(rows, list) and (at := _row(last, cast("list[Any]", rows))) is not None:
            del rows[at]
    return value


def _at(value: Any, way: Sequence[str], *, make: bool) -> Any:
    here = value
    for step in way:
        if isinstance(here, dict):
            inside = cast("dict[str, Any]", here)
            here = inside.setdefault(step, {}) if make else inside.get(step)
        elif isinstance(here, list) and (at := _row(step, cast("list[Any]", here))) is not None:
            there = cast("list[Any]", here)
            if there[at] is None and make:
                there[at] = {}
            here = there[at]
        else:
            return None
    return here


def _row(step: str, rows: Sequence[Any]) -> int | None:
    """Which row a step of a place names; None where there is none."""
    return next((at for at in range(len(rows)) if str(at) == step), None)


def _steps(place: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in place.split("/")[1:]] or [""]
