"""Small pictures of numbers over time, as shapes that a template writes. Pure, and without a colour of their own.

A picture is as wide as its place: it is drawn in units that are stretched, so words stand beside it and never in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.host.plugins.activity import ActivityBucket, ActivitySummary

CHART_WIDTH_UNITS: Final = 600
CHART_HEIGHT_UNITS: Final = 100
_BAR_GAP_RATIO: Final = 0.25  # of the room that a bar has
_LINE_MARGIN_UNITS: Final = 6.0  # units that a line keeps away from the edges, so that none of its strength is cut off
_MIN_BAR_UNITS: Final = 2.0  # units of what is there at all, so that one failure among thousands is seen


@dataclass(frozen=True, slots=True)
class ChartBar:
    """A piece of a bar; pieces of one time stand on each other."""

    x: float
    y: float
    width: float
    height: float
    kind: str


@dataclass(frozen=True, slots=True)
class ChartColumn:
    """All that there is to see of one time, and the words for whoever points at it."""

    x: float
    width: float
    words: str
    bars: tuple[ChartBar, ...] = ()


@dataclass(frozen=True, slots=True)
class ChartLine:
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
    columns: tuple[ChartColumn, ...] = ()
    lines: tuple[ChartLine, ...] = ()
    start: str = ""
    width: int = CHART_WIDTH_UNITS
    height: int = CHART_HEIGHT_UNITS


def calls_chart(activity: ActivitySummary) -> Chart:
    """How many calls there were, and what became of them."""
    most = max((part.calls for part in activity.parts), default=0)
    columns = tuple(
        ChartColumn(
            x, room, f"{_interval_text(activity, part)}: {_counts_text(part)}", tuple(_stack_bars(part, most, x, room))
        )
        for part, x, room in _slots(activity.parts)
    )
    words = f"{activity.calls} calls in the last {activity.span.words}; {activity.failed} failed."
    return Chart("calls", "Calls", words, f"{most:,}", columns, start=_start_label(activity))


def _start_label(activity: ActivitySummary) -> str:
    words = activity.span.words
    return f"{words if words[0].isdigit() else f'1 {words}'} ago"


def latency_chart(activity: ActivitySummary) -> Chart:
    """How long answers took: half of them at most, and 19 of 20."""
    longest = max((part.slow_ms or 0.0 for part in activity.parts), default=0.0)
    lines = (
        _build_line("slow", activity.parts, lambda part: part.slow_ms, longest),
        _build_line("median", activity.parts, lambda part: part.median_ms, longest),
    )
    columns = tuple(
        ChartColumn(
            x,
            room,
            f"{_interval_text(activity, part)}: half within {duration_text(part.median_ms)},"
            f" 95% within {duration_text(part.slow_ms)}",
        )
        for part, x, room in _slots(activity.parts)
        if part.median_ms is not None
    )
    half, most = duration_text(activity.median_ms), duration_text(activity.slow_ms)
    words = f"Half of the answers took up to {half}, and 95% up to {most}."
    return Chart("times", "Response time", words, duration_text(longest), columns, lines, _start_label(activity))


def duration_text(milliseconds: float | None) -> str:
    """A time as people say it."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1:
        return "under 1 ms"
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def size_text(count: int | None) -> str:
    """A number of bytes as people say it."""
    if count is None:
        return "–"
    return f"{count / 2**20:,.0f} MiB" if count >= 2**20 else f"{count / 2**10:,.0f} KiB"


def _slots(parts: Sequence[ActivityBucket]) -> list[tuple[ActivityBucket, float, float]]:
    """Each part with where its room begins, and how wide that is."""
    room = CHART_WIDTH_UNITS / max(1, len(parts))
    return [(part, round(number * room, 2), round(room, 2)) for number, part in enumerate(parts)]


def _stack_bars(part: ActivityBucket, most: int, x: float, room: float) -> list[ChartBar]:
    bars: list[ChartBar] = []
    below = float(CHART_HEIGHT_UNITS)
    # What is most comes last: it has room to give.
    for kind, count in (("failed", part.failed), ("turned-away", part.rejected), ("succeeded", part.succeeded)):
        if count:
            height = min(max(count / most * CHART_HEIGHT_UNITS, _MIN_BAR_UNITS), below)
            below -= height
            left, width = round(x + room * _BAR_GAP_RATIO / 2, 2), round(room * (1 - _BAR_GAP_RATIO), 2)
            bars.append(ChartBar(left, round(below, 2), width, round(height, 2), kind))
    return bars


def _build_line(
    kind: str, parts: Sequence[ActivityBucket], number: Callable[[ActivityBucket], float | None], most: float
) -> ChartLine:
    pieces: list[list[tuple[float, float]]] = [[]]
    for part, x, room in _slots(parts):
        value = number(part)
        if value is None:
            pieces.append([])
        else:
            share = value / most if most else 0.0
            pieces[-1].append(
                (
                    round(x + room / 2, 2),
                    round(
                        CHART_HEIGHT_UNITS - _LINE_MARGIN_UNITS - share * (CHART_HEIGHT_UNITS - 2 * _LINE_MARGIN_UNITS),
                        2,
                    ),
                )
            )
    long = [piece for piece in pieces if len(piece) > 1]
    return ChartLine(
        kind,
        tuple(" ".join(f"{x},{y}" for x, y in piece) for piece in long),
        tuple(piece[0] for piece in pieces if len(piece) == 1),
    )


def _interval_text(activity: ActivitySummary, part: ActivityBucket) -> str:
    each = activity.span.length / activity.span.parts
    if each >= timedelta(days=1):
        return f"{part.since:%-d %b}"
    return f"{_clock_text(part.since)}–{_clock_text(part.since + each)} UTC"


def _clock_text(at: datetime) -> str:
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def _counts_text(part: ActivityBucket) -> str:
    told = [f"{part.calls:,} call{'' if part.calls == 1 else 's'}"]
    if part.failed:
        told.append(f"{part.failed:,} failed")
    if part.rejected:
        told.append(f"{part.rejected:,} denied or cancelled")
    return ", ".join(told)
