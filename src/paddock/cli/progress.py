"""One line on the terminal that says how far long work has come, and is wiped before anything else is said."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from paddock.core.printable import printable

if TYPE_CHECKING:
    from types import TracebackType

    from paddock.plugins.entries import Progress, Report

_WIPE = "\r\x1b[K"


class ProgressLine:
    """The line, for as long as the block runs. Where nobody looks there is none."""

    def __init__(self) -> None:
        self._shown = False

    @property
    def report(self) -> Report | None:
        """What to hand to the work."""
        return self._show if sys.stderr.isatty() else None

    def wipe(self) -> None:
        """Make room for other words."""
        if self._shown:
            sys.stderr.write(_WIPE)
            sys.stderr.flush()
            self._shown = False

    def _show(self, progress: Progress) -> None:
        count = f": {progress.files:,} files" if progress.files else ""
        sys.stderr.write(f"{_WIPE}{printable(progress.step, 60)}{count} ")
        sys.stderr.flush()
        self._shown = True

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wipe()
