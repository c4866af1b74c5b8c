"""Small pictures of numbers over time, as shapes that a template writes. Pure, and without a colour of their own.

A picture is as wide as its place: it is drawn in units that are stretched, so words stand beside it and never in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.host.plugin_activity import Activity, Part

WIDTH: Final = 600
HEIGHT: Final = 100
_GAP: Final = 0.25  # of the room that a bar has
_EDGE: Final = 6.0  # units that a line keeps away from the edges, so that none of its strength is cut off
_LEAST: Final = 2.0  # units of what is there at all, so that one failure among thousands is seen


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of a bar; pieces of one time stand on each other."""

    x: float
    y: float
    width: float
    height: float
    kind: str


@dataclass(frozen=True, slots=True)
class Column:
    """All that there is to see of one time, and the words for whoever points at it."""

    x: float
    width: float
    words: str
    bars: tuple[Bar, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A line through the times that have a number; a time without one breaks it."""

    kind: str
    pieces: tuple[str, ...]  # the points of each piece
    dots: tuple[tuple[float, float], ...]  # numbers that stand alone


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture."""

    name: str  # told apart from others on the page
    title: str
    words: str  # for whoever does not see it
    top: str  # what its upper edge stands for
    columns: tuple[Column, ...] = ()
    lines: tuple[Line, ...] = ()
    start: str = ""
    width: int = WIDTH
    height: int = HEIGHT


def calls_chart(activity: Activity) -> Chart:
    """How many calls there were, and what became of them."""
    most = max((part.calls for part in activity.parts), default=0)
    columns = tuple(
        Column(x, room, f"{_when(activity, part)}: {_told(part)}", tuple(_stacked(part, most, x, room)))
        for part, x, room in _rooms(activity.parts)
    )
    words = f"{activity.calls} calls in the last {activity.span.words}; {activity.failed} failed."
    return Chart("calls", "Calls", words, f"{most:,}", columns, start=_start(activity))


def _start(activity: Activity) -> str:
    words = activity.span.words
    return f"{words if words[0].isdigit() else f'1 {words}'} ago"


def times_chart(activity: Activity) -> Chart:
    """How long answers took: half of them at most, and 19 of 20."""
    longest = max((part.slow_ms or 0.0 for part in activity.parts), default=0.0)
    lines = (
        _line("slow", activity.parts, lambda part: part.slow_ms, longest),
        _line("median", activity.parts, lambda part: part.median_ms, longest),
    )
    columns = tuple(
        Column(x, room, f"{_when(activity, part)}: half within {took(part.median_ms)}, 95% within {took(part.slow_ms)}")
        for part, x, room in _rooms(activity.parts)
        if part.median_ms is not None
    )
    words = f"Half of the answers took up to {took(activity.median_ms)}, and 95% up to {took(activity.slow_ms)}."
    return Chart("times", "Response time", words, took(longest), columns, lines, _start(activity))


def took(milliseconds: float | None) -> str:
    """A time as people say it."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1:
        return "under 1 ms"
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def size(count: int | None) -> str:
    """A number of bytes as people say it."""
    if count is None:
        return "–"
    return f"{count / 2**20:,.0f} MiB" if count >= 2**20 else f"{count / 2**10:,.0f} KiB"


def _rooms(parts: Sequence[Part]) -> list[tuple[Part, float, float]]:
    """Each part with where its room begins, and how wide that is."""
    room = WIDTH / max(1, len(parts))
    return [(part, round(number * room, 2), round(room, 2)) for number, part in enumerate(parts)]


def _stacked(part: Part, most: int, x: float, room: float) -> list[Bar]:
    bars: list[Bar] = []
    below = float(HEIGHT)
    # What is most comes last: it has room to give.
    for kind, count in (("failed", part.failed), ("turned-away", part.turned_away), ("succeeded", part.succeeded)):
        if count:
            height = min(max(count / most * HEIGHT, _LEAST), below)
            below -= height
            left, width = round(x + room * _GAP / 2, 2), round(room * (1 - _GAP), 2)
            bars.append(Bar(left, round(below, 2), width, round(height, 2), kind))
    return bars


def _line(kind: str, parts: Sequence[Part], number: Callable[[Part], float | None], most: float) -> Line:
    pieces: list[list[tuple[float, float]]] = [[]]
    for part, x, room in _rooms(parts):
        value = number(part)
        if value is None:
            pieces.append([])
        else:
            share = value / most if most else 0.0
            pieces[-1].append((round(x + room / 2, 2), round(HEIGHT - _EDGE - share * (HEIGHT - 2 * _EDGE), 2)))
    long = [piece for piece in pieces if len(piece) > 1]
    return Line(
        kind,
        tuple(" ".join(f"{x},{y}" for x, y in piece) for piece in long),
        tuple(piece[0] for piece in pieces if len(piece) == 1),
    )


def _when(activity: Activity, part: Part) -> str:
    each = activity.span.length / activity.span.parts
    if each >= timedelta(days=1):
        return f"{part.since:%-d %b}"
    return f"{_clock(part.since)}–{_clock(part.since + each)} UTC"


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def _told(part: Part) -> str:
    told = [f"{part.calls:,} call{'' if part.calls == 1 else 's'}"]
    if part.failed:
        told.append(f"{part.failed:,} failed")
    if part.turned_away:
        told.append(f"{part.turned_away:,} denied or cancelled")
    return ", ".join(told)
