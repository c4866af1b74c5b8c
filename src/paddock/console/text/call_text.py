"""A call for people: how far it is, what it told last, and what it gave, at a glance. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

_MAX_TEXT_CHARS: Final = 4_000  # characters of one text that is shown as such
_MAX_EVENT_CHARS: Final = 400
_MAX_ROWS: Final = 24
_STATUS_TEXTS: Final = {
    "succeeded": "It worked",
    "running": "Running",
    "in_progress": "Still at work elsewhere",
    "pending_approval": "Waiting for approval",
    "failed": "It failed",
    "in_doubt": "Nobody knows whether it happened",
    "cancelled": "It was cancelled",
}
_REJECTED_TEXTS: Final = {
    "policy_denied": "It was denied",
    "approval.denied": "A person denied it",
    "invalid_params": "Its parameters were wrong",
    "tool.quarantined": "Held back until somebody accepts it",
}


@dataclass(frozen=True, slots=True)
class ProgressText:
    """How far a call is; `total` is None where its plugin does not say of how much."""

    done: float
    total: float | None
    message: str

    @property
    def share(self) -> str:
        """`3 of 10`, or how much there is so far."""
        return f"{self.done:,g}" if self.total is None else f"{self.done:,g} of {self.total:,g}"


@dataclass(frozen=True, slots=True)
class ResultPreview:
    """A result as people read it: one text, or a few names with their values."""

    text: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    whole: bool = True  # whether nothing of the result is left out


def call_status_text(status: str, code: str = "") -> str:
    """What became of a call, or is becoming of it; one with a `code` of an error may not have been made at all."""
    if status == "failed" and code in _REJECTED_TEXTS:
        return _REJECTED_TEXTS[code]
    return _STATUS_TEXTS.get(status, status.replace("_", " ").capitalize())


def latest_progress(events: Sequence[Mapping[str, Any]]) -> ProgressText | None:
    """How far a call is by the last event that tells; whatever a plugin wrote there, it is a number or nothing."""
    for event in reversed(events):
        if event.get("type") == "progress":
            done, total = _finite_number(event.get("progress")), _finite_number(event.get("total"))
            if done is None:
                return None
            if total is not None and total <= 0:
                total = None
            message = event.get("message")
            return ProgressText(
                done if total is None else min(done, total), total, _truncate(message) if message else ""
            )
    return None


def event_text(event: Mapping[str, Any]) -> str:
    """One line for something that was told."""
    kind = event.get("type")
    if kind == "progress":
        done, total = _finite_number(event.get("progress")), _finite_number(event.get("total"))
        count = "" if done is None else f"{done:,g}" if total is None else f"{done:,g}/{total:,g}"
        return " ".join(filter(None, (count, _truncate(event.get("message") or ""))))
    if kind == "approval":
        return "A person is asked first"
    if kind == "answered":
        return "The question was answered"
    if "message" in event:
        return _truncate(event["message"])
    return _truncate(event.get("data", event))


def drop_repeats(lines: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Numbered lines without those that say what the one before them says; and without empty ones."""
    kept: list[tuple[int, str]] = []
    for number, line in lines:
        if line and (not kept or kept[-1][1] != line):
            kept.append((number, line))
    return kept


def preview_result(result: Any) -> ResultPreview | None:
    """A result that can be read without its JSON; None where it cannot."""
    if (scalar := _scalar_text(result)) is not None:
        return ResultPreview(scalar)
    if isinstance(result, dict):
        return _preview_object(cast("dict[str, Any]", result))
    if isinstance(result, list):
        return _preview_list(cast("list[Any]", result))
    return None


def _preview_object(result: dict[str, Any]) -> ResultPreview | None:
    content = result.get("content")
    if isinstance(content, list) and all(_is_text_block(one) for one in cast("list[Any]", content)) and content:
        # As MCP servers answer.
        text = "\n\n".join(str(one["text"]) for one in cast("list[dict[str, Any]]", content))
        return ResultPreview(text, whole=False) if len(text) <= _MAX_TEXT_CHARS else None
    rows = [(str(name), shown) for name, value in result.items() if (shown := _scalar_text(value)) is not None]
    if not rows or len(result) > _MAX_ROWS:
        return None
    return ResultPreview(rows=tuple(rows), whole=len(rows) == len(result))


def _preview_list(result: list[Any]) -> ResultPreview | None:
    texts = [shown for one in result if (shown := _scalar_text(one)) is not None]
    if not texts or len(texts) < len(result) or len(texts) > _MAX_ROWS:
        return None
    return ResultPreview(rows=tuple((str(number), text) for number, text in enumerate(texts, 1)))


def _is_text_block(one: Any) -> bool:
    return isinstance(one, dict) and "text" in one and isinstance(cast("dict[str, Any]", one)["text"], str)


def _scalar_text(value: Any) -> str | None:
    match value:
        case bool():
            return "Yes" if value else "No"
        case int() | float():
            return f"{value:,}" if isinstance(value, int) and abs(value) < 10**15 else str(value)
        case str() if len(value) <= _MAX_TEXT_CHARS:
            return value or "(empty)"
        case None:
            return "(nothing)"
        case _:
            return None


def _finite_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or abs(value) > 1e15:
        return None
    return max(0.0, value)


def _truncate(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_EVENT_CHARS else text[: _MAX_EVENT_CHARS - 1] + "…"
