"""Parses and formats log lines of plugins, for people and programs: records of the SDK, and any other line. Pure.

Control characters are escaped in everything that is shown to people.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Struct

from paddock.core.printable import printable

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_MAX_LINE_CHARS = 4_000
_MAX_JSON_DEPTH = 50  # nesting of a field that is returned as JSON
_MAX_TRACEBACK_LINES = 200  # the last lines of a traceback say most
_STANDARD_FIELDS = ("time", "level", "plugin", "message")


class LogLine(Struct, frozen=True):
    """One log line for people. It has a level if the SDK wrote it; `steps` are the lines of its traceback, if any."""

    at: str
    level: str
    text: str
    steps: tuple[str, ...] = ()


class LogFilter(Struct, frozen=True):
    """Filters lines by text and minimum level. Lines without a level match no level filter."""

    text: str = ""
    level: str = ""

    def matches(self, line: LogLine) -> bool:
        if self.level in LOG_LEVELS and line.level not in LOG_LEVELS[LOG_LEVELS.index(self.level) :]:
            return False
        needle = self.text.casefold()
        return not needle or any(needle in text.casefold() for text in (line.text, *line.steps))


def parse_log_line(entry: Mapping[str, Any]) -> LogLine:
    """Parse a log entry for display."""
    timestamp, line = str(entry.get("at", "")), str(entry.get("line", ""))
    record = _parse_record(line)
    if record is None:
        return LogLine(timestamp, "", printable(line, _MAX_LINE_CHARS))
    first, *steps = _record_lines(record)
    return LogLine(timestamp, record["level"], first, tuple(steps))


def format_for_terminal(line: str) -> list[str]:
    """Format a log line for a terminal: a record of the SDK as readable text, anything else as it is.

    Only the first returned line belongs at the margin: the rest came from the same line and must not look like another.
    """
    record = _parse_record(line)
    if record is None:
        return [printable(line, _MAX_LINE_CHARS)]
    first, *steps = _record_lines(record)
    return [printable(f"{record['level']} {first}", _MAX_LINE_CHARS), *steps]


def _record_lines(record: Mapping[str, Any]) -> list[str]:
    """Format a record without its level: the message with its fields, then its traceback, if any."""
    traceback = record.get("traceback")
    steps = traceback.splitlines() if isinstance(traceback, str) else []
    shown_elsewhere = (*_STANDARD_FIELDS, "traceback") if isinstance(traceback, str) else _STANDARD_FIELDS
    fields = "".join(f" {name}={_format_value(value)}" for name, value in record.items() if name not in shown_elsewhere)
    first = printable(f"{record['message']}{fields}", _MAX_LINE_CHARS)
    return [first, *(printable(step, _MAX_LINE_CHARS) for step in steps[-_MAX_TRACEBACK_LINES:])]


def expand_record(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add level, message and fields to a log entry if its line is a record of the SDK."""
    record = _parse_record(str(entry.get("line", "")))
    if record is None:
        return entry
    fields = {name: value for name, value in record.items() if name not in _STANDARD_FIELDS}
    if not _is_json_writable(fields):
        return entry
    return {**entry, "level": record["level"], "message": record["message"], "fields": fields}


def _is_json_writable(value: Any, depth: int = _MAX_JSON_DEPTH) -> bool:
    """Return whether a value can be encoded as JSON: not too deep, and no NaN or infinity."""
    if isinstance(value, float):
        return math.isfinite(value)
    if not isinstance(value, dict | list):
        return True
    children = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
    return depth > 0 and all(_is_json_writable(child, depth - 1) for child in children)


def _parse_record(line: str) -> dict[str, Any] | None:
    """Parse a record written by the SDK; None if the line is not one."""
    if not line.startswith("{"):
        return None
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_record = isinstance(value.get("message"), str) and value.get("level") in LOG_LEVELS
    return cast("dict[str, Any]", value) if is_record else None


def _format_value(value: Any) -> str:
    if isinstance(value, str) and value and not any(character in value for character in ' "='):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # the parser accepts slightly deeper nesting than the encoder
        return "…"
