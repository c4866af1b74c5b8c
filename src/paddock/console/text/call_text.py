"""Calls in words: status, progress, events and previews of results. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

_MAX_TEXT_CHARS: Final = 4_000  # of a text that is shown in full
_MAX_EVENT_CHARS: Final = 400
_MAX_ROWS: Final = 24
_OUTCOME_TEXTS: Final = {
    "succeeded": "Succeeded",
    "running": "Running",
    "started": "Started, and no end is recorded",
    "in_progress": "In progress elsewhere",
    "pending_approval": "Waiting for approval",
    "failed": "Failed",
    "denied": "Denied",
    "refused": "Refused",
    "timed_out": "Timed out",
    "in_doubt": "Outcome unknown",
    "cancelled": "Cancelled",
    "expired": "Not answered in time",
    "voided": "The request became void",
    "withdrawn": "Withdrawn",
}
_OUTCOME_TEXTS_BY_CODE: Final = {
    "approval.denied": "Denied by a person",
    "invalid_params": "Refused: invalid inputs",
    "tool.quarantined": "Blocked: tool definition changed",
}
_OUTCOME_SEVERITIES: Final = {
    "succeeded": "good",
    "running": "busy",
    "started": "busy",
    "in_progress": "busy",
    "pending_approval": "busy",
    "cancelled": "calm",
    "withdrawn": "calm",
}
_ORIGIN_TEXTS: Final = {
    "cli": "from the command line",
    "http": "over HTTP",
    "mcp": "from an MCP client",
    "console": "from the console",
}


class ProgressText(Struct, frozen=True):
    """The progress of a call; `total` is None if the plugin does not report it."""

    done: float
    total: float | None
    message: str

    @property
    def share(self) -> str:
        """The progress as text: `3 of 10`, or the amount so far."""
        return f"{self.done:,g}" if self.total is None else f"{self.done:,g} of {self.total:,g}"


class ResultPreview(Struct, frozen=True):
    """A readable form of a result: one text, or a few names with values."""

    text: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    whole: bool = True  # whether it shows the complete result


def call_status_text(status: str, code: str = "") -> str:
    """Describe the status of a call; an error `code` may mean that it was never made."""
    return "Denied" if status == "failed" and code == "policy_denied" else outcome_text(status, code)


def outcome_text(outcome: str, code: str | None = "") -> str:
    """Describe the exact outcome of a call; some error codes say more."""
    return _OUTCOME_TEXTS_BY_CODE.get(code or "") or _OUTCOME_TEXTS.get(outcome, outcome.replace("_", " ").capitalize())


def outcome_severity(outcome: str) -> str:
    """Return the severity class of an outcome."""
    return _OUTCOME_SEVERITIES.get(outcome, "bad")


def origin_text(origin: str | None) -> str:
    """Describe where a call was made; empty if that is not known."""
    kind, _, name = (origin or "").partition(":")
    text = _ORIGIN_TEXTS.get(kind, "")
    return f"{text} ({name})" if text and name else text


def latest_progress(events: Sequence[Mapping[str, Any]]) -> ProgressText | None:
    """Return the progress of the last event that reports it. Plugins send anything: only finite numbers count."""
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
    """Describe an event in one line."""
    event_type = event.get("type")
    if event_type == "progress":
        done, total = _finite_number(event.get("progress")), _finite_number(event.get("total"))
        count = "" if done is None else f"{done:,g}" if total is None else f"{done:,g}/{total:,g}"
        return " ".join(filter(None, (count, _truncate(event.get("message") or ""))))
    if event_type == "approval":
        return "A person is asked first"
    if event_type == "answered":
        return "The question was answered"
    if "message" in event:
        return _truncate(event["message"])
    return _truncate(event.get("data", event))


def drop_repeats(lines: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Drop empty lines and repetitions of the line before."""
    distinct: list[tuple[int, str]] = []
    for number, line in lines:
        if line and (not distinct or distinct[-1][1] != line):
            distinct.append((number, line))
    return distinct


def preview_result(result: Any) -> ResultPreview | None:
    """Return a preview of a result that is readable without JSON; None if it is not."""
    if (scalar := _scalar_text(result)) is not None:
        return ResultPreview(scalar)
    if isinstance(result, dict):
        return _preview_object(cast("dict[str, Any]", result))
    if isinstance(result, list):
        return _preview_list(cast("list[Any]", result))
    return None


def _preview_object(result: dict[str, Any]) -> ResultPreview | None:
    content = result.get("content")
    if isinstance(content, list) and all(_is_text_block(block) for block in cast("list[Any]", content)) and content:
        # Content blocks of an MCP server.
        text = "\n\n".join(str(block["text"]) for block in cast("list[dict[str, Any]]", content))
        return ResultPreview(text, whole=False) if len(text) <= _MAX_TEXT_CHARS else None
    rows = [
        (str(name), text_value) for name, value in result.items() if (text_value := _scalar_text(value)) is not None
    ]
    if not rows or len(result) > _MAX_ROWS:
        return None
    return ResultPreview(rows=tuple(rows), whole=len(rows) == len(result))


def _preview_list(result: list[Any]) -> ResultPreview | None:
    texts = [text_value for item in result if (text_value := _scalar_text(item)) is not None]
    if not texts or len(texts) < len(result) or len(texts) > _MAX_ROWS:
        return None
    return ResultPreview(rows=tuple((str(index), text) for index, text in enumerate(texts, 1)))


def _is_text_block(block: Any) -> bool:
    return isinstance(block, dict) and "text" in block and isinstance(cast("dict[str, Any]", block)["text"], str)


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
