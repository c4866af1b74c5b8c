"""The worker: runs the handlers of claimed jobs, and completes, reschedules or gives up the jobs.

Which jobs run when is up to the loop of each engine: `row_worker.py` on the embedded one, and procrastinate's worker on
PostgreSQL (`engine_worker.py`); `lifespan.py` chooses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct, field

from paddock.core.clock import Clock, Random
from paddock.core.errors import PaddockError
from paddock.core.events.event import EventSink
from paddock.core.events.system import QueueGivenUp
from paddock.core.ids import Tenant
from paddock.queue import queue
from paddock.queue.job import Job
from paddock.queue.node import Node
from paddock.queue.schedule import RescheduleAt, RetriesExhausted, RetryPolicy, decide_retry
from paddock.store.database import Database
from paddock.store.transaction import Transaction

MAX_CONCURRENT_JOBS = 16  # at most half for one tenant and kind, see `fair_shares`
POLL_INTERVAL_S = 5.0  # for jobs that other processes put or released, where no notification came
DRAIN_TIMEOUT_S = 0.4  # for running jobs at shutdown; a host has three workers, and drains within two seconds
RELEASE_TIMEOUT_S = 1.0  # for releasing unfinished jobs at shutdown

_log = logging.getLogger("paddock.queue")

EventSinkFactory = Callable[[Transaction, Tenant, str | None], EventSink]
JobHandler = Callable[[Job], Awaitable[RescheduleAt | None]]
"""Runs one job; returns when to run it again, or None if it is done.

The job may have been run before, by a worker that died before it could record that.
"""
CompleteJob = Callable[[Job], Awaitable[object]]


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
        clock: The time.
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
        self.database = database
        self.node = node
        self.clock = clock
        self.kinds = dict(kinds)
        self.max_jobs = max_jobs
        self.woken = woken or asyncio.Event()
        self._random = random
        self._publish_in = publish_in

    def wake(self) -> None:
        """Check the queue now: a job was enqueued or released."""
        self.woken.set()

    async def run_job(self, job: Job, complete: CompleteJob | None = None) -> None:
        """Run a claimed job to its end, and record that. `complete` is a quicker way to complete it, if there is one.

        A job whose result could not be recorded is released, which is tried until the worker stops. If it never
        succeeds, the job stays held until this node's lease ends.
        """
        job_type = self.kinds[job.kind]
        try:
            if job.tries > job_type.retry_policy.max_tries:  # the worker died each time
                await self.database.write(lambda tx: self._give_up(tx, job, "queue.interrupted"))
                return
            result = await self._attempt(job_type, job)
            if result is None and complete is not None:
                await complete(job)
            else:
                await self.database.write(lambda tx: self._record_result(tx, job, result))
        except PaddockError as error:
            if error.error_code == "queue.stale":
                return  # the handler completed it, it was removed, or another run holds it
            _log.warning("%s %s stays as it is: %s", job.kind, job.key, error.message)
            await self._release(job)

    async def release_unfinished(self, jobs: Sequence[Job]) -> None:
        """Release jobs that were broken off at shutdown, within a second. The tries do not count."""
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT_S if jobs else None):
                if jobs:
                    await self.database.write(lambda tx: [queue.release(tx, job) for job in jobs])
        except (PaddockError, TimeoutError):
            pass  # they are released when this node leaves

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
                queue.reschedule(tx, job, due, now=self.clock.now())
            case code:
                policy, now = self.kinds[job.kind].retry_policy, self.clock.now()
                match decide_retry(job.tries, now, self._random, policy):
                    case RescheduleAt(due):
                        queue.reschedule(tx, job, due, now=now, reason=code)
                    case RetriesExhausted():
                        self._give_up(tx, job, code)

    def _give_up(self, tx: Transaction, job: Job, code: str) -> None:
        queue.complete(tx, job)
        on_given_up = self.kinds[job.kind].on_given_up
        if on_given_up is not None:
            on_given_up(tx, job, code)
        event = QueueGivenUp(kind=job.kind, work=job.key, times=job.tries, error_code=code)
        self._publish_in(tx, job.tenant, None).publish(event)

    async def _release(self, job: Job) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            try:
                return await self.database.write(lambda tx: queue.release(tx, job))
            except PaddockError as error:
                _log.warning("%s %s is still held: %s", job.kind, job.key, error.message)
