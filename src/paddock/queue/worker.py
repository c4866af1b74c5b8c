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
from paddock.core.event import Publish
from paddock.core.events_queue import QueueGivenUp
from paddock.core.ids import Tenant
from paddock.queue import queue
from paddock.queue.node import Node
from paddock.queue.queue import Work
from paddock.queue.schedule import Again, GiveUp, Moment, Pauses, after_failure, seconds_until, was_set_back
from paddock.queue.shares import full
from paddock.store.database import Database
from paddock.store.transaction import Transaction

AT_ONCE = 16  # of which one tenant has half with one kind, see `shares.py`
LOOK_AGAIN = 5.0  # seconds after which it looks for what other processes put
_SECONDS_TO_END = 5.0  # for what runs when this ends
_SECONDS_TO_PUT_BACK = 5.0  # for writing down what did not come to its end

_log = logging.getLogger("paddock.queue")

PublishIn = Callable[[Transaction, Tenant, str | None], Publish]
Run = Callable[[Work], Awaitable[Again | None]]
"""Does one thing, and says when to do it again, or nothing where it is done. It may have been done before, by somebody
who died before they could say so."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one sort of work is done.

    Args:
        run: Does it.
        pauses: Between two tries, and how many there are.
        longest: Seconds after which one try counts as failed.
        given_up: What else belongs into the unit of work in which it is given up; the text is the code of the failure.
    """

    run: Run
    pauses: Pauses = field(default_factory=Pauses)
    longest: float = 300.0
    given_up: Callable[[Transaction, Work, str], None] | None = None


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
        kinds: Mapping[str, Kind],
        publish_in: PublishIn,
        *,
        at_once: int = AT_ONCE,
    ) -> None:
        self._database = database
        self._node = node
        self._clock = clock
        self._random = random
        self._kinds = dict(kinds)
        self._publish_in = publish_in
        self._at_once = at_once
        self._woken = asyncio.Event()
        self._running: dict[asyncio.Task[None], Work] = {}
        self._looked: Moment | None = None

    def wake(self) -> None:
        """Look now: something was put, or is free again."""
        self._woken.set()

    async def work_forever(self) -> None:
        told = ""
        while True:
            self._woken.clear()  # before the look: what is put meanwhile is looked for again
            try:
                pause, told = await self._look(), ""
            except PaddockError as error:
                if error.message != told:  # a full disk stays full for long
                    _log.warning("the queue could not be looked at: %s", error.message)
                pause, told = LOOK_AGAIN, error.message
            try:
                async with asyncio.timeout(pause):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def _look(self) -> float:
        """Begin what is due and there is room for; how long to wait then."""
        here = await self._node.here()  # before anything else: this frees what a former run of this home held
        await self._mind_the_calendar()
        while len(self._running) < self._at_once:
            held = Counter(work.claimant for work in self._running.values())
            but = full(held, self._at_once)
            due = await self._database.read(lambda tx, but=but: queue.next_due(tx, self._kinds, but=but))
            now = self._clock.now()
            if due is None or due > now:
                return seconds_until(due, now, LOOK_AGAIN)
            take = partial(queue.take, here=here, kinds=self._kinds, now=now, places=self._at_once, held=held)
            for work in await self._database.write(take):
                task = asyncio.create_task(self._do(work), name=f"{work.kind} {work.key}")
                self._running[task] = work
                task.add_done_callback(self._ended)
        return LOOK_AGAIN  # whoever ends first wakes this

    async def _mind_the_calendar(self) -> None:
        at = Moment(self._clock.now(), self._clock.monotonic())
        if was_set_back(self._looked, at):
            changed = await self._database.write(partial(queue.set_back, now=at.calendar))
            if changed:
                _log.warning("the calendar was set back; %d things wait from now on", changed)
        self._looked = at

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._woken.set()

    async def _do(self, work: Work) -> None:
        kind = self._kinds[work.kind]
        try:
            if work.tries > kind.pauses.tries:  # whoever tried it died over it each time
                await self._database.write(lambda tx: self._give_up(tx, work, "queue.interrupted"))
                return
            ended = await self._tried(kind, work)
            await self._database.write(lambda tx: self._end(tx, work, ended))
        except PaddockError as error:
            if error.error_code == "queue.stale":
                return  # it was ended in a unit of its own, dropped, or is in other hands
            _log.warning("%s %s stays as it is: %s", work.kind, work.key, error.message)
            await self._let_go(work)

    async def _tried(self, kind: Kind, work: Work) -> Again | str | None:
        """When to do it again, the code of its failure, or nothing where it is done."""
        try:
            async with asyncio.timeout(kind.longest):
                return await kind.run(work)
        except PaddockError as error:
            _log.warning("%s %s failed: %s", work.kind, work.key, error.message)
            return error.error_code
        except TimeoutError:
            _log.warning("%s %s was not done within %g s", work.kind, work.key, kind.longest)
            return "queue.timeout"
        except Exception:  # one kind's fault must not end the others
            _log.exception("%s %s failed", work.kind, work.key)
            return "internal"

    def _end(self, tx: Transaction, work: Work, ended: Again | str | None) -> None:
        match ended:
            case None:
                queue.done(tx, work)
            case Again(due):
                queue.again(tx, work, due, now=self._clock.now())
            case code:
                pauses, now = self._kinds[work.kind].pauses, self._clock.now()
                match after_failure(work.tries, now, self._random, pauses):
                    case Again(due):
                        queue.again(tx, work, due, now=now, reason=code)
                    case GiveUp():
                        self._give_up(tx, work, code)

    def _give_up(self, tx: Transaction, work: Work, code: str) -> None:
        queue.done(tx, work)
        given_up = self._kinds[work.kind].given_up
        if given_up is not None:
            given_up(tx, work, code)
        fact = QueueGivenUp(kind=work.kind, work=work.key, times=work.tries, error_code=code)
        self._publish_in(tx, work.tenant, None).publish(fact)

    async def _let_go(self, work: Work) -> None:
        """The end of it could not be written down; try for as long as this runs, else it is held until that ends."""
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            try:
                return await self._database.write(lambda tx: queue.put_back(tx, work))
            except PaddockError as error:
                _log.warning("%s %s is still held: %s", work.kind, work.key, error.message)

    async def finish(self) -> None:
        """Let what runs come to its end, for some seconds; what does not is put back for another."""
        running = dict(self._running)
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=_SECONDS_TO_END)
        for task in late:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        left = [running[task] for task in late]
        if left:
            try:
                async with asyncio.timeout(_SECONDS_TO_PUT_BACK):
                    await self._database.write(lambda tx: [queue.put_back(tx, work) for work in left])
            except (PaddockError, TimeoutError):
                pass  # it is free when this node leaves


@asynccontextmanager
async def open_worker(worker: Worker, node: Node) -> AsyncGenerator[Worker, None]:
    """Have the worker work for as long as the block runs."""
    looking = asyncio.create_task(worker.work_forever(), name="do what is due")
    node.after_over.append(worker.wake)
    try:
        yield worker
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await worker.finish()
