"""Threads for blocking work, with as little as possible between the event loop and the work.

A pool of the standard library costs twice as much a call, which is more than what SQLite needs for a small query.
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
    answer: asyncio.Future[Any]
    after: Callable[[], None] | None


class ThreadPool:
    """Up to a number of threads, started when they are needed. Expects one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._under_way = 0

    def run(self, work: Callable[[], T], after: Callable[[], None] | None = None) -> asyncio.Future[T]:
        """The work's result, or `Busy`. It runs to its end even when nobody waits for it any more.

        Args:
            work: Called on a thread.
            after: Called on the event loop when the work is over, whatever came of it.
        """
        answer: asyncio.Future[T] = self._loop.create_future()
        self._under_way += 1
        if self._under_way > len(self._threads) < self._most:
            self._start_thread()
        job = _Job(work, answer, after)
        if self._threads:
            self._jobs.put(job)
        else:
            self._deliver(job, None, Busy("the system has no thread left", code="storage.busy", hint=_RETRY_HINT))
        return answer

    def close(self) -> None:
        """Let the threads end once they have nothing to do."""
        for _ in self._threads:
            self._jobs.put(None)
        self._threads = []

    def _start_thread(self) -> None:
        thread = Thread(target=self._serve, name=f"paddock-storage-{len(self._threads)}", daemon=True)
        with suppress(RuntimeError):  # the system has none left: those that are there do all the work
            thread.start()
            self._threads.append(thread)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            result, error = None, None
            try:
                result = job.work()
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
                self._loop.call_soon_threadsafe(self._deliver, job, result, error)
            del job, result, error  # keep nothing alive while waiting

    def _deliver(self, job: _Job, result: Any, error: BaseException | None) -> None:
        self._under_way -= 1
        if job.after is not None:
            job.after()
        if job.answer.cancelled():
            return
        if error is not None:
            job.answer.set_exception(error)
        else:
            job.answer.set_result(result)
