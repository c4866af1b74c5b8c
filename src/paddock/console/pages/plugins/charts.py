"""SVG charts of activity over time, as shapes for a template. Pure; colours are set by the style sheet.

A chart is stretched to the width of its container, so labels are placed beside it and never inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from paddock.host.plugins.activity import ActivityBucket, ActivitySummary

CHART_WIDTH_UNITS: Final = 600
CHART_HEIGHT_UNITS: Final = 100
SPARK_WIDTH_UNITS: Final = 96
SPARK_HEIGHT_UNITS: Final = 18
_BAR_GAP_RATIO: Final = 0.25  # of a bar's slot
_LINE_MARGIN_UNITS: Final = 6.0  # keeps lines from being clipped at the edges
_MIN_BAR_UNITS: Final = 2.0  # so that one failure among thousands is visible


class ChartBar(Struct, frozen=True):
    """A segment of a stacked bar."""

    x: float
    y: float
    width: float
    height: float
    kind: str


class ChartColumn(Struct, frozen=True):
    """The bars of one time interval, with the tooltip text."""

    x: float
    width: float
    words: str
    bars: tuple[ChartBar, ...] = ()


class ChartLine(Struct, frozen=True):
    """A line through the intervals that have a value; an interval without one breaks it."""

    kind: str
    pieces: tuple[str, ...]  # the points of each segment
    dots: tuple[tuple[float, float], ...]  # isolated values


class Chart(Struct, frozen=True):
    """One chart."""

    name: str  # unique on the page
    title: str
    words: str  # text alternative
    top: str  # label of the upper edge; empty if there is nothing to draw
    middle: str = ""  # label of the line halfway up
    columns: tuple[ChartColumn, ...] = ()
    lines: tuple[ChartLine, ...] = ()
    start: str = ""
    halfway: str = ""  # label of the middle of the time axis
    width: int = CHART_WIDTH_UNITS
    height: int = CHART_HEIGHT_UNITS
    highest: str = ""  # the highest value itself, which may be below the upper edge


def calls_chart(activity: ActivitySummary) -> Chart:
    """Build the chart of calls by outcome."""
    highest = max((bucket.calls for bucket in activity.parts), default=0)
    top = _count_axis_top(highest)
    columns = tuple(
        ChartColumn(
            x,
            width,
            f"{_interval_text(activity, bucket)}: {_counts_text(bucket)}",
            tuple(_stack_bars(bucket, top, x, width)),
        )
        for bucket, x, width in _slots(activity.parts)
    )
    words = f"{activity.calls} calls in the last {activity.span.words}; {activity.failed} failed."
    return Chart(
        "calls",
        "Calls",
        words,
        *_count_axis_labels(top),
        highest=f"{highest:,}",
        columns=columns,
        start=_start_label(activity),
        halfway=_halfway_label(activity),
    )


def errors_chart(activity: ActivitySummary) -> Chart:
    """Build the chart of failed calls alone: among many successful ones they are too small to see."""
    top = _count_axis_top(max((bucket.failed for bucket in activity.parts), default=0))
    columns = tuple(
        ChartColumn(
            x,
            width,
            f"{_interval_text(activity, bucket)}: {bucket.failed:,} failed",
            tuple(_stack_bars(ActivityBucket(bucket.since, failed=bucket.failed), top, x, width)),
        )
        for bucket, x, width in _slots(activity.parts)
    )
    return Chart(
        "errors",
        "Errors",
        f"{activity.failed} of {activity.calls} calls failed in the last {activity.span.words}.",
        *_count_axis_labels(top),
        columns=columns,
        start=_start_label(activity),
        halfway=_halfway_label(activity),
    )


def _count_axis_top(highest: int) -> int:
    """Return the upper edge of an axis of whole numbers, whose half is one too."""
    return highest + highest % 2


def _count_axis_labels(top: int) -> tuple[str, str]:
    """Return the labels of the upper edge and of the middle; empty if there is nothing to draw."""
    return (f"{top:,}", f"{top // 2:,}") if top else ("", "")


class Sparkline(Struct, frozen=True):
    """The calls of one tool in each hour of the last day, as bars."""

    calls: int
    bars: tuple[ChartBar, ...]
    width: int = SPARK_WIDTH_UNITS
    height: int = SPARK_HEIGHT_UNITS


def tool_sparkline(hourly: Sequence[int]) -> Sparkline:
    """Build the small chart of a tool's calls."""
    highest, slot = max(hourly, default=0), SPARK_WIDTH_UNITS / max(1, len(hourly))
    bars: list[ChartBar] = []
    for index, count in enumerate(hourly):
        if count:
            height = max(_MIN_BAR_UNITS, round(count / highest * SPARK_HEIGHT_UNITS, 2))
            bars.append(ChartBar(round(index * slot, 2), SPARK_HEIGHT_UNITS - height, round(slot * 0.8, 2), height, ""))
    return Sparkline(sum(hourly), tuple(bars))


def _halfway_label(activity: ActivitySummary) -> str:
    span = activity.span
    interval = span.length / 2
    if interval >= timedelta(days=1):
        return f"{interval.days} days ago"
    hours, minutes = divmod(int(interval.total_seconds() // 60), 60)
    return f"{hours} hours ago" if hours > 1 else f"{hours * 60 + minutes} minutes ago"


def _start_label(activity: ActivitySummary) -> str:
    words = activity.span.words
    return f"{words if words[0].isdigit() else f'1 {words}'} ago"


def latency_chart(activity: ActivitySummary) -> Chart:
    """Build the chart of response times: median and 95th percentile."""
    max_ms = max((bucket.slow_ms or 0.0 for bucket in activity.parts), default=0.0)
    lines = (
        _build_line("slow", activity.parts, lambda bucket: bucket.slow_ms, max_ms),
        _build_line("median", activity.parts, lambda bucket: bucket.median_ms, max_ms),
    )
    columns = tuple(
        ChartColumn(
            x,
            width,
            f"{_interval_text(activity, bucket)}: p50 {duration_text(bucket.median_ms)},"
            f" p95 {duration_text(bucket.slow_ms)}",
        )
        for bucket, x, width in _slots(activity.parts)
        if bucket.median_ms is not None
    )
    median_text, slow_text = duration_text(activity.median_ms), duration_text(activity.slow_ms)
    words = f"Half of the answers took up to {median_text}, and 95% up to {slow_text}."
    return Chart(
        "times",
        "Response time",
        words,
        duration_text(max_ms) if columns else "",
        duration_text(max_ms / 2) if max_ms >= 2 else "",
        columns,
        lines,
        _start_label(activity),
        _halfway_label(activity),
    )


def duration_text(milliseconds: float | None) -> str:
    """Format a duration."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1:
        return "under 1 ms"
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def size_text(byte_count: int | None) -> str:
    """Format a number of bytes."""
    if byte_count is None:
        return "–"
    return f"{byte_count / 2**20:,.0f} MiB" if byte_count >= 2**20 else f"{byte_count / 2**10:,.0f} KiB"


def _slots(buckets: Sequence[ActivityBucket]) -> list[tuple[ActivityBucket, float, float]]:
    """Return each bucket with the position and width of its slot."""
    width = CHART_WIDTH_UNITS / max(1, len(buckets))
    return [(bucket, round(index * width, 2), round(width, 2)) for index, bucket in enumerate(buckets)]


def _stack_bars(bucket: ActivityBucket, axis_top: int, x: float, slot_width: float) -> list[ChartBar]:
    bars: list[ChartBar] = []
    top = float(CHART_HEIGHT_UNITS)
    # The largest segment comes last: it can give up height to the minimum of the others.
    for kind, count in (
        ("failed", bucket.failed),
        ("turned-away", bucket.rejected),
        ("succeeded", bucket.succeeded),
    ):
        if count:
            height = min(max(count / axis_top * CHART_HEIGHT_UNITS, _MIN_BAR_UNITS), top)
            top -= height
            left, width = round(x + slot_width * _BAR_GAP_RATIO / 2, 2), round(slot_width * (1 - _BAR_GAP_RATIO), 2)
            bars.append(ChartBar(left, round(top, 2), width, round(height, 2), kind))
    return bars


def _build_line(
    kind: str, buckets: Sequence[ActivityBucket], value_of: Callable[[ActivityBucket], float | None], max_value: float
) -> ChartLine:
    segments: list[list[tuple[float, float]]] = [[]]
    for bucket, x, width in _slots(buckets):
        value = value_of(bucket)
        if value is None:
            segments.append([])
        else:
            ratio = value / max_value if max_value else 0.0
            segments[-1].append(
                (
                    round(x + width / 2, 2),
                    round(
                        CHART_HEIGHT_UNITS - _LINE_MARGIN_UNITS - ratio * (CHART_HEIGHT_UNITS - 2 * _LINE_MARGIN_UNITS),
                        2,
                    ),
                )
            )
    lines = [segment for segment in segments if len(segment) > 1]
    return ChartLine(
        kind,
        tuple(" ".join(f"{x},{y}" for x, y in segment) for segment in lines),
        tuple(segment[0] for segment in segments if len(segment) == 1),
    )


def _interval_text(activity: ActivitySummary, bucket: ActivityBucket) -> str:
    interval = activity.span.length / activity.span.parts
    if interval >= timedelta(days=1):
        return f"{bucket.since:%-d %b}"
    return f"{_clock_text(bucket.since)}–{_clock_text(bucket.since + interval)} UTC"


def _clock_text(at: datetime) -> str:
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def _counts_text(bucket: ActivityBucket) -> str:
    texts = [f"{bucket.calls:,} call{'' if bucket.calls == 1 else 's'}"]
    if bucket.failed:
        texts.append(f"{bucket.failed:,} failed")
    if bucket.rejected:
        texts.append(f"{bucket.rejected:,} denied or cancelled")
    return ", ".join(texts)
