"""Structured log lines on stderr, one JSON object each. Stdout belongs to the protocol."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LEVELS = ("debug", "info", "warning", "error")


class Log:
    """Writes lines at or above a level. Fields that are not JSON are written as text."""

    def __init__(self, plugin: str, level: str = "info") -> None:
        self._plugin = plugin
        self.request_id = ""  # of the current call; added to every line
        self.on_line: Callable[[dict[str, Any]], object] | None = None  # receives the lines instead of stderr, if set
        lowered = level.lower()
        self._threshold = LEVELS.index(lowered if lowered in LEVELS else "info")

    def debug(self, message: str, **fields: Any) -> None:
        self._write("debug", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._write("info", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._write("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._write("error", message, fields)

    def _write(self, level: str, message: str, fields: dict[str, Any]) -> None:
        if LEVELS.index(level) < self._threshold:
            return
        if self.request_id:
            fields.setdefault("request_id", self.request_id)
        record = {**fields, "time": _now(), "level": level, "plugin": self._plugin, "message": message}
        if self.on_line is not None:
            self.on_line(record)
            return
        # A failure to log must not fail the call.
        with suppress(OSError, ValueError):
            # One write per line, so that lines of two threads do not mix.
            sys.stderr.write(json.dumps(record, default=str) + "\n")
            sys.stderr.flush()


def _now() -> str:
    seconds = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"
