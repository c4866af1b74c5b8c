"""What plugins write to their logs, as people and machines read it: the records of the SDK, and any other line. Pure.

Whatever would steer a terminal is written out in what is told to people.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from paddock.core.printable import printable

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_MAX_LINE_CHARS = 4_000
_MAX_JSON_DEPTH = 50  # levels of a field that is told to machines
_MAX_TRACEBACK_LINES = 200  # of a traceback; the last say most
_STANDARD_FIELDS = ("time", "level", "plugin", "message")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line for people. It has a level where the SDK wrote it; `steps` are of a traceback that came with it."""

    at: str
    level: str
    text: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which lines: those that hold a text, and those of a level or a worse one. Lines without a level have none."""

    text: str = ""
    level: str = ""

    def matches(self, line: LogLine) -> bool:
        if self.level in LOG_LEVELS and line.level not in LOG_LEVELS[LOG_LEVELS.index(self.level) :]:
            return False
        wanted = self.text.casefold()
        return not wanted or any(wanted in one.casefold() for one in (line.text, *line.steps))


def parse_log_line(entry: Mapping[str, Any]) -> LogLine:
    """A line as the log keeps it, for people."""
    at, line = str(entry.get("at", "")), str(entry.get("line", ""))
    record = _parse_record(line)
    if record is None:
        return LogLine(at, "", printable(line, _MAX_LINE_CHARS))
    first, *steps = _record_lines(record)
    return LogLine(at, record["level"], first, tuple(steps))


def format_for_terminal(line: str) -> list[str]:
    """What a plugin wrote, as lines that a terminal may show: a record of the SDK in words, anything else as it is.

    Only the first belongs at the margin: what follows it came out of the same line, and must not look like another.
    """
    record = _parse_record(line)
    if record is None:
        return [printable(line, _MAX_LINE_CHARS)]
    first, *steps = _record_lines(record)
    return [printable(f"{record['level']} {first}", _MAX_LINE_CHARS), *steps]


def _record_lines(record: Mapping[str, Any]) -> list[str]:
    """A record without its level: what it says, and a traceback that came with it."""
    traceback = record.get("traceback")
    steps = traceback.splitlines() if isinstance(traceback, str) else []
    apart = (*_STANDARD_FIELDS, "traceback") if isinstance(traceback, str) else _STANDARD_FIELDS
    fields = "".join(f" {name}={_format_value(value)}" for name, value in record.items() if name not in apart)
    first = printable(f"{record['message']}{fields}", _MAX_LINE_CHARS)
    return [first, *(printable(step, _MAX_LINE_CHARS) for step in steps[-_MAX_TRACEBACK_LINES:])]


def expand_record(entry: dict[str, Any]) -> dict[str, Any]:
    """A line of the log with its level, message and fields beside it, where it is a record of the SDK."""
    record = _parse_record(str(entry.get("line", "")))
    if record is None:
        return entry
    fields = {name: value for name, value in record.items() if name not in _STANDARD_FIELDS}
    if not _is_json_writable(fields):
        return entry
    return {**entry, "level": record["level"], "message": record["message"], "fields": fields}


def _is_json_writable(value: Any, depth: int = _MAX_JSON_DEPTH) -> bool:
    """Whether it can be written as JSON again: not too deep, and no number that JSON lacks."""
    if isinstance(value, float):
        return math.isfinite(value)
    if not isinstance(value, dict | list):
        return True
    inner = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
    return depth > 0 and all(_is_json_writable(one, depth - 1) for one in inner)


def _parse_record(line: str) -> dict[str, Any] | None:
    """The record that the SDK wrote, if it is one."""
    if not line.startswith("{"):
        return None
    try:
        read: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    known = isinstance(read.get("message"), str) and read.get("level") in LOG_LEVELS
    return cast("dict[str, Any]", read) if known else None


def _format_value(value: Any) -> str:
    if isinstance(value, str) and value and not any(mark in value for mark in ' "='):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # reading stops a little deeper than writing
        return "…"
