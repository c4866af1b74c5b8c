"""A second pair of eyes while a handler works: somebody who looks now and then at what the host has said.

A handler that sleeps or computes does not look itself, and a call that waits behind it could not be answered when
nobody wants it any more. The watcher is a thread, begun with the first call. Where calls are quick it costs next to
nothing: it looks only while one takes longer than a moment, and rests when there are none.
"""

from __future__ import annotations

import time
from _thread import allocate_lock, start_new_thread  # not `threading`; see `pipes.py`
from collections.abc import Callable
from contextlib import suppress

from paddock_sdk.faults import HostGone

A_WHILE = 0.05  # seconds from one look to the next
_UNTIL_REST = 20  # times that there is nothing to watch


class Watch:
    """Looks as long as calls run.

    Args:
        glance: Takes in what has arrived, if a call runs; tells whether one does.
    """

    def __init__(self, glance: Callable[[], bool]) -> None:
        self._glance = glance
        self._begun = 0  # calls so far
        self._awake = False
        self._over = False
        self._waking = allocate_lock()
        self._bed = allocate_lock()  # taken by the watcher when it rests, and freed by whoever wakes it
        self._bed.acquire()
        self._born = False

    def call_begins(self) -> None:
        """A call runs from here on."""
        self._begun += 1  # first: a watcher that is about to rest looks at this once more
        if not self._awake:
            self._wake()

    def end(self) -> None:
        """Look no more."""
        self._over = True

    def _wake(self) -> None:
        with self._waking:
            if self._awake:
                return
            self._awake = True
            if self._born:
                self._bed.release()
                return
            self._born = True
            with suppress(RuntimeError):  # it may have no more threads; then the host is heard between two calls
                start_new_thread(self._watch, ())

    def _watch(self) -> None:
        idle = 0
        try:
            while not self._over:
                seen = self._begun
                time.sleep(A_WHILE)
                if self._begun != seen or self._glance():
                    idle = 0
                    continue
                idle += 1
                if idle >= _UNTIL_REST:
                    self._rest(seen)
                    idle = 0
        except HostGone:
            pass  # whoever reads or answers next learns of it too

    def _rest(self, seen: int) -> None:
        """Wait until the next call, unless there has been one since."""
        with self._waking:
            self._awake = False
            if self._begun != seen:
                self._awake = True
                return
        self._bed.acquire()
