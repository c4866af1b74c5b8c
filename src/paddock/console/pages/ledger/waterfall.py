"""The waterfall chart of one call: what took how long, and when. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from paddock.ledger.entry import LedgerEntry
from paddock.ledger.text.entry_text import EntrySeverity, entry_sentence, entry_severity, type_label
from paddock.ledger.text.sentence_template import duration_text

SpanKind: TypeAlias = Literal["ran", "waited", "moment"]

_FULL_WIDTH_PERCENT: Final = 100.0
_MIN_WIDTH_PERCENT: Final = 0.8
_MAX_WAIT_PERCENT: Final = 40.0  # long waits are shortened, so that the rest stays visible
_ENDED_BY: Final = {
    "approval.requested": ("approval.answered", "approval.ended", "approval.consumed"),
    "effect.in_doubt": ("effect.resolved",),
    "effect.in_progress": ("effect.resolved", "call.ended"),
}
"""Entries that last until one of these is recorded for the same call."""


@dataclass(frozen=True, slots=True)
class WaterfallBar:
    """One entry as a bar; `left` and `width` are percentages."""

    entry: LedgerEntry
    sentence: str
    label: str
    mood: EntrySeverity
    altered: bool
    kind: SpanKind
    left: float
    width: float
    took: str


@dataclass(frozen=True, slots=True)
class Waterfall:
    """All bars. `shortened`: a wait is drawn shorter than it was, so that the rest is visible."""

    bars: tuple[WaterfallBar, ...]
    took: str
    shortened: bool


@dataclass(frozen=True, slots=True)
class _Span:
    entry: LedgerEntry
    begin: float  # milliseconds
    end: float
    kind: SpanKind


def build_waterfall(
    entries: Sequence[LedgerEntry], altered: Collection[str], now: str, labels: Mapping[str, str]
) -> Waterfall:
    """Build the bars of a call's entries, in order of their start; open waits last until `now`.

    `labels` are those of API keys.
    """
    spans = sorted(_build_spans(entries, _epoch_ms(now)), key=lambda span: (span.begin, -span.end, span.entry.seq))
    if not spans:
        return Waterfall((), "", shortened=False)
    first, last = min(span.begin for span in spans), max(span.end for span in spans)
    position, shortened = _scale(first, last, [span for span in spans if span.kind == "waited"])
    bars = tuple(_build_bar(span, position, span.entry.id in altered, labels) for span in spans)
    return Waterfall(bars, duration_text(last - first) if last > first else "", shortened)


def _build_spans(entries: Sequence[LedgerEntry], now: float) -> Iterable[_Span]:
    for index, entry in enumerate(entries):
        ended_at = _epoch_ms(entry.at)
        duration_ms = entry.facts.get("duration_ms")
        if entry.type in _ENDED_BY:
            yield _Span(entry, ended_at, _end_of_wait(entry, entries[index + 1 :]) or max(now, ended_at), "waited")
        elif isinstance(duration_ms, (int, float)) and duration_ms > 0:
            yield _Span(entry, ended_at - duration_ms, ended_at, "ran")
        else:
            yield _Span(entry, ended_at, ended_at, "moment")


def _end_of_wait(entry: LedgerEntry, later: Iterable[LedgerEntry]) -> float | None:
    """Return when a wait ended: at the last answer to the same request, since several people may have to answer."""
    ends = [
        candidate
        for candidate in later
        if candidate.type in _ENDED_BY[entry.type]
        and candidate.facts.get("approval") in (None, entry.facts.get("approval"))
    ]
    answers = [candidate for candidate in ends if candidate.type != "approval.consumed"] or ends
    return _epoch_ms(answers[-1].at) if answers and answers[-1].facts.get("state") != "pending" else None


def _scale(first: float, last: float, waits: Sequence[_Span]) -> tuple[Callable[[float], float], bool]:
    """Return the mapping from time to position. A wait for a person takes hours, what it is for takes milliseconds."""
    total_ms = max(last - first, 1.0)
    longest = max(waits, key=lambda span: span.end - span.begin, default=None)
    if longest is None or (longest.end - longest.begin) * _FULL_WIDTH_PERCENT / total_ms <= _MAX_WAIT_PERCENT:
        return lambda time_ms: (time_ms - first) * _FULL_WIDTH_PERCENT / total_ms, False
    wait_ms = longest.end - longest.begin
    per_ms = (_FULL_WIDTH_PERCENT - _MAX_WAIT_PERCENT) / max(total_ms - wait_ms, 1.0)

    def position(at: float) -> float:
        within = min(max(at - longest.begin, 0.0), wait_ms)
        return min((at - first - within) * per_ms + within * _MAX_WAIT_PERCENT / wait_ms, _FULL_WIDTH_PERCENT)

    return position, True


def _build_bar(
    span: _Span, position: Callable[[float], float], altered: bool, labels: Mapping[str, str]
) -> WaterfallBar:
    left, right = position(span.begin), position(span.end)
    width = max(right - left, _MIN_WIDTH_PERCENT)
    entry = span.entry
    return WaterfallBar(
        entry,
        entry_sentence(entry, labels),
        type_label(entry.type),
        "bad" if altered else entry_severity(entry),
        altered,
        span.kind,
        round(min(left, _FULL_WIDTH_PERCENT - width), 2),
        round(width, 2),
        duration_text(span.end - span.begin) if span.end > span.begin else "",
    )


def _epoch_ms(text: str) -> float:
    """Return a time in milliseconds; 0 if it is malformed, which only tampering can cause."""
    try:
        return datetime.fromisoformat(text).timestamp() * 1000
    except (ValueError, OverflowError):
        return 0.0
