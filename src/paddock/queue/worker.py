"""The worker: claims due jobs from the queue, runs their handlers, and completes or reschedules them.

In between it waits until a job is due, enqueued or released. It finds jobs of other processes a few seconds later. The
same poll notices when the wall clock was set back, and then restarts the waiting times.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from msgspec import Struct, field

from paddock.core.clock import Clock, Random
from paddock.core.errors import PaddockError
from paddock.core.events.event import EventSink
from paddock.core.events.system import QueueGivenUp
from paddock.core.ids import Tenant
from paddock.queue import queue
from paddock.queue.node import Node
from paddock.queue.queue import Job, saturated_claimants
from paddock.queue.schedule import (
    ClockReading,
    RescheduleAt,
    RetriesExhausted,
    RetryPolicy,
    decide_retry,
    seconds_until,
    wall_clock_went_back,
)
from paddock.store.database import Database
from paddock.store.transaction import Transaction

MAX_CONCURRENT_JOBS = 16  # at most half for one tenant and kind, see `fair_shares`
POLL_INTERVAL_S = 5.0  # for jobs enqueued by other processes
_DRAIN_TIMEOUT_S = 5.0  # for running jobs at shutdown
_RELEASE_TIMEOUT_S = 5.0  # for releasing unfinished jobs at shutdown

_log = logging.getLogger("paddock.queue")

EventSinkFactory = Callable[[Transaction, Tenant, str | None], EventSink]
JobHandler = Callable[[Job], Awaitable[RescheduleAt | None]]
"""Runs one job; returns when to run it again, or None if it is done.

The job may have been run before, by a worker that died before it could record that.
"""


class JobType(Struct, frozen=True):
    """How jobs of one kind are run.

    Args:
        run: The handler.
        retry_policy: The delays between tries, and their number.
        timeout_s: Seconds after which a try counts as failed.
        on_given_up: Called in the unit of work in which a job is given up, with the code of the failure.
    """

    run: JobHandler
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    timeout_s: float = 300.0
    on_given_up: Callable[[Transaction, Job, str], None] | None = None


class Worker:
    """Runs jobs of these kinds, several at once.

    Args:
        database: The database with the queue.
        node: The node in whose name jobs are claimed.
        clock: Decides what is due.
        random: Source of the retry jitter.
        kinds: The job types it can run. Jobs of other kinds are left alone.
        publish_in: Provides the event sink of a unit of work, for jobs that are given up.
        woken: Set when a job was enqueued or released; shared with those who enqueue jobs.
        max_jobs: How many jobs run at once. No claimant gets more slots than are still free.
    """

    def __init__(
        self,
        database: Database,
        node: Node,
        clock: Clock,
        random: Random,
        kinds: Mapping[str, JobType],
        publish_in: EventSinkFactory,
        *,
        woken: asyncio.Event | None = None,
        max_jobs: int = MAX_CONCURRENT_JOBS,
    ) -> None:
        self._database = database
        self._node = node
        self._clock = clock
        self._random = random
        self._kinds = dict(kinds)
        self._publish_in = publish_in
        self._max_jobs = max_jobs
        self._woken = woken or asyncio.Event()
        self._running: dict[asyncio.Task[None], Job] = {}
        self._last_clock_reading: ClockReading | None = None

    def wake(self) -> None:
        """Check the queue now: a job was enqueued or released."""
        self._woken.set()

    async def run_forever(self) -> None:
        last_warning = ""
        while True:
            self._woken.clear()  # before the check: jobs enqueued meanwhile wake it again
            try:
                delay_s, last_warning = await self._start_due(), ""
            except PaddockError as error:
                if error.message != last_warning:  # do not repeat the warning: a full disk stays full for long
                    _log.warning("the queue could not be looked at: %s", error.message)
                delay_s, last_warning = POLL_INTERVAL_S, error.message
            try:
                async with asyncio.timeout(delay_s):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def _start_due(self) -> float:
        """Start due jobs while there are free slots; returns how long to wait then."""
        run = await self._node.current_run()  # first: this releases jobs of a former run of this home
        await self._check_wall_clock()
        while len(self._running) < self._max_jobs:
            held = Counter(job.claimant for job in self._running.values())
            saturated = saturated_claimants(held, self._max_jobs)
            due = await self._database.read(
                lambda tx, saturated=saturated: queue.next_due(tx, self._kinds, excluded=saturated)
            )
            now = self._clock.now()
            if due is None or due > now:
                return seconds_until(due, now, POLL_INTERVAL_S)
            claim = partial(queue.claim_due, run=run, kinds=self._kinds, now=now, slots=self._max_jobs, held=held)
            for job in await self._database.write(claim):
                task = asyncio.create_task(self._run_job(job), name=f"{job.kind} {job.key}")
                self._running[task] = job
                task.add_done_callback(self._on_task_done)
        return POLL_INTERVAL_S  # a job that ends wakes it earlier

    async def _check_wall_clock(self) -> None:
        reading = ClockReading(self._clock.now(), self._clock.monotonic())
        if wall_clock_went_back(self._last_clock_reading, reading):
            changed = await self._database.write(partial(queue.rebase_due_times, now=reading.wall))
            if changed:
                _log.warning("the calendar was set back; %d things wait from now on", changed)
        self._last_clock_reading = reading

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._woken.set()

    async def _run_job(self, job: Job) -> None:
        job_type = self._kinds[job.kind]
        try:
            if job.tries > job_type.retry_policy.max_tries:  # the worker died each time
                await self._database.write(lambda tx: self._give_up(tx, job, "queue.interrupted"))
                return
            result = await self._attempt(job_type, job)
            await self._database.write(lambda tx: self._record_result(tx, job, result))
        except PaddockError as error:
            if error.error_code == "queue.stale":
                return  # the handler completed it, it was removed, or another run holds it
            _log.warning("%s %s stays as it is: %s", job.kind, job.key, error.message)
            await self._release_job(job)

    async def _attempt(self, job_type: JobType, job: Job) -> RescheduleAt | str | None:
        """Run the handler once. Returns when to run again, the code of the failure, or None if it is done."""
        try:
            async with asyncio.timeout(job_type.timeout_s):
                return await job_type.run(job)
        except PaddockError as error:
            _log.warning("%s %s failed: %s", job.kind, job.key, error.message)
            return error.error_code
        except TimeoutError:
            _log.warning("%s %s was not done within %g s", job.kind, job.key, job_type.timeout_s)
            return "queue.timeout"
        except Exception:  # a bug in one handler must not stop the others
            _log.exception("%s %s failed", job.kind, job.key)
            return "internal"

    def _record_result(self, tx: Transaction, job: Job, result: RescheduleAt | str | None) -> None:
        match result:
            case None:
                queue.complete(tx, job)
            case RescheduleAt(due):
                queue.reschedule(tx, job, due, now=self._clock.now())
            case code:
                policy, now = self._kinds[job.kind].retry_policy, self._clock.now()
                match decide_retry(job.tries, now, self._random, policy):
                    case RescheduleAt(due):
                        queue.reschedule(tx, job, due, now=now, reason=code)
                    case RetriesExhausted():
                        self._give_up(tx, job, code)

    def _give_up(self, tx: Transaction, job: Job, code: str) -> None:
        queue.complete(tx, job)
        on_given_up = self._kinds[job.kind].on_given_up
        if on_given_up is not None:
            on_given_up(tx, job, code)
        event = QueueGivenUp(kind=job.kind, work=job.key, times=job.tries, error_code=code)
        self._publish_in(tx, job.tenant, None).publish(event)

    async def _release_job(self, job: Job) -> None:
        """Release a job whose result could not be recorded, retrying until the worker stops.

        If it never succeeds, the job stays held until this node's lease ends.
        """
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            try:
                return await self._database.write(lambda tx: queue.release(tx, job))
            except PaddockError as error:
                _log.warning("%s %s is still held: %s", job.kind, job.key, error.message)

    async def drain(self) -> None:
        """Let running jobs finish for some seconds; release the unfinished ones for other workers."""
        running = dict(self._running)
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=_DRAIN_TIMEOUT_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        unfinished = [running[task] for task in late]
        if unfinished:
            try:
                async with asyncio.timeout(_RELEASE_TIMEOUT_S):
                    await self._database.write(lambda tx: [queue.release(tx, job) for job in unfinished])
            except (PaddockError, TimeoutError):
                pass  # they are released when this node leaves


@asynccontextmanager
async def open_worker(worker: Worker, node: Node) -> AsyncGenerator[Worker, None]:
    """Run the worker for as long as the block runs."""
    task = asyncio.create_task(worker.run_forever(), name="do what is due")
    node.subscribe(after_lease_ended=worker.wake)
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await worker.drain()
