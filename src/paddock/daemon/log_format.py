"""The daemon's log on stderr: one line per message, as text or JSON."""

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


def configure_logging(writer: NonblockingWriter, log_format: LogFormat, level: str) -> None:
    """Send log messages of this level and above, ours and those of libraries, to a writer."""
    handler = _NonblockingLogHandler(writer)
    handler.setFormatter(JsonLogFormatter() if log_format == "json" else TextLogFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel(max(root.level, logging.WARNING))
    # uvicorn warns of any malformed input, one or two lines each; clients could flood the log with nothing to act on.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)


def dropped_lines_message(log_format: LogFormat) -> Callable[[int], str]:
    """Return a function that formats the log line which replaces dropped lines."""
    formatter: logging.Formatter = JsonLogFormatter() if log_format == "json" else TextLogFormatter()

    def format_line(count: int) -> str:
        message = f"{count} lines lost here: they were not read in time"
        record = logging.LogRecord("paddock.log", logging.WARNING, "", 0, message, None, None)
        return formatter.format(record)

    return format_line


class _NonblockingLogHandler(logging.Handler):
    def __init__(self, writer: NonblockingWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.write_line(self.format(record))
        except Exception:
            self.handleError(record)


class TextLogFormatter(logging.Formatter):
    """`2026-01-31T12:00:00Z info paddock.web: message  key=value`, followed by the traceback, if any."""

    def format(self, record: logging.LogRecord) -> str:
        message = printable(record.getMessage(), _MAX_VALUE_CHARS)
        facts = "".join(f"  {name}={printable(str(value))}" for name, value in _record_facts(record).items())
        line = f"{_record_time(record)} {record.levelname.lower()} {record.name}: {message}{facts}"
        if not record.exc_info:
            return line
        # Exceptions may contain text of a plugin; its lines are indented so that they cannot imitate our log lines.
        trace = self.formatException(record.exc_info).split("\n")
        return "\n".join([line, *(f"  {printable(trace_line, _MAX_VALUE_CHARS)}" for trace_line in trace)])


class JsonLogFormatter(logging.Formatter):
    """One JSON object per line."""

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
    """Return the structured fields of a record: `extra={"facts": {…}}`."""
    return getattr(record, "facts", {})


def _record_time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
