"""A thread pool for blocking work with minimal overhead.

The standard library's pool costs twice as much per call, which is more than SQLite needs for a small query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from paddock.core.errors import Busy

T = TypeVar("T")

_RETRY_HINT = "try again in a moment"


class _Job(NamedTuple):
    work: Callable[[], Any]
    future: asyncio.Future[Any]
    on_done: Callable[[], None] | None


class ThreadPool:
    """Starts up to a number of threads on demand. Expects one event loop."""

    def __init__(self, max_threads: int) -> None:
        self._max_threads = max_threads
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._active_jobs = 0

    def run(self, work: Callable[[], T], on_done: Callable[[], None] | None = None) -> asyncio.Future[T]:
        """Run the work on a thread; the future gets its result, or `Busy`.

        The work runs to its end even if its caller is cancelled.

        Args:
            work: Called on a thread.
            on_done: Called on the event loop when the work is over, whatever its outcome.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._active_jobs += 1
        if self._active_jobs > len(self._threads) < self._max_threads:
            self._start_thread()
        job = _Job(work, future, on_done)
        if self._threads:
            self._jobs.put(job)
        else:
            self._deliver(job, None, Busy("the system has no thread left", code="storage.busy", hint=_RETRY_HINT))
        return future

    def close(self) -> None:
        """End the threads once the queue is empty."""
        for _ in self._threads:
            self._jobs.put(None)
        self._threads = []

    def _start_thread(self) -> None:
        thread = Thread(target=self._serve, name=f"paddock-storage-{len(self._threads)}", daemon=True)
        with suppress(RuntimeError):  # the system is out of threads: the existing ones do all the work
            thread.start()
            self._threads.append(thread)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            result, error = None, None
            try:
                result = job.work()
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the loop is closed: there is no one to deliver to
                self._loop.call_soon_threadsafe(self._deliver, job, result, error)
            del job, result, error  # hold no references while waiting

    def _deliver(self, job: _Job, result: Any, error: BaseException | None) -> None:
        self._active_jobs -= 1
        if job.on_done is not None:
            job.on_done()
        if job.future.cancelled():
            return
        if error is not None:
            job.future.set_exception(error)
        else:
            job.future.set_result(result)
