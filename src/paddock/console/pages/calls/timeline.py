"""The timeline of a call as drawn on its page: bars over an axis, on which long waits are drawn as breaks. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from paddock.host.explain.call_spans import CallSpanJson
from paddock.ledger.text.sentence_template import duration_text

_FULL_WIDTH_PERCENT: Final = 100.0
_MIN_WIDTH_PERCENT: Final = 0.7
_BREAK_WIDTH_PERCENT: Final = 9.0
_MAX_BREAKS_WIDTH_PERCENT: Final = 45.0
_LONG_GAP_MS: Final = 1_000.0  # a shorter wait is drawn to scale
_TICKS: Final = 5  # about so many


class TimelineBar(Struct, frozen=True):
    """One span as a bar; `left` and `width` are percentages."""

    span: CallSpanJson
    left: float
    width: float
    took: str


class AxisMark(Struct, frozen=True):
    """A tick of the axis with its label, or a break that stands for a long wait."""

    left: float
    label: str
    width: float = 0.0
    anchor: str = "middle"  # how the label is aligned


class Timeline(Struct, frozen=True):
    """The bars, the axis, and the time from the first moment to the last."""

    bars: tuple[TimelineBar, ...]
    ticks: tuple[AxisMark, ...]
    breaks: tuple[AxisMark, ...]
    took: str


class _Segment(Struct, frozen=True):
    """A part of the axis: linear, or a break."""

    begin: float
    end: float
    left: float
    width: float
    is_break: bool


def draw_timeline(spans: Sequence[CallSpanJson]) -> Timeline:
    """Draw the spans. Waits that are much longer than all the work are broken, so that the work stays visible."""
    if not spans:
        return Timeline((), (), (), "")
    segments = _segments(spans)
    bars = tuple(_bar(span, segments) for span in spans)
    breaks = tuple(
        AxisMark(round(one.left, 2), duration_text(one.end - one.begin), round(one.width, 2))
        for one in segments
        if one.is_break
    )
    total = segments[-1].end
    return Timeline(bars, tuple(_ticks(segments)), breaks, duration_text(total) if total > 0 else "")


def _segments(spans: Sequence[CallSpanJson]) -> list[_Segment]:
    moments = sorted({0.0, *(span["start_ms"] for span in spans), *(span["end_ms"] for span in spans)})
    if len(moments) == 1:
        return [_Segment(0.0, 0.0, 0.0, _FULL_WIDTH_PERCENT, is_break=False)]
    gaps = list(pairwise(moments))
    worked = [
        any(span["kind"] == "ran" and span["start_ms"] < end and span["end_ms"] > begin for span in spans)
        for begin, end in gaps
    ]
    work_ms = sum(end - begin for (begin, end), works in zip(gaps, worked, strict=True) if works)
    broken = [
        not works and end - begin > max(_LONG_GAP_MS, work_ms) for (begin, end), works in zip(gaps, worked, strict=True)
    ]
    if all(broken):
        broken = [False] * len(broken)
    break_width = min(_BREAK_WIDTH_PERCENT, _MAX_BREAKS_WIDTH_PERCENT / max(1, sum(broken)))
    linear_ms = sum(end - begin for (begin, end), breaks in zip(gaps, broken, strict=True) if not breaks)
    per_ms = (_FULL_WIDTH_PERCENT - break_width * sum(broken)) / linear_ms
    segments: list[_Segment] = []
    left = 0.0
    for (begin, end), is_break in zip(gaps, broken, strict=True):
        width = break_width if is_break else (end - begin) * per_ms
        if segments and not is_break and not segments[-1].is_break:
            last = segments.pop()
            segments.append(_Segment(last.begin, end, last.left, last.width + width, is_break=False))
        else:
            segments.append(_Segment(begin, end, left, width, is_break))
        left += width
    return segments


def _position(at: float, segments: Sequence[_Segment]) -> float:
    for one in segments:
        if at <= one.end:
            share = (at - one.begin) / (one.end - one.begin) if one.end > one.begin else 0.0
            return one.left + share * one.width
    return _FULL_WIDTH_PERCENT


def _bar(span: CallSpanJson, segments: Sequence[_Segment]) -> TimelineBar:
    left, right = _position(span["start_ms"], segments), _position(span["end_ms"], segments)
    width = min(max(right - left, _MIN_WIDTH_PERCENT), _FULL_WIDTH_PERCENT)
    took_ms = span["end_ms"] - span["start_ms"]
    return TimelineBar(
        span,
        round(min(left, _FULL_WIDTH_PERCENT - width), 2),
        round(width, 2),
        duration_text(took_ms) if took_ms > 0 else "",
    )


def _ticks(segments: Sequence[_Segment]) -> list[AxisMark]:
    """Return ticks at round distances within each linear part, and where a part begins after a break."""
    linear = [one for one in segments if not one.is_break and one.end > one.begin]
    if not linear:
        return [AxisMark(0.0, "0 s", anchor="start")]
    step = _round_step(sum(one.end - one.begin for one in linear) / _TICKS)
    ticks: list[AxisMark] = []
    for one in linear:
        count = int((one.end - one.begin) / step)
        for number in range(count + 1):
            at = one.begin + number * step
            left = _position_within(at, one)
            if ticks and left - ticks[-1].left < _FULL_WIDTH_PERCENT / _TICKS / 2:
                continue
            anchor = "start" if left < 4 else "end" if left > 92 else "middle"
            # After a break the first tick says when, and the others how much later.
            label = f"+{duration_text(at - one.begin)}" if one.begin and number else duration_text(at) if at else "0"
            ticks.append(AxisMark(round(left, 2), label, anchor=anchor))
    return ticks


def _position_within(at: float, segment: _Segment) -> float:
    return segment.left + (at - segment.begin) / (segment.end - segment.begin) * segment.width


def _round_step(rough_ms: float) -> float:
    """Return the next step of 1, 2 or 5 times a power of ten; of minutes and hours 1, 5, 10, 30."""
    for seconds in (60, 300, 600, 1_800, 3_600, 21_600, 86_400):
        if rough_ms > 30_000 and rough_ms <= seconds * 1_000:
            return seconds * 1_000.0
    if rough_ms > 86_400_000:
        return math.ceil(rough_ms / 86_400_000) * 86_400_000.0
    power = 10 ** math.floor(math.log10(max(rough_ms, 0.001)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough_ms * 0.999)
