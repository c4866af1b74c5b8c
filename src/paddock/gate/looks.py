"""Looks at work in progress: each asks an operator once more, and records the end of its call where that has come.

Whoever takes a call from the queue raises the fence of its record first. Of two who both think that it is theirs, since
one was taken for dead and lives, only the second is served at the door back, and only its word counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError, StoreUnavailable
from paddock.core.ids import CallId, Tenant
from paddock.gate.asking_again import A_DAY, Progress, too_long
from paddock.gate.catalogue import Catalogue, Target
from paddock.gate.course import CallCancelled, Course
from paddock.gate.effects import records
from paddock.gate.effects.errors import doubtful
from paddock.gate.effects.machine import OVER, State
from paddock.gate.effects.records import Effect
from paddock.gate.finishing import finished
from paddock.gate.kept_calls import context_of
from paddock.gate.once import Effects
from paddock.gate.waits import Waits
from paddock.plugins.runtimes.envelopes import InProgress, OutputInvalid
from paddock.plugins.supervision.flight import Fate
from paddock.plugins.supervision.supervisor import Supervisor
from paddock.queue import queue
from paddock.queue.queue import Work
from paddock.queue.schedule import Again
from paddock.rpc.faults import NO_EFFECT
from paddock.store.database import Database, Transaction

FOLLOW = "effect.follow"  # the kind of work that asks an operator again
_UNTIL_RECORDED = timedelta(seconds=5)

_log = logging.getLogger("paddock.gate")


class Looks:
    """Asks operators, and ends calls.

    Args:
        database: Where their records and the queue are.
        clock: The time.
        effects: Where ends are recorded.
        supervisor: Where operators are asked.
        room: Waits until more can be recorded of a tenant.
        catalogue: What a tenant can call.
        require_promised: Refuses an answer that is not what was promised.
        told: Hears of each call that has ended here.
        longest: Seconds after which nobody asks any more.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        effects: Effects,
        supervisor: Supervisor,
        *,
        room: Callable[[str], Awaitable[None]],
        catalogue: Callable[[Tenant], Catalogue],
        require_promised: Callable[[Target, Any], Awaitable[None]],
        told: Callable[[Course], None],
        longest: float = A_DAY,
    ) -> None:
        self._database = database
        self._clock = clock
        self._effects = effects
        self._supervisor = supervisor
        self._room = room
        self._catalogue = catalogue
        self._require_promised = require_promised
        self._told = told
        self.longest = longest
        self.waits = Waits()

    def target(self, effect: Effect) -> Target:
        """The operator that a call was made to, as it is now.

        Raises:
            NotFound: it is not there any more.
        """
        return self._catalogue(effect.of.tenant).find_in(effect.of.plugin, effect.of.callable)

    async def ask(self, course: Course, context: CallContext, *, fate: Fate | None = None) -> Any:
        """What an operator answers.

        Raises:
            InProgress: it is still at work.
            OutputInvalid: that is not what it promised.
            PaddockError: see `Supervisor.call`.
        """
        target, payload = course.target, dict(course.payload)
        result = await self._supervisor.call(
            target.key, target.spec, payload, context, call=course.call, tally=course.tally, fate=fate
        )
        await self._require_promised(target, result)
        return result

    async def follow(self, work: Work) -> Again | None:
        """Ask an operator once more; for the worker of the queue.

        Raises:
            HostError: `queue.stale`, another has taken the work.
        """
        call = CallId(work.key)
        if self._effects.has_end(call):  # its fence stays: that end bears it
            return Again(self._clock.now() + _UNTIL_RECORDED)
        effect = await self._database.write(lambda tx: _taken(tx, work))
        if effect is None:
            self.waits.end(call)
            return None
        progress = Progress.of(effect)
        if progress is None or progress.too_long(self._clock.now()):
            late = too_long(effect.of.plugin, self.longest)
            return await self._ended(effect, await self._known(effect), None, late)
        return await self._look(work, effect, progress)

    def given_up(self, tx: Transaction, work: Work, code: str) -> None:
        """Hosts died over it again and again, in the unit of work in which nobody tries any more."""
        effect = records.find_call(tx, work.tenant, work.key)
        if effect is not None and effect.parked:
            self._effects.lose(tx, effect, {"code": code, "message": "nobody could ask its plugin about it"})

    async def cancel(self, tenant: Tenant, call: CallId) -> bool:
        """Ask no more. Its operator cannot be told, so nobody knows what becomes of the call. Harmless when it is over,
        or only its end not recorded yet, which then is. Gives whether it is over: whoever waits learns how.

        Raises:
            StoreUnavailable: that cannot be recorded now.
        """
        if self._effects.has_end(call):
            await self._effects.settle_again()
        known = await self._database.read(lambda tx: records.find_call(tx, tenant, call))
        if known is None or not known.parked:
            return known is not None and known.state in (*OVER, State.IN_DOUBT)
        course = await self._known(known)
        effect = await self._database.write(lambda tx: _withdrawn(tx, tenant, call))
        if effect is not None:
            told = doubtful(CallCancelled("the call was cancelled"), effect)
            await self._end(effect, course, None, asyncio.CancelledError(), told=told)
        return True

    async def _look(self, work: Work, effect: Effect, progress: Progress) -> Again | None:
        going: InProgress | None = None
        try:
            await self._room(effect.of.tenant)
            target, context = self.target(effect), await self._context(effect)
            course = self.waits.course(effect.call) or self._rebuilt(effect, target, context)
            course.target = target  # it may be another version by now
            result = await self.ask(course, replace(context, so_far=progress.so_far))
        except InProgress as still:
            going = still
        except PaddockError as error:
            if isinstance(error, OutputInvalid) or "envelope" in error.details:
                return await self._ended(effect, await self._known(effect), None, error)
            # It was not asked, or did not get to an answer: its work goes on all the same.
            _log.warning("%s could not be asked about the call %s: %s", effect.of.plugin, effect.call, error.message)
        else:
            return await self._ended(effect, course, result, None)
        progress = progress.after_a_look(going)
        await self._database.write(lambda tx: _goes_on(tx, work, effect, progress))
        return Again(progress.due(self._clock.now(), None if going is None else going.retry_after))

    async def _ended(
        self, effect: Effect, course: Course | None, result: Any, error: PaddockError | None
    ) -> Again | None:
        try:
            await self._end(effect, course, result, error)
        except StoreUnavailable:
            return Again(self._clock.now() + _UNTIL_RECORDED)
        return None

    async def _end(
        self,
        effect: Effect,
        course: Course | None,
        result: Any,
        error: BaseException | None,
        *,
        told: PaddockError | None = None,
    ) -> None:
        """Record the end of a call, and tell those who wait for it.

        Raises:
            StoreUnavailable: it cannot be recorded now.
        """
        known = await self._database.read(lambda tx: records.find_call(tx, effect.of.tenant, effect.call))
        if known is None or not known.parked or known.fence != effect.fence:
            _log.warning("what was heard of the call %s counts for nothing: another follows it", effect.call)
            return
        if course is None:  # its plugin or its maker is gone, and with them what its entry would say
            said = error if isinstance(error, PaddockError) else CallCancelled("the call was cancelled")
            lost = {"code": said.error_code, "message": said.message}
            await self._database.write(lambda tx: self._effects.lose(tx, effect, lost))
            self.waits.end(effect.call)
            return
        course.effect, course.fate = effect, Fate()
        course.fate.sent, course.fate.refused = True, _nothing_happened(error)
        course.end(self._clock.monotonic(), result, error)
        failure = error if isinstance(error, PaddockError) else told
        unrecorded: StoreUnavailable | None = None
        try:
            await finished(self._effects.settle(course, result, error))
        except StoreUnavailable as said:
            failure = unrecorded = said
        except PaddockError as said:
            failure = said
        finally:
            self._told(course)
        # Whoever is cancelled does not get here, and cannot say what is recorded: those who wait look by themselves.
        self.waits.end(effect.call, failure)
        if unrecorded is not None:
            raise unrecorded

    async def _known(self, effect: Effect) -> Course | None:
        """A call as it was made here, or as far as it is known; None where its plugin or its maker is not there."""
        course = self.waits.course(effect.call)
        if course is not None:
            return course
        try:
            return self._rebuilt(effect, self.target(effect), await self._context(effect))
        except StoreUnavailable:
            raise
        except PaddockError:
            return None

    def _rebuilt(self, effect: Effect, target: Target, context: CallContext) -> Course:
        took = (self._clock.now() - datetime.fromisoformat(effect.started_at or effect.claimed_at)).total_seconds()
        course = Course(effect.call, target, effect.payload or {}, context, self._clock.monotonic() - max(took, 0))
        course.started = course.ran = True
        return course

    async def _context(self, effect: Effect) -> CallContext:
        return await context_of(effect, self._database, self._clock.now(), fence=effect.fence)


def _taken(tx: Transaction, work: Work) -> Effect | None:
    queue.require_held(tx, work)
    return _taken_over(tx, work.tenant, work.key)


def _taken_over(tx: Transaction, tenant: Tenant, call: str) -> Effect | None:
    """Have the word in a call from here on; None where it is over."""
    effect = records.find_call(tx, tenant, call)
    return records.take_over(tx, effect) if effect is not None and effect.parked else None


def _withdrawn(tx: Transaction, tenant: Tenant, call: str) -> Effect | None:
    """The same, and nobody can have it after us: whoever took it from the queue now would have the last word."""
    effect = _taken_over(tx, tenant, call)
    if effect is not None:
        queue.drop(tx, tenant, FOLLOW, call)
    return effect


def _goes_on(tx: Transaction, work: Work, effect: Effect, progress: Progress) -> None:
    queue.require_held(tx, work)
    known = records.find_call(tx, effect.of.tenant, effect.call)
    if known is None or not known.parked or known.fence != effect.fence:
        return  # it was cancelled, or its plugin uninstalled: the next look finds that out
    records.park(tx, known, context=progress.kept_in(known.context or {}))


def _nothing_happened(error: BaseException | None) -> bool:
    """Whether an operator says so itself. That it refuses to be asked says nothing about what it has begun."""
    envelope: Any = error.details.get("envelope") if isinstance(error, PaddockError) else None
    said: Any = cast("dict[str, Any]", envelope).get("error") if isinstance(envelope, dict) else None
    return isinstance(said, dict) and cast("dict[str, Any]", said).get(NO_EFFECT) is True
