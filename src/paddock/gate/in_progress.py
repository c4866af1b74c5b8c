"""Calls whose operators are still at work: they are asked again and again, across restarts, and not for ever.

An operator that answers `in_progress` has begun, and says that it is not through. It is called again with the same key
and parameters, and with what it said last; the call is over once it answers otherwise.

A call with an effect lies in the queue meanwhile. Its record stays `started` and belongs to no host, so nobody who dies
takes it along; whichever daemon takes it from the queue asks. Whoever comes with the same key waits for the same end.
When the time is up, nobody knows what became of it. A call that only reads is asked for by whoever waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast

import orjson

from paddock.core.call import CallContext, PolicySnapshot, SoFar
from paddock.core.clock import Clock
from paddock.core.errors import Conflict, HostError, PaddockError, PluginError, StoreUnavailable, TimedOut
from paddock.core.event import Event
from paddock.core.events_effects import EffectInProgress
from paddock.core.ids import CallId, Tenant
from paddock.gate.catalogue import Catalogue, Target
from paddock.gate.course import CallCancelled, Course
from paddock.gate.effects import records
from paddock.gate.effects.errors import gone, in_doubt
from paddock.gate.effects.machine import State
from paddock.gate.effects.records import Effect
from paddock.gate.finishing import finished
from paddock.gate.held import context_again
from paddock.gate.once import Effects
from paddock.plugins.runtimes.envelopes import InProgress, OutputInvalid
from paddock.plugins.supervision.flight import Fate
from paddock.plugins.supervision.supervisor import Supervisor
from paddock.principals.subjects import principal_of
from paddock.queue import queue
from paddock.queue.node import Node
from paddock.queue.queue import Work
from paddock.queue.schedule import Again, Pauses, pause
from paddock.rpc.faults import NO_EFFECT
from paddock.store.database import Database, Transaction

FOLLOW = "effect.follow"  # the kind of work that asks an operator again
A_DAY = 86_400.0
MOST_ASKED = 10_000
SHORTEST_PAUSE = 0.2  # seconds, whatever an operator says
LONGEST_PAUSE = 3600.0
_DOUBLING = Pauses(longest=60.0)  # where it says nothing
_LOOK_AGAIN = 5.0  # seconds, for what other daemons end
_LOOK_FOR_OWN = 0.2
_UNTIL_RECORDED = timedelta(seconds=5)

_log = logging.getLogger("paddock.gate")


@dataclass(frozen=True, slots=True)
class _Progress:
    """What is kept of work in progress, beside what its call was made with."""

    until: str
    asked: int
    result: Any

    @staticmethod
    def of(effect: Effect) -> _Progress:
        return _Progress(**(effect.context or {})["in_progress"])


@dataclass(slots=True)
class _Wait:
    """Those of this host who wait for the end of one call."""

    over: asyncio.Event = field(default_factory=asyncio.Event)
    error: BaseException | None = None


class Following:
    """Follows calls to their ends.

    Args:
        database: Where their records and the queue are.
        clock: The time.
        node: In whose name a command takes its own call from the queue.
        effects: Where ends are recorded.
        supervisor: Where operators are asked.
        record_in: Writes an entry of a call, in a unit of work.
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
        node: Node,
        effects: Effects,
        supervisor: Supervisor,
        *,
        record_in: Callable[[Transaction, Course, Event], None],
        room: Callable[[str], Awaitable[None]],
        catalogue: Callable[[Tenant], Catalogue],
        require_promised: Callable[[Target, Any], Awaitable[None]],
        told: Callable[[Course], None],
        longest: float = A_DAY,
    ) -> None:
        self._database = database
        self._clock = clock
        self._node = node
        self._effects = effects
        self._supervisor = supervisor
        self._record_in = record_in
        self._room = room
        self._catalogue = catalogue
        self._require_promised = require_promised
        self._told = told
        self._longest = longest
        self.when_parked: Callable[[], None] | None = None  # wakes the worker of this host, where it has one
        self._courses: dict[CallId, Course] = {}  # of calls that were made here
        self._waits: dict[CallId, _Wait] = {}
        self._unrecorded: set[CallId] = set()  # whose end is known, and cannot be recorded right now

    # --- whoever makes a call -----------------------------------------------------------------------------------------

    async def ask_until_over(self, course: Course, going: InProgress) -> Any:
        """What comes of a call that only reads. Nothing of it is kept: it ends with whoever waits for it.

        Raises:
            TimedOut: its time is up.
            PaddockError: see `Supervisor.call`.
        """
        target, until = course.target, self._clock.monotonic() + self._longest
        for asked in range(1, MOST_ASKED):
            wait = pause_before(asked, going.retry_after)
            if self._clock.monotonic() + wait > until:
                break
            await asyncio.sleep(wait)
            context = replace(course.context, so_far=SoFar(asked, going.result))
            try:
                result = await self._supervisor.call(
                    target.key,
                    target.spec,
                    course.payload,
                    context,
                    call=course.call,
                    tally=course.tally,
                    fate=course.fate,
                )
            except InProgress as still:
                going = still
            else:
                await self._require_promised(target, result)
                return result
        raise self._too_long(target.key.plugin)

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
        progress = _Progress((now + timedelta(seconds=self._longest)).isoformat(), 1, going.result)
        due = now + timedelta(seconds=pause_before(1, going.retry_after))
        policy = course.context.policy

        def unit(tx: Transaction) -> None:
            known = records.find(tx, effect.of)
            kept = dict((known.context if known else None) or {})
            if policy is not None:
                kept["policy"] = asdict(policy)
            records.park(tx, replace(effect, state=State.STARTED), context=kept | {"in_progress": asdict(progress)})
            queue.put(tx, effect.of.tenant, FOLLOW, effect.call, due=due, now=now)
            told = EffectInProgress(effect.of.plugin, effect.of.callable, progress.until)
            self._record_in(tx, course, told)

        await finished(self._database.write(unit))
        self._courses[course.call] = course
        self._waits.setdefault(course.call, _Wait())
        if self.when_parked is not None:
            self.when_parked()

    async def end_of(self, tenant: Tenant, call: CallId) -> Any:
        """What comes of a call that was parked, whoever follows it. Whoever stops waiting stops nothing.

        Raises:
            PaddockError: it failed, or nobody knows what became of it.
        """
        wait = self._waits.setdefault(call, _Wait())
        while not wait.over.is_set():
            effect = await self._find(tenant, call)
            if not effect.parked:
                self._waits.pop(call, None)
                return _outcome(effect)
            if self.when_parked is None:
                await self._follow_own(effect)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN):
                    await wait.over.wait()
        if wait.error is not None:
            raise wait.error
        return _outcome(await self._find(tenant, call))

    async def cancel(self, tenant: Tenant, call: CallId) -> None:
        """Ask no more. Its operator cannot be told, so nobody knows what becomes of the call. Harmless when it is over.

        Raises:
            StoreUnavailable: that cannot be recorded now.
        """
        effect = await self._database.read(lambda tx: records.find_call(tx, tenant, call))
        if effect is None or not effect.parked:
            return
        await self._end(effect, None, asyncio.CancelledError(), told=CallCancelled("the call was cancelled"))
        await self._database.write(lambda tx: queue.drop(tx, tenant, FOLLOW, call))

    async def all_parked(self, limit: int) -> list[tuple[Effect, Target, CallContext]]:
        """The calls that are in progress, of plugins that are there."""
        found: list[tuple[Effect, Target, CallContext]] = []
        for effect in await self._database.read(lambda tx: records.all_parked(tx, limit)):
            try:
                found.append((effect, self._target(effect), await self._context(effect)))
            except PaddockError as error:
                _log.warning("the call %s is in progress, and its plugin not here: %s", effect.call, error.message)
        return found

    # --- whoever asks -------------------------------------------------------------------------------------------------

    async def follow(self, work: Work) -> Again | None:
        """Ask an operator once more; for the worker of the queue."""
        call = CallId(work.key)
        effect = await self._database.read(lambda tx: records.find_call(tx, work.tenant, call))
        if effect is None or not effect.parked:
            self._over(call, None)
            return None
        if call in self._unrecorded:
            return Again(self._clock.now() + _UNTIL_RECORDED)
        progress = _Progress.of(effect)
        if self._clock.now() >= datetime.fromisoformat(progress.until) or progress.asked >= MOST_ASKED:
            return await self._ended(effect, None, self._too_long(effect.of.plugin))
        retry_after = None
        try:
            result = await self._asked(effect, progress)
        except InProgress as going:
            progress, retry_after = replace(progress, result=going.result), going.retry_after
        except PaddockError as error:
            if isinstance(error, OutputInvalid) or "envelope" in error.details:
                return await self._ended(effect, None, error)
            # It was not asked, or did not get to an answer: its work goes on all the same.
            _log.warning("%s could not be asked about the call %s: %s", effect.of.plugin, call, error.message)
        else:
            return await self._ended(effect, result, None)
        progress = replace(progress, asked=progress.asked + 1)
        kept = {**(effect.context or {}), "in_progress": asdict(progress)}
        await self._database.write(lambda tx: records.park(tx, effect, context=kept))
        return self._again(progress, retry_after)

    def given_up(self, tx: Transaction, work: Work, code: str) -> None:
        """Hosts died over it again and again, in the unit of work in which nobody tries any more."""
        effect = records.find_call(tx, work.tenant, work.key)
        if effect is not None and effect.parked:
            self._effects.lose(tx, effect, {"code": code, "message": "nobody could ask its plugin about it"})

    async def _asked(self, effect: Effect, progress: _Progress) -> Any:
        await self._room(effect.of.tenant)
        target, context = self._target(effect), await self._context(effect)
        made_here = self._courses.get(effect.call)
        result = await self._supervisor.call(
            target.key,
            target.spec,
            dict(effect.payload or {}),
            replace(context, so_far=SoFar(progress.asked, progress.result)),
            call=effect.call,
            tally=None if made_here is None else made_here.tally,
        )
        await self._require_promised(target, result)
        return result

    def _again(self, progress: _Progress, retry_after: float | None) -> Again:
        due = self._clock.now() + timedelta(seconds=pause_before(progress.asked, retry_after))
        return Again(min(due, datetime.fromisoformat(progress.until)))

    async def _ended(self, effect: Effect, result: Any, error: PaddockError | None) -> Again | None:
        try:
            await self._end(effect, result, error)
        except StoreUnavailable:
            self._unrecorded.add(effect.call)
            return Again(self._clock.now() + _UNTIL_RECORDED)
        return None

    async def _end(
        self, effect: Effect, result: Any, error: BaseException | None, told: PaddockError | None = None
    ) -> None:
        """Record the end of a call, and tell those who wait for it.

        Raises:
            StoreUnavailable: it cannot be recorded now.
        """
        course = await self._course(effect)
        if course is None:  # its plugin is gone, and with it all that its entry would say
            said = error if isinstance(error, PaddockError) else CallCancelled("the call was cancelled")
            lost = {"code": said.error_code, "message": said.message}
            await self._database.write(lambda tx: self._effects.lose(tx, effect, lost))
            self._over(effect.call, None)
            return
        course.fate = Fate()
        course.fate.sent, course.fate.refused = True, _nothing_happened(error)
        course.end(self._clock.monotonic(), result, error)
        failure: PaddockError | None = None
        try:
            await finished(self._effects.settle(course, result, error))
            failure = error if isinstance(error, PaddockError) else told
        except PaddockError as said:
            failure = said
            if isinstance(said, StoreUnavailable):
                raise
        finally:
            self._told(course)
            self._over(effect.call, failure)

    def _over(self, call: CallId, error: BaseException | None) -> None:
        self._courses.pop(call, None)
        self._unrecorded.discard(call)
        wait = self._waits.pop(call, None)
        if wait is not None:
            wait.error = error
            wait.over.set()

    async def _course(self, effect: Effect) -> Course | None:
        """The call as it was made here, or as far as it is known of one that was made before this host."""
        course = self._courses.get(effect.call)
        if course is None:
            try:
                target, context = self._target(effect), await self._context(effect)
            except PaddockError:
                return None
            now = self._clock.now()
            took = (now - datetime.fromisoformat(effect.started_at or effect.claimed_at)).total_seconds()
            course = Course(effect.call, target, effect.payload or {}, context, self._clock.monotonic() - max(took, 0))
            course.started = course.ran = True
        course.effect = effect
        return course

    async def _follow_own(self, effect: Effect) -> None:
        """Ask in the name of whoever waits: a command has no worker, and there may be no daemon."""
        here, of = await self._node.here(), effect.of
        now = self._clock.now()
        work = await self._database.write(lambda tx: queue.take_this(tx, here, of.tenant, FOLLOW, effect.call, now=now))
        if work is None:
            await asyncio.sleep(_LOOK_FOR_OWN)
            return
        try:
            again = await self.follow(work)
        except BaseException:
            await finished(self._database.write(lambda tx: queue.put_back(tx, work)))
            raise
        with contextlib.suppress(HostError):  # another has it by now
            await self._database.write(
                lambda tx: queue.done(tx, work) if again is None else queue.again(tx, work, again.due)
            )

    async def _find(self, tenant: Tenant, call: CallId) -> Effect:
        effect = await self._database.read(lambda tx: records.find_call(tx, tenant, call))
        if effect is None:
            raise Conflict("nothing is known of the call any more", code="effect.stale", details={"call_id": call})
        return effect

    def _target(self, effect: Effect) -> Target:
        return self._catalogue(effect.of.tenant).find_in(effect.of.plugin, effect.of.callable)

    async def _context(self, effect: Effect) -> CallContext:
        kept: dict[str, Any] = {"request": effect.call, "tenant": effect.of.tenant, **(effect.context or {})}
        name, now = str(kept.get("principal") or ""), self._clock.now()
        principal = await self._database.read(lambda tx: principal_of(tx, name, effect.of.tenant, now))
        context = context_again(kept, principal)
        return replace(
            context,
            idempotency_key=effect.of.key,
            fence=effect.fence,
            call=effect.call,
            policy=_policy(kept.get("policy")),
        )

    def _too_long(self, plugin: str) -> TimedOut:
        return TimedOut(
            f"{plugin} was not through with it after {self._longest:g} s, and is not asked any more",
            code="call.in_progress_too_long",
            hint="whoever operates the host can give such work more time: limits.in_progress_s",
            details={"plugin": plugin},
        )


def pause_before(asked: int, retry_after: float | None) -> float:
    """Seconds until an operator is asked for this time: as it says, within bounds, else twice as long each time."""
    if retry_after is None:
        return pause(asked, _DOUBLING)
    return min(max(retry_after, SHORTEST_PAUSE), LONGEST_PAUSE)


def _policy(kept: Mapping[str, Any] | None) -> PolicySnapshot | None:
    if kept is None:
        return None
    return PolicySnapshot(kept["decision"], tuple(kept["policies"]), kept["version"], kept["approval"])


def _nothing_happened(error: BaseException | None) -> bool:
    """Whether an operator says so itself. That it refuses to be asked says nothing about what it has begun."""
    envelope: Any = error.details.get("envelope") if isinstance(error, PaddockError) else None
    said: Any = cast("dict[str, Any]", envelope).get("error") if isinstance(envelope, dict) else None
    return isinstance(said, dict) and cast("dict[str, Any]", said).get(NO_EFFECT) is True


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
