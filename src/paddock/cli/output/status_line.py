"""What a plugin tells while it works on a call: one changing line on a terminal, a line each elsewhere; on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from paddock.core.printable import printable

if TYPE_CHECKING:
    from types import TracebackType

    from paddock.plugins.package.extract import InstallProgress, ProgressCallback


_CLEAR_EVENT_LINE = "\r\x1b[K"


class CallEventLine:
    """Shows events for as long as the block runs. Where they cannot be shown, the call goes on without."""

    def __init__(self) -> None:
        self._changing = sys.stderr.isatty()
        self._shown = False

    def show(self, event: Mapping[str, Any]) -> None:
        """Show one event. Progress replaces the progress before it; everything else stays."""
        line = describe_call_event(event)
        passing = self._changing and event.get("type") == "progress"
        self._write(self._clear_progress() + (line if passing else line + "\n"))
        self._shown = passing

    def clear(self) -> None:
        """Leave the line to somebody else."""
        self._write(self._clear_progress())
        self._shown = False

    def _clear_progress(self) -> str:
        return _CLEAR_EVENT_LINE if self._shown else ""

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            # What could not be written stays in the stream, and would fail again when the program ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())

    def __enter__(self) -> CallEventLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()


def describe_call_event(event: Mapping[str, Any]) -> str:
    """One line for one event."""
    if event.get("type") != "progress":
        return printable(json.dumps(event.get("data", event), ensure_ascii=False, default=str), 400)
    done, total, message = event.get("progress"), event.get("total"), event.get("message")
    count = f"{done}/{total}" if total is not None else f"{done}"
    return printable(f"{count} {message or ''}".strip(), 200)


_CLEAR_PROGRESS_LINE = "\r\x1b[K"


class ProgressLine:
    """The line, for as long as the block runs. Where nobody looks there is none."""

    def __init__(self) -> None:
        self._shown = False

    @property
    def callback(self) -> ProgressCallback | None:
        """What to hand to the work."""
        return self._show if sys.stderr.isatty() else None

    def clear(self) -> None:
        """Make room for other words."""
        if self._shown:
            sys.stderr.write(_CLEAR_PROGRESS_LINE)
            sys.stderr.flush()
            self._shown = False

    def _show(self, progress: InstallProgress) -> None:
        count = f": {progress.files:,} files" if progress.files else ""
        sys.stderr.write(f"{_CLEAR_PROGRESS_LINE}{printable(progress.step, 60)}{count} ")
        sys.stderr.flush()
        self._shown = True

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
