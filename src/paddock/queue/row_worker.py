"""The worker's loop on the embedded engine: claims due jobs and runs them.

In between it waits until a job is due, enqueued or released. It finds jobs of other processes a few seconds later. The
same poll notices when the wall clock was set back, and then restarts the waiting times.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial

from paddock.core.errors import PaddockError
from paddock.queue import job_rows, worker
from paddock.queue.claimants import saturated_claimants
from paddock.queue.job import Job
from paddock.queue.schedule import ClockReading, seconds_until, wall_clock_went_back

_log = logging.getLogger("paddock.queue")


async def run_row_worker(work: worker.Worker) -> None:
    """Run due jobs until cancelled; then let them finish for a moment, and release the rest for other workers."""
    loop = _RowLoop(work)
    try:
        await loop.run_forever()
    finally:
        await loop.drain()


class _RowLoop:
    def __init__(self, work: worker.Worker) -> None:
        self._worker = work
        self._running: dict[asyncio.Task[None], Job] = {}
        self._last_clock_reading: ClockReading | None = None

    async def run_forever(self) -> None:
        last_warning = ""
        while True:
            self._worker.woken.clear()  # before the check: jobs enqueued meanwhile wake it again
            try:
                delay_s, last_warning = await self._start_due(), ""
            except PaddockError as error:
                if error.message != last_warning:  # do not repeat the warning: a full disk stays full for long
                    _log.warning("the queue could not be looked at: %s", error.message)
                delay_s, last_warning = worker.POLL_INTERVAL_S, error.message
            try:
                async with asyncio.timeout(delay_s):
                    await self._worker.woken.wait()
            except TimeoutError:
                pass

    async def _start_due(self) -> float:
        """Start due jobs while there are free slots; returns how long to wait then."""
        database, kinds, slots = self._worker.database, self._worker.kinds, self._worker.max_jobs
        run = await self._worker.node.current_run()  # first: this releases jobs of a former run of this home
        await self._check_wall_clock()
        while len(self._running) < slots:
            held = Counter(job.claimant for job in self._running.values())
            saturated = saturated_claimants(held, slots)
            due = await database.read(lambda tx, saturated=saturated: job_rows.next_due(tx, kinds, excluded=saturated))
            now = self._worker.clock.now()
            if due is None or due > now:
                return seconds_until(due, now, worker.POLL_INTERVAL_S)
            claim = partial(job_rows.claim_due, run=run, kinds=kinds, now=now, slots=slots, held=held)
            for job in await database.write(claim):
                task = asyncio.create_task(self._worker.run_job(job), name=f"{job.kind} {job.key}")
                self._running[task] = job
                task.add_done_callback(self._on_task_done)
        return worker.POLL_INTERVAL_S  # a job that ends wakes it earlier

    async def _check_wall_clock(self) -> None:
        reading = ClockReading(self._worker.clock.now(), self._worker.clock.monotonic())
        if wall_clock_went_back(self._last_clock_reading, reading):
            changed = await self._worker.database.write(partial(job_rows.rebase_due_times, now=reading.wall))
            if changed:
                _log.warning("the calendar was set back; %d things wait from now on", changed)
        self._last_clock_reading = reading

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._worker.wake()

    async def drain(self) -> None:
        """Let running jobs finish for a moment; release the unfinished ones for other workers."""
        running = dict(self._running)
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=worker.DRAIN_TIMEOUT_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._worker.release_unfinished([running[task] for task in late])
