"""Calls whose operators are still at work, for whoever makes them and waits for their ends.

An operator that answers `in_progress` has begun, and says that it is not through. It is called again with the same key
and parameters, and with what it said last; the call is over once it answers otherwise.

A call with an effect lies in the queue meanwhile. Its record stays `started` and belongs to no host, so nobody who dies
takes it along; whichever daemon takes it from the queue asks, see `looks.py`. Whoever comes with the same key waits for
the same end. When the time is up, nobody knows what became of it. A call that only reads is asked for by whoever waits
for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import orjson

from paddock.core.call import CallContext, SoFar
from paddock.core.clock import Clock
from paddock.core.errors import Busy, Conflict, HostError, PaddockError, PluginError
from paddock.core.event import Event
from paddock.core.events_effects import EffectInProgress
from paddock.core.ids import CallId, Tenant
from paddock.gate.asking_again import MOST_ASKED, Progress, pause_before, too_long
from paddock.gate.catalogue import Target
from paddock.gate.course import Course
from paddock.gate.effects import records
from paddock.gate.effects.errors import gone, in_doubt
from paddock.gate.effects.machine import State
from paddock.gate.effects.records import Effect
from paddock.gate.finishing import finished
from paddock.gate.kept_calls import context_of
from paddock.gate.looks import FOLLOW, Looks
from paddock.plugins.runtimes.envelopes import InProgress
from paddock.queue import queue
from paddock.queue.node import Node
from paddock.rpc.faults import NO_EFFECT
from paddock.store.database import Database, Transaction

_LOOK_AGAIN = 5.0  # seconds, for what other daemons end
_LOOK_FOR_OWN = 0.2

_log = logging.getLogger("paddock.gate")


class Following:
    """Has calls followed to their ends.

    Args:
        database: Where their records and the queue are.
        clock: The time.
        node: In whose name a command takes its own call from the queue.
        looks: Asks operators.
        record_in: Writes an entry of a call, in a unit of work.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        node: Node,
        looks: Looks,
        record_in: Callable[[Transaction, Course, Event], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._node = node
        self._record_in = record_in
        self.looks = looks
        self.waits = looks.waits
        self.when_parked: Callable[[], None] | None = None  # wakes the worker of this host, where it has one

    async def ask_until_over(self, course: Course, going: InProgress) -> Any:
        """What comes of a call that only reads. Nothing of it is kept: it ends with whoever waits for it.

        Raises:
            TimedOut: its time is up.
            PaddockError: see `Supervisor.call`.
        """
        until = self._clock.monotonic() + self.looks.longest
        for asked in range(1, MOST_ASKED):
            wait = pause_before(asked, going.retry_after)
            if self._clock.monotonic() + wait > until:
                break
            await asyncio.sleep(wait)
            context = replace(course.context, so_far=SoFar(asked, going.result))
            try:
                return await self.looks.ask(course, context, fate=course.fate)
            except InProgress as still:
                going = still
        raise too_long(course.target.key.plugin, self.looks.longest)

    async def park(self, course: Course, going: InProgress) -> None:
        """Have a call with an effect followed to its end, whatever becomes of whoever made it.

        Raises:
            PaddockError: it cannot be: nobody knows what becomes of it then.
        """
        if course.effect is None or course.effect.recovery == "atomic":
            raise PluginError(
                f"{course.target.title} is atomic, and such a call is over with its answer",
                code="call.cannot_go_on",
                hint="its author declares another recovery, or does not answer in_progress",
                details={"plugin": course.target.key.plugin},
            )
        effect, now = course.effect, self._clock.now()
        progress = Progress.begun(going, now, self.looks.longest)
        due = now + timedelta(seconds=pause_before(1, going.retry_after))
        policy = course.context.policy

        def unit(tx: Transaction) -> None:
            known = records.find(tx, effect.of)
            kept = dict((known.context if known else None) or {})
            if policy is not None:
                kept["policy"] = asdict(policy)
            records.park(tx, effect, context=progress.kept_in(kept))
            queue.put(tx, effect.of.tenant, FOLLOW, effect.call, due=due, now=now)
            told = EffectInProgress(effect.of.plugin, effect.of.callable, progress.until)
            self._record_in(tx, course, told)

        async def park() -> None:
            await self._database.write(unit)
            course.parked = True
            self.waits.made_here(course)
            if self.when_parked is not None:
                self.when_parked()

        await finished(park())

    async def end_of(self, tenant: Tenant, call: CallId) -> Any:
        """What comes of a call that was parked, whoever follows it. Whoever stops waiting stops nothing.

        Raises:
            PaddockError: it failed, or nobody knows what became of it.
        """
        with self.waits.waiting(call) as wait:
            while wait.error is None:
                effect = await self._find(tenant, call)
                if not effect.parked:
                    return _outcome(effect)
                if self.when_parked is None:
                    await self._follow_own(effect)
                else:
                    await wait.a_while(_LOOK_AGAIN)
            raise wait.error

    async def so_far(self, tenant: Tenant, call: CallId) -> dict[str, Any] | None:
        """How a call in progress is doing, as data; None where it is over, or nothing of it is kept."""

        def unit(tx: Transaction) -> dict[str, Any] | None:
            effect = records.find_call(tx, tenant, call)
            progress = None if effect is None or not effect.parked else Progress.of(effect)
            due = queue.due_of(tx, tenant, FOLLOW, call)
            return None if progress is None else asdict(progress) | {"next": None if due is None else due.isoformat()}

        return await self._database.read(unit)

    async def all_parked(self, limit: int) -> list[tuple[Effect, Target, CallContext]]:
        """The calls that are in progress, of plugins and makers that are there."""
        found: list[tuple[Effect, Target, CallContext]] = []
        for effect in await self._database.read(lambda tx: records.all_parked(tx, limit)):
            try:
                target = self.looks.target(effect)
                context = await context_of(effect, self._database, self._clock.now())
            except PaddockError as error:
                _log.warning("the call %s is in progress, and cannot be shown here: %s", effect.call, error.message)
            else:
                found.append((effect, target, context))
        return found

    async def follow_again(self) -> None:
        """Have work followed that nobody follows any more."""
        left, now = await self._database.read(records.nobody_follows), self._clock.now()

        def unit(tx: Transaction) -> None:
            for effect in left:
                with suppress(Busy):  # then at the next start
                    queue.put(tx, effect.of.tenant, FOLLOW, effect.call, due=now, now=now)

        if left:
            await self._database.write(unit)

    async def _follow_own(self, effect: Effect) -> None:
        """Ask in the name of whoever waits: a command has no worker, and there may be no daemon."""
        work = await self._taken(effect)
        if work is None:
            await asyncio.sleep(_LOOK_FOR_OWN)
            return
        try:
            again = await self.looks.follow(work)
            now = self._clock.now()
            await self._database.write(
                lambda tx: queue.done(tx, work) if again is None else queue.again(tx, work, again.due, now=now)
            )
        except HostError as error:
            if error.error_code != "queue.stale":  # else another has it by now
                await self._put_back(work)
                raise
        except BaseException:
            await self._put_back(work)
            raise

    async def _taken(self, effect: Effect) -> queue.Work | None:
        """The work on a call, where it is due and nobody has it."""
        of, now = effect.of, self._clock.now()
        try:
            here = await self._node.here()
            return await self._database.write(
                lambda tx: queue.take_this(tx, here, of.tenant, FOLLOW, effect.call, now=now)
            )
        except HostError as error:
            if error.error_code != "node.lost":
                raise
            return None  # this host goes on under another epoch soon

    async def _put_back(self, work: queue.Work) -> None:
        await finished(self._database.write(lambda tx: queue.put_back(tx, work)))

    async def _find(self, tenant: Tenant, call: CallId) -> Effect:
        effect = await self._database.read(lambda tx: records.find_call(tx, tenant, call))
        if effect is None:
            raise Conflict("nothing is known of the call any more", code=records.STALE, details={"call_id": call})
        return effect


def _outcome(effect: Effect) -> Any:
    match effect.state:
        case State.SUCCEEDED if effect.result is not None:
            return orjson.loads(effect.result)
        case State.SUCCEEDED:
            raise gone(effect.of)
        case State.FAILED_NO_EFFECT:
            said = effect.error or {}
            raise PluginError(
                str(said.get("message") or "it failed, and nothing happened"),
                code=said.get("code"),
                details={"plugin": effect.of.plugin, "call_id": effect.call, NO_EFFECT: True},
            )
        case _:
            raise in_doubt(effect)
