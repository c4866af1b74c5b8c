"""The daemon's own log on stderr: one line a message, for people or for machines."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from paddock.core.printable import printable
from paddock.daemon.nonblocking_writer import NonblockingWriter

LogFormat = Literal["text", "json"]
LOG_LEVELS = ("debug", "info", "warning", "error")
_MAX_VALUE_CHARS = 2_000


def configure_logging(outlet: NonblockingWriter, form: LogFormat, level: str) -> None:
    """Write messages of this level and above, ours and those of the libraries we use."""
    handler = _NonblockingLogHandler(outlet)
    handler.setFormatter(JsonLogFormatter() if form == "json" else TextLogFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel(max(root.level, logging.WARNING))
    # It warns of what anybody may send, a line or two for each: they would fill the log, and nobody could do a thing.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)


def dropped_lines_message(form: LogFormat) -> Callable[[int], str]:
    """What stands in a log for lines that nobody read in time."""
    lines: logging.Formatter = JsonLogFormatter() if form == "json" else TextLogFormatter()

    def line(count: int) -> str:
        words = f"{count} lines lost here: nobody read them in time"
        record = logging.LogRecord("paddock.log", logging.WARNING, "", 0, words, None, None)
        return lines.format(record)

    return line


class _NonblockingLogHandler(logging.Handler):
    def __init__(self, outlet: NonblockingWriter) -> None:
        super().__init__()
        self._writer = outlet

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.write_line(self.format(record))
        except Exception:
            self.handleError(record)


class TextLogFormatter(logging.Formatter):
    """`2026-01-31T12:00:00Z info paddock.web: what happened  key=value`, then the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        message = printable(record.getMessage(), _MAX_VALUE_CHARS)
        facts = "".join(f"  {name}={printable(str(value))}" for name, value in _record_facts(record).items())
        line = f"{_record_time(record)} {record.levelname.lower()} {record.name}: {message}{facts}"
        if not record.exc_info:
            return line
        # What went wrong may hold words of a plugin; a line of it must not look like one of ours.
        trace = self.formatException(record.exc_info).split("\n")
        return "\n".join([line, *(f"  {printable(one, _MAX_VALUE_CHARS)}" for one in trace)])


class JsonLogFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "at": _record_time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_record_facts(record),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def _record_facts(record: logging.LogRecord) -> dict[str, Any]:
    """What a message carries for machines: `extra={"facts": {…}}`."""
    return getattr(record, "facts", {})


def _record_time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
