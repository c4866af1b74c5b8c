"""The log family: a plugin's own lines, made safe to show and bounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from paddock.capabilities.asking import Asking
from paddock.capabilities.door import Handler
from paddock.capabilities.json_bytes import encoded
from paddock.capabilities.params import wrong
from paddock.core.clock import Clock
from paddock.core.errors import CallerError
from paddock.core.flow import RateWindow
from paddock.core.printable import printable

LEVELS = ("debug", "info", "warning", "error")
LONGEST_MESSAGE = 8_192
MOST_FIELDS = 32
LONGEST_FIELD = 1_024
LINES_A_SECOND = 200

Sink: TypeAlias = Callable[[Asking, str, str, Mapping[str, str]], None]


class Log:
    """Hands lines on to a sink.

    Args:
        sink: Told who, the level, the message and the fields. Called on the event loop; must not wait.
        clock: Says when a second is over.
    """

    def __init__(self, sink: Sink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._windows: dict[tuple[str, str], RateWindow] = {}

    def handlers(self) -> dict[str, Handler]:
        return {"log.write": self.write}

    async def write(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, bool]:
        """Write one line; tells whether it was kept. Lines over `LINES_A_SECOND` are not.

        Raises:
            CallerError: the level is unknown, or the message no text.
        """
        level = params.get("level", "info")
        if level not in LEVELS:
            raise wrong("level", "is unknown", f"use one of {', '.join(LEVELS)}")
        message = params.get("message")
        if not isinstance(message, str):
            raise wrong("message", "must be text")
        fields: Any = params.get("fields") or {}
        if not isinstance(fields, dict):
            raise wrong("fields", "must be an object")
        if not self._within_rate(asking):
            return {"written": False}
        self._sink(asking, level, printable(message, LONGEST_MESSAGE), _shown(cast("dict[Any, Any]", fields)))
        return {"written": True}

    def _within_rate(self, asking: Asking) -> bool:
        window = self._windows.setdefault((asking.tenant, asking.plugin), RateWindow(LINES_A_SECOND))
        return window.take(self._clock.monotonic())


def _shown(fields: dict[Any, Any]) -> dict[str, str]:
    """The first few fields as short printable texts; what is no text is shown as JSON."""
    shown: dict[str, str] = {}
    for key, value in list(fields.items())[:MOST_FIELDS]:
        shown[printable(str(key), 64)] = printable(_words(value), LONGEST_FIELD)
    return shown


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return encoded("field", value, 4 * LONGEST_FIELD).decode()
    except CallerError as error:
        return f"({error.message})"
