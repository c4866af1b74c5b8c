"""One call as a waterfall: what took how long, and when within it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from paddock.ledger.entry import LedgerEntry
from paddock.ledger.text.entry_text import EntrySeverity, entry_sentence, entry_severity, type_label
from paddock.ledger.text.sentence_template import duration_text

SpanKind: TypeAlias = Literal["ran", "waited", "moment"]

_FULL_WIDTH_PERCENT: Final = 100.0  # the whole of it
_MIN_WIDTH_PERCENT: Final = 0.8
_MAX_WAIT_PERCENT: Final = 40.0  # of a wait that would leave nothing to see of all else
_ENDED_BY: Final = {
    "approval.requested": ("approval.answered", "approval.ended", "approval.consumed"),
    "effect.in_doubt": ("effect.resolved",),
    "effect.in_progress": ("effect.resolved", "call.ended"),
}
"""What lasts until something else is recorded of the same call."""


@dataclass(frozen=True, slots=True)
class WaterfallBar:
    """One entry at its place: from where, how wide, both of a hundred."""

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
    """All of them. `shortened`: a wait is drawn shorter than it was, so that the rest can be seen."""

    bars: tuple[WaterfallBar, ...]
    took: str
    shortened: bool


@dataclass(frozen=True, slots=True)
class _Span:
    entry: LedgerEntry
    begin: float  # milliseconds
    end: float
    kind: SpanKind


def build_waterfall(entries: Sequence[LedgerEntry], altered: Collection[str], now: str) -> Waterfall:
    """Entries as bars, the first to begin first; what still lasts goes on until `now`."""
    spans = sorted(_build_spans(entries, _epoch_ms(now)), key=lambda one: (one.begin, -one.end, one.entry.seq))
    if not spans:
        return Waterfall((), "", shortened=False)
    first, last = min(one.begin for one in spans), max(one.end for one in spans)
    place, shortened = _scale(first, last, [one for one in spans if one.kind == "waited"])
    bars = tuple(_build_bar(one, place, one.entry.id in altered) for one in spans)
    return Waterfall(bars, duration_text(last - first) if last > first else "", shortened)


def _build_spans(entries: Sequence[LedgerEntry], now: float) -> Iterable[_Span]:
    for index, entry in enumerate(entries):
        at = _epoch_ms(entry.at)
        took = entry.facts.get("duration_ms")
        if entry.type in _ENDED_BY:
            yield _Span(entry, at, _end_of_wait(entry, entries[index + 1 :]) or max(now, at), "waited")
        elif isinstance(took, (int, float)) and took > 0:
            yield _Span(entry, at - took, at, "ran")
        else:
            yield _Span(entry, at, at, "moment")


def _end_of_wait(entry: LedgerEntry, later: Iterable[LedgerEntry]) -> float | None:
    """When that which lasted was over: the last word on the same request, for several people may have to answer."""
    ends = [
        one
        for one in later
        if one.type in _ENDED_BY[entry.type] and one.facts.get("approval") in (None, entry.facts.get("approval"))
    ]
    said = [one for one in ends if one.type != "approval.consumed"] or ends
    return _epoch_ms(said[-1].at) if said and said[-1].facts.get("state") != "pending" else None


def _scale(first: float, last: float, waits: Sequence[_Span]) -> tuple[Callable[[float], float], bool]:
    """Where a moment is drawn. A wait for a person takes hours, and what it is for takes milliseconds."""
    whole = max(last - first, 1.0)
    long = max(waits, key=lambda one: one.end - one.begin, default=None)
    if long is None or (long.end - long.begin) * _FULL_WIDTH_PERCENT / whole <= _MAX_WAIT_PERCENT:
        return lambda at: (at - first) * _FULL_WIDTH_PERCENT / whole, False
    wait = long.end - long.begin
    per_ms = (_FULL_WIDTH_PERCENT - _MAX_WAIT_PERCENT) / max(whole - wait, 1.0)

    def place(at: float) -> float:
        within = min(max(at - long.begin, 0.0), wait)
        return min((at - first - within) * per_ms + within * _MAX_WAIT_PERCENT / wait, _FULL_WIDTH_PERCENT)

    return place, True


def _build_bar(span: _Span, place: Callable[[float], float], altered: bool) -> WaterfallBar:
    left, right = place(span.begin), place(span.end)
    width = max(right - left, _MIN_WIDTH_PERCENT)
    entry = span.entry
    return WaterfallBar(
        entry,
        entry_sentence(entry),
        type_label(entry.type),
        "bad" if altered else entry_severity(entry),
        altered,
        span.kind,
        round(min(left, _FULL_WIDTH_PERCENT - width), 2),
        round(width, 2),
        duration_text(span.end - span.begin) if span.end > span.begin else "",
    )


def _epoch_ms(text: str) -> float:
    """Milliseconds; 0 of what is no time, which only somebody else can have put there."""
    try:
        return datetime.fromisoformat(text).timestamp() * 1000
    except (ValueError, OverflowError):
        return 0.0
