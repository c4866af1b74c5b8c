"""Status lines on stderr: a call's progress events and an installation's progress, in place on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from paddock.core.printable import printable

if TYPE_CHECKING:
    from types import TracebackType

    from paddock.plugins.package.extract import ProgressCallback


_CLEAR_LINE = "\r\x1b[K"


class CallEventLine:
    """Shows a call's events while the block runs. If stderr cannot be written, the call goes on without."""

    def __init__(self) -> None:
        self._in_place = sys.stderr.isatty()
        self._has_progress = False

    def show(self, event: Mapping[str, Any]) -> None:
        """Show one event. Progress replaces earlier progress; everything else stays."""
        line = describe_call_event(event)
        replaceable = self._in_place and event.get("type") == "progress"
        self._write(self._clear_progress() + (line if replaceable else line + "\n"))
        self._has_progress = replaceable

    def clear(self) -> None:
        """Clear the line for other output."""
        self._write(self._clear_progress())
        self._has_progress = False

    def _clear_progress(self) -> str:
        return _CLEAR_LINE if self._has_progress else ""

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            # Unwritten text stays in the stream's buffer, and would fail again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())

    def __enter__(self) -> CallEventLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()


def describe_call_event(event: Mapping[str, Any]) -> str:
    """Describe one event in one line."""
    if event.get("type") != "progress":
        return printable(json.dumps(event.get("data", event), ensure_ascii=False, default=str), 400)
    done, total, message = event.get("progress"), event.get("total"), event.get("message")
    count = f"{done}/{total}" if total is not None else f"{done}"
    return printable(f"{count} {message or ''}".strip(), 200)


class ProgressLine:
    """Shows an installation's progress while the block runs, if stderr is a terminal."""

    def __init__(self) -> None:
        self._has_progress = False

    @property
    def callback(self) -> ProgressCallback | None:
        """The callback to pass to the work."""
        return (lambda progress: self.show(progress.step, progress.files)) if sys.stderr.isatty() else None

    def clear(self) -> None:
        """Clear the line for other output."""
        if self._has_progress:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
            self._has_progress = False

    def show(self, step: str, files: int) -> None:
        """Show a step and how many files it has done so far."""
        if not step or not sys.stderr.isatty():
            return
        count = f": {files:,} files" if files else ""
        sys.stderr.write(f"{_CLEAR_LINE}{printable(step, 60)}{count} ")
        sys.stderr.flush()
        self._has_progress = True

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
