"""Does what is due: takes it from the queue, runs what its kind asks for, and ends it or puts it off.

Between two looks it waits until something falls due, is put, or is free again. What other processes put it finds a few
seconds later, and so it does when the calendar is set back: then what waits goes on waiting for as long as it should.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

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

MAX_CONCURRENT_JOBS = 16  # of which one tenant has half with one kind, see `shares.py`
POLL_INTERVAL_S = 5.0  # seconds after which it looks for what other processes put
_DRAIN_TIMEOUT_S = 5.0  # for what runs when this ends
_RELEASE_TIMEOUT_S = 5.0  # for writing down what did not come to its end

_log = logging.getLogger("paddock.queue")

EventSinkFactory = Callable[[Transaction, Tenant, str | None], EventSink]
JobHandler = Callable[[Job], Awaitable[RescheduleAt | None]]
"""Does one thing, and says when to do it again, or nothing where it is done. It may have been done before, by somebody
who died before they could say so."""


@dataclass(frozen=True, slots=True)
class JobType:
    """How one sort of work is done.

    Args:
        run: Does it.
        pauses: Between two tries, and how many there are.
        longest: Seconds after which one try counts as failed.
        given_up: What else belongs into the unit of work in which it is given up; the text is the code of the failure.
    """

    run: JobHandler
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    timeout_s: float = 300.0
    on_given_up: Callable[[Transaction, Job, str], None] | None = None


class Worker:
    """Does the work of these kinds, a few at once.

    Args:
        database: Where the queue is.
        node: In whose name it is taken.
        clock: Tells what is due.
        random: Spreads what is tried again.
        kinds: What it can do. Other kinds stay where they are.
        publish_in: Where a unit of work tells that something was given up.
        at_once: How many it does at a time, of which nobody has more than are free.
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
        at_once: int = MAX_CONCURRENT_JOBS,
    ) -> None:
        self._database = database
        self._node = node
        self._clock = clock
        self._random = random
        self._kinds = dict(kinds)
        self._publish_in = publish_in
        self._at_once = at_once
        self._woken = asyncio.Event()
        self._running: dict[asyncio.Task[None], Job] = {}
        self._last_clock_reading: ClockReading | None = None

    def wake(self) -> None:
        """Look now: something was put, or is free again."""
        self._woken.set()

    async def run_forever(self) -> None:
        told = ""
        while True:
            self._woken.clear()  # before the look: what is put meanwhile is looked for again
            try:
                pause, told = await self._start_due(), ""
            except PaddockError as error:
                if error.message != told:  # a full disk stays full for long
                    _log.warning("the queue could not be looked at: %s", error.message)
                pause, told = POLL_INTERVAL_S, error.message
            try:
                async with asyncio.timeout(pause):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def _start_due(self) -> float:
        """Begin what is due and there is room for; how long to wait then."""
        here = await self._node.current_run()  # before anything else: this frees what a former run of this home held
        await self._check_wall_clock()
        while len(self._running) < self._at_once:
            held = Counter(work.claimant for work in self._running.values())
            but = saturated_claimants(held, self._at_once)
            due = await self._database.read(lambda tx, but=but: queue.next_due(tx, self._kinds, but=but))
            now = self._clock.now()
            if due is None or due > now:
                return seconds_until(due, now, POLL_INTERVAL_S)
            take = partial(queue.claim_due, here=here, kinds=self._kinds, now=now, places=self._at_once, held=held)
            for work in await self._database.write(take):
                task = asyncio.create_task(self._run_job(work), name=f"{work.kind} {work.key}")
                self._running[task] = work
                task.add_done_callback(self._on_task_done)
        return POLL_INTERVAL_S  # whoever ends first wakes this

    async def _check_wall_clock(self) -> None:
        at = ClockReading(self._clock.now(), self._clock.monotonic())
        if wall_clock_went_back(self._last_clock_reading, at):
            changed = await self._database.write(partial(queue.rebase_due_times, now=at.wall))
            if changed:
                _log.warning("the calendar was set back; %d things wait from now on", changed)
        self._last_clock_reading = at

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._woken.set()

    async def _run_job(self, work: Job) -> None:
        kind = self._kinds[work.kind]
        try:
            if work.tries > kind.retry_policy.max_tries:  # whoever tried it died over it each time
                await self._database.write(lambda tx: self._give_up(tx, work, "queue.interrupted"))
                return
            ended = await self._attempt(kind, work)
            await self._database.write(lambda tx: self._record_result(tx, work, ended))
        except PaddockError as error:
            if error.error_code == "queue.stale":
                return  # it was ended in a unit of its own, dropped, or is in other hands
            _log.warning("%s %s stays as it is: %s", work.kind, work.key, error.message)
            await self._release_job(work)

    async def _attempt(self, kind: JobType, work: Job) -> RescheduleAt | str | None:
        """When to do it again, the code of its failure, or nothing where it is done."""
        try:
            async with asyncio.timeout(kind.timeout_s):
                return await kind.run(work)
        except PaddockError as error:
            _log.warning("%s %s failed: %s", work.kind, work.key, error.message)
            return error.error_code
        except TimeoutError:
            _log.warning("%s %s was not done within %g s", work.kind, work.key, kind.timeout_s)
            return "queue.timeout"
        except Exception:  # one kind's fault must not end the others
            _log.exception("%s %s failed", work.kind, work.key)
            return "internal"

    def _record_result(self, tx: Transaction, work: Job, ended: RescheduleAt | str | None) -> None:
        match ended:
            case None:
                queue.complete(tx, work)
            case RescheduleAt(due):
                queue.reschedule(tx, work, due, now=self._clock.now())
            case code:
                pauses, now = self._kinds[work.kind].retry_policy, self._clock.now()
                match decide_retry(work.tries, now, self._random, pauses):
                    case RescheduleAt(due):
                        queue.reschedule(tx, work, due, now=now, reason=code)
                    case RetriesExhausted():
                        self._give_up(tx, work, code)

    def _give_up(self, tx: Transaction, work: Job, code: str) -> None:
        queue.complete(tx, work)
        given_up = self._kinds[work.kind].on_given_up
        if given_up is not None:
            given_up(tx, work, code)
        fact = QueueGivenUp(kind=work.kind, work=work.key, times=work.tries, error_code=code)
        self._publish_in(tx, work.tenant, None).publish(fact)

    async def _release_job(self, work: Job) -> None:
        """The end of it could not be written down; try for as long as this runs, else it is held until that ends."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            try:
                return await self._database.write(lambda tx: queue.release(tx, work))
            except PaddockError as error:
                _log.warning("%s %s is still held: %s", work.kind, work.key, error.message)

    async def drain(self) -> None:
        """Let what runs come to its end, for some seconds; what does not is put back for another."""
        running = dict(self._running)
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=_DRAIN_TIMEOUT_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        left = [running[task] for task in late]
        if left:
            try:
                async with asyncio.timeout(_RELEASE_TIMEOUT_S):
                    await self._database.write(lambda tx: [queue.release(tx, work) for work in left])
            except (PaddockError, TimeoutError):
                pass  # it is free when this node leaves


@asynccontextmanager
async def open_worker(worker: Worker, node: Node) -> AsyncGenerator[Worker, None]:
    """Have the worker work for as long as the block runs."""
    looking = asyncio.create_task(worker.run_forever(), name="do what is due")
    node.after_lease_ended.append(worker.wake)
    try:
        yield worker
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await worker.drain()
