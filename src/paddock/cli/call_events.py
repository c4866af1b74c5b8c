"""What a plugin tells while it works on a call: one changing line on a terminal, a line each elsewhere; on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from paddock.core.printable import printable

_WIPE = "\r\x1b[K"


class EventLine:
    """Shows events for as long as the block runs."""

    def __init__(self) -> None:
        self._changing = sys.stderr.isatty()
        self._shown = False

    def show(self, event: Mapping[str, Any]) -> None:
        """Show one event. Progress replaces the progress before it; everything else stays."""
        self._wipe()
        line = in_words(event)
        if self._changing and event.get("type") == "progress":
            sys.stderr.write(line)
            self._shown = True
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def _wipe(self) -> None:
        if self._shown:
            sys.stderr.write(_WIPE)
            self._shown = False

    def __enter__(self) -> EventLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wipe()
        sys.stderr.flush()


def in_words(event: Mapping[str, Any]) -> str:
    """One line for one event."""
    if event.get("type") != "progress":
        return printable(json.dumps(event.get("data", event), ensure_ascii=False, default=str), 400)
    done, total, message = event.get("progress"), event.get("total"), event.get("message")
    count = f"{done}/{total}" if total is not None else f"{done}"
    return printable(f"{count} {message or ''}".strip(), 200)
