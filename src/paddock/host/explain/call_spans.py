"""What took how long in a call, from its ledger entries: what ran, what waited and why, and single moments. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias, TypedDict

from msgspec import Struct

from paddock.core.schema_annotations import DateTime
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.text.entry_text import EntrySeverity, entry_sentence, entry_severity, type_label

SpanKind: TypeAlias = Literal["ran", "waited", "moment"]

_ENDED_BY: Final = {
    "approval.requested": ("approval.answered", "approval.ended", "approval.consumed"),
    "effect.in_doubt": ("effect.resolved",),
    "effect.in_progress": ("effect.resolved", "call.ended"),
}
"""Entries that last until one of these is recorded for the same call."""

_WAITED_FOR: Final = {
    "approval.requested": "for a person",
    "effect.in_doubt": "for the outcome to be known",
    "effect.in_progress": "for work elsewhere",
}
_MIN_QUEUE_MS: Final = 20.0  # less is no wait


class CallSpanJson(TypedDict):
    """One part of a call."""

    kind: Annotated[SpanKind, "`ran`: the plugin worked; `waited`; `moment`: it took no time."]
    at: DateTime
    start_ms: Annotated[float, "Since the first moment of the call."]
    end_ms: float
    label: str
    text: str
    waited_for: Annotated[str | None, "What was waited for."]
    severity: EntrySeverity
    entry: Annotated[str | None, "The ledger entry that records it."]
    altered: Annotated[bool, "Whether that entry was altered after it was written."]


class CallSpan(Struct, frozen=True):
    """One part of a call; times are milliseconds since the epoch."""

    kind: SpanKind
    begin: float
    end: float
    label: str
    text: str
    severity: EntrySeverity
    waited_for: str | None = None
    entry: LedgerEntry | None = None
    altered: bool = False

    def to_json(self, first: float) -> CallSpanJson:
        """Serialize the span, with times since the first moment of the call."""
        return {
            "kind": self.kind,
            "at": datetime.fromtimestamp(self.begin / 1000).astimezone().isoformat()
            if self.entry is None
            else self.entry.at,
            "start_ms": round(self.begin - first, 3),
            "end_ms": round(self.end - first, 3),
            "label": self.label,
            "text": self.text,
            "waited_for": self.waited_for,
            "severity": self.severity,
            "entry": None if self.entry is None else self.entry.id,
            "altered": self.altered,
        }


def build_spans(
    entries: Sequence[LedgerEntry],
    altered: Collection[str],
    names: Mapping[str, str],
    now: str,
    *,
    accepted_at: str | None = None,
    running: bool = False,
) -> list[CallSpan]:
    """Build the spans of a call, in the order of their start; open waits last until `now`.

    Args:
        entries: Its entries, and those of its request.
        altered: The ids of entries that were altered.
        names: What people and API keys are called.
        now: The time.
        accepted_at: When the host accepted the call, if this host did and still knows.
        running: Whether the plugin works on it now.
    """
    now_ms = _epoch_ms(now)
    spans = list(_entry_spans(entries, altered, names, now_ms))
    accepted_ms = now_ms if accepted_at is None else _epoch_ms(accepted_at)
    if running and not any(span.kind == "waited" and span.end >= now_ms for span in spans):
        begin = max([accepted_ms, *(span.end for span in spans)])
        spans.append(CallSpan("ran", begin, max(now_ms, begin), "Running", "It runs now", "busy"))
    first = min((span.begin for span in spans), default=now_ms)
    if first - accepted_ms >= _MIN_QUEUE_MS:
        spans.append(CallSpan("waited", accepted_ms, first, "Queued", "It waited for its turn", "calm", "in the queue"))
    return sorted(spans, key=lambda span: (span.begin, -span.end, span.entry.seq if span.entry else 0))


def _entry_spans(
    entries: Sequence[LedgerEntry], altered: Collection[str], names: Mapping[str, str], now_ms: float
) -> Iterable[CallSpan]:
    for index, entry in enumerate(entries):
        at = _epoch_ms(entry.at)
        begin, end, kind, waited_for = at, at, "moment", None
        duration_ms = entry.facts.get("duration_ms")
        if entry.type in _ENDED_BY:
            kind, waited_for = "waited", _WAITED_FOR[entry.type]
            end = _end_of_wait(entry, entries[index + 1 :]) or max(now_ms, at)
        elif entry.facts.get("status") != "pending_approval" and (
            isinstance(duration_ms, (int, float)) and duration_ms > 0
        ):
            kind, begin = "ran", at - duration_ms
        is_altered = entry.id in altered
        yield CallSpan(
            kind,
            begin,
            end,
            type_label(entry.type),
            entry_sentence(entry, names, short_names=True),
            "bad" if is_altered else entry_severity(entry),
            waited_for,
            entry,
            is_altered,
        )


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


def _epoch_ms(text: str) -> float:
    """Return a time in milliseconds; 0 if it is malformed, which only tampering can cause."""
    try:
        return datetime.fromisoformat(text).timestamp() * 1000
    except (ValueError, OverflowError):
        return 0.0
