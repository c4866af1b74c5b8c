"""Delivers received lines in fair portions: a side that floods us gets its turn, and only its turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from paddock.rpc.framing import FramingViolation, LineSplitter
from paddock.rpc.transport import Receiver

MAX_PORTION_BYTES: Final = 64 * 1024
"""How many bytes are delivered before other work has a turn."""

LINE_OVERHEAD_BYTES: Final = 512
"""What a line counts besides its length, so that a turn of tiny lines is short too."""


class Inbox:
    """Splits received bytes into lines and delivers them in order: lines, then a violation, then the end.

    Args:
        receiver: Gets them, from `start` until `stop`.
        pause: Called when we fall behind; better feed nothing until `resume` is called. It begins paused.
        resume: Called when we have caught up.
    """

    def __init__(self, receiver: Receiver, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._receiver = receiver
        self._pause = pause
        self._resume = resume
        self._splitter = LineSplitter()
        self._lines: deque[bytes] = deque()
        self._violation: FramingViolation | None = None
        self._violation_reported = False
        self._end: str | None = None
        self._delivering = False  # from start to stop
        self._stopped = False
        self._paused = True
        self._scheduled = False  # a portion is scheduled in the next turn of the event loop

    def start(self) -> None:
        """Begin to deliver, from the next turn of the event loop on."""
        self._delivering = not self._stopped
        self._schedule()

    def stop(self) -> None:
        """Deliver nothing more, not even the rest of this portion, and buffer nothing."""
        self._delivering = False
        self._stopped = True
        self._lines.clear()

    def feed(self, chunk: bytes) -> None:
        """Take received bytes."""
        if self._violation is not None or self._stopped:
            return
        try:
            self._lines.extend(self._splitter.feed(chunk))
        except FramingViolation as violation:
            self._lines.extend(violation.before)
            self._violation = violation
        if not self._scheduled:
            self._deliver_portion()

    def end(self, reason: str) -> None:
        """Nothing more will arrive."""
        if self._end is None:
            self._end = reason
            if not self._scheduled:
                self._deliver_portion()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver_portion)

    def _deliver_portion(self) -> None:
        self._scheduled = False
        lines = self._lines
        deliver = self._receiver.frame_received
        remaining = MAX_PORTION_BYTES
        while lines and remaining > 0 and self._delivering:
            line = lines.popleft()
            remaining -= len(line) + LINE_OVERHEAD_BYTES
            deliver(line)
        if not self._delivering:
            return
        behind = bool(lines)
        if behind:
            self._schedule()
        elif self._violation is not None or self._end is not None:
            self._finish()
        self._set_paused(behind or self._violation is not None)

    def _set_paused(self, paused: bool) -> None:
        if paused != self._paused:
            self._paused = paused
            if paused:
                self._pause()
            else:
                self._resume()

    def _finish(self) -> None:
        if self._violation is not None and not self._violation_reported:
            self._violation_reported = True
            self._receiver.violated(self._violation.kind, self._violation.detail)
        if self._end is not None and self._delivering:
            self.stop()
            self._receiver.lost(self._end)
