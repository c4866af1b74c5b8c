"""The log family: a plugin's own lines, made safe to show and bounded."""

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
    """Hands lines on to a sink.

    Args:
        sink: Told who, the level, the message and the fields. Called on the event loop; must not wait.
        clock: Says when a second is over.
    """

    def __init__(self, sink: LogSink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._windows: dict[tuple[str, str], RateWindow] = {}

    def handlers(self) -> dict[str, ServiceHandler]:
        return {"log.write": self.write}

    async def write(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, bool]:
        """Write one line; tells whether it was kept. Lines over `LINES_A_SECOND` are not.

        Raises:
            CallerError: the level is unknown, or the message no text.
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
        if not self._within_rate(asking):
            return {"written": False}
        self._sink(
            asking, level, printable(message, MAX_MESSAGE_CHARS), _printable_fields(cast("dict[Any, Any]", fields))
        )
        return {"written": True}

    def _within_rate(self, asking: CapabilityRequest) -> bool:
        window = self._windows.setdefault((asking.tenant, asking.plugin), RateWindow(MAX_LINES_PER_S))
        return window.take(self._clock.monotonic())


def _printable_fields(fields: dict[Any, Any]) -> dict[str, str]:
    """The first few fields as short printable texts; what is no text is shown as JSON."""
    shown: dict[str, str] = {}
    for key, value in list(fields.items())[:MAX_FIELDS]:
        shown[printable(str(key), 64)] = printable(_field_text(value), MAX_FIELD_CHARS)
    return shown


def _field_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return encode_json_param("field", value, 4 * MAX_FIELD_CHARS).decode()
    except CallerError as error:
        return f"({error.message})"
