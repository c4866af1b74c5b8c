"""What a plugin tells while it works on a call: one changing line on a terminal, a line each elsewhere; on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from paddock.core.printable import printable

_WIPE = "\r\x1b[K"


class EventLine:
    """Shows events for as long as the block runs. Where they cannot be shown, the call goes on without."""

    def __init__(self) -> None:
        self._changing = sys.stderr.isatty()
        self._shown = False

    def show(self, event: Mapping[str, Any]) -> None:
        """Show one event. Progress replaces the progress before it; everything else stays."""
        line = in_words(event)
        passing = self._changing and event.get("type") == "progress"
        self._write(self._wipe() + (line if passing else line + "\n"))
        self._shown = passing

    def clear(self) -> None:
        """Leave the line to somebody else."""
        self._write(self._wipe())
        self._shown = False

    def _wipe(self) -> str:
        return _WIPE if self._shown else ""

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            # What could not be written stays in the stream, and would fail again when the program ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())

    def __enter__(self) -> EventLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()


def in_words(event: Mapping[str, Any]) -> str:
    """One line for one event."""
    if event.get("type") != "progress":
        return printable(json.dumps(event.get("data", event), ensure_ascii=False, default=str), 400)
    done, total, message = event.get("progress"), event.get("total"), event.get("message")
    count = f"{done}/{total}" if total is not None else f"{done}"
    return printable(f"{count} {message or ''}".strip(), 200)
