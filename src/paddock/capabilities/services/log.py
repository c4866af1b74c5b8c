"""The log service: a plugin's log lines, sanitized and rate limited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from paddock.capabilities.dispatcher import ServiceHandler
from paddock.capabilities.params import encode_json_param, invalid_param
from paddock.capabilities.request import CapabilityRequest
from paddock.core.clock import Clock
from paddock.core.errors import CallerError
from paddock.core.printable import printable
from paddock.core.rate import RateWindow

LEVELS = ("debug", "info", "warning", "error")
MAX_MESSAGE_CHARS = 8_192
MAX_FIELDS = 32
MAX_FIELD_CHARS = 1_024
MAX_LINES_PER_S = 200

LogSink: TypeAlias = Callable[[CapabilityRequest, str, str, Mapping[str, str]], None]


class LogService:
    """Passes log lines to a sink.

    Args:
        sink: Receives the request, the level, the message and the fields. Called on the event loop; must not wait.
        clock: Measures the rate.
    """

    def __init__(self, sink: LogSink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._windows: dict[tuple[str, str], RateWindow] = {}

    def handlers(self) -> dict[str, ServiceHandler]:
        return {"log.write": self.write}

    async def write(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, bool]:
        """Write one line and return whether it was accepted; lines over `MAX_LINES_PER_S` are dropped.

        Raises:
            CallerError: the level is unknown, or the message is not text.
        """
        level = params.get("level", "info")
        if level not in LEVELS:
            raise invalid_param("level", "is unknown", f"use one of {', '.join(LEVELS)}")
        message = params.get("message")
        if not isinstance(message, str):
            raise invalid_param("message", "must be text")
        fields: Any = params.get("fields") or {}
        if not isinstance(fields, dict):
            raise invalid_param("fields", "must be an object")
        if not self._within_rate(request):
            return {"written": False}
        self._sink(
            request, level, printable(message, MAX_MESSAGE_CHARS), _printable_fields(cast("dict[Any, Any]", fields))
        )
        return {"written": True}

    def _within_rate(self, request: CapabilityRequest) -> bool:
        window = self._windows.setdefault((request.tenant, request.plugin), RateWindow(MAX_LINES_PER_S))
        return window.take(self._clock.monotonic())


def _printable_fields(fields: dict[Any, Any]) -> dict[str, str]:
    """Return the first fields as short printable texts; values that are not text become JSON."""
    printable_fields: dict[str, str] = {}
    for key, value in list(fields.items())[:MAX_FIELDS]:
        printable_fields[printable(str(key), 64)] = printable(_field_text(value), MAX_FIELD_CHARS)
    return printable_fields


def _field_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return encode_json_param("field", value, 4 * MAX_FIELD_CHARS).decode()
    except CallerError as error:
        return f"({error.message})"
