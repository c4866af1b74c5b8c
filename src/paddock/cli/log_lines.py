"""The daemon's own log on stderr: one line a message, for people or for machines."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from paddock.cli.outlet import Outlet
from paddock.core.printable import printable

Format = Literal["text", "json"]
LEVELS = ("debug", "info", "warning", "error")
_LONGEST = 2_000


def log_to(outlet: Outlet, form: Format, level: str) -> None:
    """Write messages of this level and above, ours and those of the libraries we use."""
    handler = _ToOutlet(outlet)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel(max(root.level, logging.WARNING))
    # It warns of what anybody may send, a line or two for each: they would fill the log, and nobody could do a thing.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)


def lost_lines(form: Format) -> Callable[[int], str]:
    """What stands in a log for lines that nobody read in time."""
    lines: logging.Formatter = JsonLines() if form == "json" else TextLines()

    def line(count: int) -> str:
        words = f"{count} lines lost here: nobody read them in time"
        record = logging.LogRecord("paddock.log", logging.WARNING, "", 0, words, None, None)
        return lines.format(record)

    return line


class _ToOutlet(logging.Handler):
    def __init__(self, outlet: Outlet) -> None:
        super().__init__()
        self._outlet = outlet

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._outlet.line(self.format(record))
        except Exception:
            self.handleError(record)


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00Z info paddock.http: what happened  key=value`, then the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        message = printable(record.getMessage(), _LONGEST)
        facts = "".join(f"  {name}={printable(str(value))}" for name, value in _facts(record).items())
        line = f"{_at(record)} {record.levelname.lower()} {record.name}: {message}{facts}"
        if not record.exc_info:
            return line
        # What went wrong may hold words of a plugin; a line of it must not look like one of ours.
        trace = self.formatException(record.exc_info).split("\n")
        return "\n".join([line, *(f"  {printable(one, _LONGEST)}" for one in trace)])


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "at": _at(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_facts(record),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    """What a message carries for machines: `extra={"facts": {…}}`."""
    return getattr(record, "facts", {})


def _at(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
