"""Those of this host who wait for the ends of calls that are in progress. Nothing is kept of calls that nobody waits
for: another daemon may end them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast

from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError, StoreUnavailable
from paddock.core.ids import CallId, Tenant
from paddock.core.tasks import run_to_completion
from paddock.gate.catalogue.catalogue import CallTarget, Catalogue
from paddock.gate.effects.context import restore_context
from paddock.gate.effects.coordinator import EffectCoordinator
from paddock.gate.effects.poll_state import DEFAULT_MAX_PROGRESS_S, PollState, progress_timeout_error
from paddock.gate.idempotency import records
from paddock.gate.idempotency.errors import with_unknown_outcome
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.idempotency.states import FINAL_STATES, EffectState
from paddock.gate.invocation import CallCancelled, Invocation
from paddock.plugins.dialects.envelope import InProgress, OutputInvalid
from paddock.queue import queue
from paddock.queue.queue import Job
from paddock.queue.schedule import RescheduleAt
from paddock.rpc.errors import NO_EFFECT
from paddock.runtime.calls import DeliveryStatus
from paddock.runtime.supervisor import Supervisor
from paddock.store.database import Database, Transaction


@dataclass(slots=True, eq=False)
class CompletionWait:
    """The end of one call."""

    invocation: Invocation | None = None  # of a call that was made here
    error: BaseException | None = None
    waiters: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_up_to(self, seconds: float) -> None:
        """Until it has come here, or that long: it may come elsewhere."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.over.wait()


class CompletionWaiters:
    """Who waits, by call."""

    def __init__(self) -> None:
        self._waits: dict[CallId, CompletionWait] = {}

    def __len__(self) -> int:
        return len(self._waits)

    def register(self, course: Invocation) -> None:
        """A call of this host is in progress; whoever made it waits from now on."""
        self._waits.setdefault(course.call_id, CompletionWait()).invocation = course

    @contextmanager
    def wait_for(self, call: CallId) -> Generator[CompletionWait, None, None]:
        """Wait for the end of a call while the block runs."""
        wait = self._waits.setdefault(call, CompletionWait())
        wait.waiters += 1
        try:
            yield wait
        finally:
            wait.waiters -= 1
            if not wait.waiters and self._waits.get(call) is wait:
                del self._waits[call]

    def find_invocation(self, call: CallId) -> Invocation | None:
        """A call as it was made here, where somebody still waits for it."""
        wait = self._waits.get(call)
        return None if wait is None else wait.invocation

    def complete(self, call: CallId, error: BaseException | None = None) -> None:
        """It is over: with this error, or with what its record says."""
        wait = self._waits.pop(call, None)
        if wait is not None:
            wait.error = error
            wait.over.set()


POLL_JOB = "effect.follow"  # the kind of work that asks an operator again
_RECORD_RETRY_DELAY = timedelta(seconds=5)

_log = logging.getLogger("paddock.gate")


class OperatorPoller:
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
        effects: EffectCoordinator,
        supervisor: Supervisor,
        *,
        room: Callable[[str], Awaitable[None]],
        catalogue: Callable[[Tenant], Catalogue],
        require_promised: Callable[[CallTarget, Any], Awaitable[None]],
        told: Callable[[Invocation], None],
        longest: float = DEFAULT_MAX_PROGRESS_S,
    ) -> None:
        self._database = database
        self._clock = clock
        self._effects = effects
        self._supervisor = supervisor
        self._wait_for_capacity = room
        self._catalogue = catalogue
        self._validate_output = require_promised
        self._notify_ended = told
        self.max_progress_s = longest
        self.waiters = CompletionWaiters()

    def find_target(self, effect: IdempotencyRecord) -> CallTarget:
        """The operator that a call was made to, as it is now.

        Raises:
            NotFound: it is not there any more.
        """
        return self._catalogue(effect.effect_key.tenant).find_callable(
            effect.effect_key.plugin, effect.effect_key.callable
        )

    async def call_operator(
        self, course: Invocation, context: CallContext, *, fate: DeliveryStatus | None = None
    ) -> Any:
        """What an operator answers.

        Raises:
            InProgress: it is still at work.
            OutputInvalid: that is not what it promised.
            PaddockError: see `Supervisor.call`.
        """
        target, payload = course.target, dict(course.payload)
        result = await self._supervisor.call(
            target.key, target.spec, payload, context, call=course.call_id, method_counts=course.tally, status=fate
        )
        await self._validate_output(target, result)
        return result

    async def run_job(self, work: Job) -> RescheduleAt | None:
        """Ask an operator once more; for the worker of the queue.

        Raises:
            HostError: `queue.stale`, another has taken the work.
        """
        call = CallId(work.key)
        if self._effects.has_unrecorded_outcome(call):  # its fence stays: that end bears it
            return RescheduleAt(self._clock.now() + _RECORD_RETRY_DELAY)
        effect = await self._database.write(lambda tx: _claim_parked(tx, work))
        if effect is None:
            self.waiters.complete(call)
            return None
        progress = PollState.from_record(effect)
        if progress is None or progress.is_expired(self._clock.now()):
            late = progress_timeout_error(effect.effect_key.plugin, self.max_progress_s)
            return await self._end_or_retry(effect, await self._find_invocation(effect), None, late)
        return await self._poll(work, effect, progress)

    def on_given_up(self, tx: Transaction, work: Job, code: str) -> None:
        """Hosts died over it again and again, in the unit of work in which nobody tries any more."""
        effect = records.find_by_call(tx, work.tenant, work.key)
        if effect is not None and effect.parked:
            self._effects.mark_in_doubt(tx, effect, {"code": code, "message": "nobody could ask its plugin about it"})

    async def cancel(self, tenant: Tenant, call: CallId) -> bool:
        """Ask no more. Its operator cannot be told, so nobody knows what becomes of the call. Harmless when it is over,
        or only its end not recorded yet, which then is. Gives whether it is over: whoever waits learns how.

        Raises:
            StoreUnavailable: that cannot be recorded now.
        """
        if self._effects.has_unrecorded_outcome(call):
            await self._effects.retry_unrecorded()
        known = await self._database.read(lambda tx: records.find_by_call(tx, tenant, call))
        if known is None or not known.parked:
            return known is not None and known.state in (*FINAL_STATES, EffectState.IN_DOUBT)
        course = await self._find_invocation(known)
        effect = await self._database.write(lambda tx: _withdraw(tx, tenant, call))
        if effect is not None:
            told = with_unknown_outcome(CallCancelled("the call was cancelled"), effect)
            await self._record_end(effect, course, None, asyncio.CancelledError(), told=told)
        return True

    async def _poll(self, work: Job, effect: IdempotencyRecord, progress: PollState) -> RescheduleAt | None:
        going: InProgress | None = None
        try:
            await self._wait_for_capacity(effect.effect_key.tenant)
            target, context = self.find_target(effect), await self._restore_context(effect)
            course = self.waiters.find_invocation(effect.call) or self._rebuild_invocation(effect, target, context)
            course.target = target  # it may be another version by now
            result = await self.call_operator(course, replace(context, so_far=progress.operator_progress))
        except InProgress as still:
            going = still
        except PaddockError as error:
            if isinstance(error, OutputInvalid) or "envelope" in error.details:
                return await self._end_or_retry(effect, await self._find_invocation(effect), None, error)
            # It was not asked, or did not get to an answer: its work goes on all the same.
            _log.warning(
                "%s could not be asked about the call %s: %s", effect.effect_key.plugin, effect.call, error.message
            )
        else:
            return await self._end_or_retry(effect, course, result, None)
        progress = progress.after_poll(going)
        await self._database.write(lambda tx: _store_poll(tx, work, effect, progress))
        return RescheduleAt(progress.next_poll_at(self._clock.now(), None if going is None else going.retry_after))

    async def _end_or_retry(
        self, effect: IdempotencyRecord, course: Invocation | None, result: Any, error: PaddockError | None
    ) -> RescheduleAt | None:
        try:
            await self._record_end(effect, course, result, error)
        except StoreUnavailable:
            return RescheduleAt(self._clock.now() + _RECORD_RETRY_DELAY)
        return None

    async def _record_end(
        self,
        effect: IdempotencyRecord,
        course: Invocation | None,
        result: Any,
        error: BaseException | None,
        *,
        told: PaddockError | None = None,
    ) -> None:
        """Record the end of a call, and tell those who wait for it.

        Raises:
            StoreUnavailable: it cannot be recorded now.
        """
        known = await self._database.read(lambda tx: records.find_by_call(tx, effect.effect_key.tenant, effect.call))
        if known is None or not known.parked or known.fence != effect.fence:
            _log.warning("what was heard of the call %s counts for nothing: another follows it", effect.call)
            return
        if course is None:  # its plugin or its maker is gone, and with them what its entry would say
            said = error if isinstance(error, PaddockError) else CallCancelled("the call was cancelled")
            lost = {"code": said.error_code, "message": said.message}
            await self._database.write(lambda tx: self._effects.mark_in_doubt(tx, effect, lost))
            self.waiters.complete(effect.call)
            return
        course.effect, course.delivery = effect, DeliveryStatus()
        course.delivery.sent, course.delivery.refused = True, _reports_no_effect(error)
        course.finish(self._clock.monotonic(), result, error)
        failure = error if isinstance(error, PaddockError) else told
        unrecorded: StoreUnavailable | None = None
        try:
            await run_to_completion(self._effects.record_outcome(course, result, error))
        except StoreUnavailable as said:
            failure = unrecorded = said
        except PaddockError as said:
            failure = said
        finally:
            self._notify_ended(course)
        # Whoever is cancelled does not get here, and cannot say what is recorded: those who wait look by themselves.
        self.waiters.complete(effect.call, failure)
        if unrecorded is not None:
            raise unrecorded

    async def _find_invocation(self, effect: IdempotencyRecord) -> Invocation | None:
        """A call as it was made here, or as far as it is known; None where its plugin or its maker is not there."""
        course = self.waiters.find_invocation(effect.call)
        if course is not None:
            return course
        try:
            return self._rebuild_invocation(effect, self.find_target(effect), await self._restore_context(effect))
        except StoreUnavailable:
            raise
        except PaddockError:
            return None

    def _rebuild_invocation(self, effect: IdempotencyRecord, target: CallTarget, context: CallContext) -> Invocation:
        took = (self._clock.now() - datetime.fromisoformat(effect.started_at or effect.claimed_at)).total_seconds()
        course = Invocation(effect.call, target, effect.payload or {}, context, self._clock.monotonic() - max(took, 0))
        course.started = course.ran = True
        return course

    async def _restore_context(self, effect: IdempotencyRecord) -> CallContext:
        return await restore_context(effect, self._database, self._clock.now(), fence=effect.fence)


def _claim_parked(tx: Transaction, work: Job) -> IdempotencyRecord | None:
    queue.require_held(tx, work)
    return _raise_fence_of(tx, work.tenant, work.key)


def _raise_fence_of(tx: Transaction, tenant: Tenant, call: str) -> IdempotencyRecord | None:
    """Have the word in a call from here on; None where it is over."""
    effect = records.find_by_call(tx, tenant, call)
    return records.raise_fence(tx, effect) if effect is not None and effect.parked else None


def _withdraw(tx: Transaction, tenant: Tenant, call: str) -> IdempotencyRecord | None:
    """The same, and nobody can have it after us: whoever took it from the queue now would have the last word."""
    effect = _raise_fence_of(tx, tenant, call)
    if effect is not None:
        queue.remove(tx, tenant, POLL_JOB, call)
    return effect


def _store_poll(tx: Transaction, work: Job, effect: IdempotencyRecord, progress: PollState) -> None:
    queue.require_held(tx, work)
    known = records.find_by_call(tx, effect.effect_key.tenant, effect.call)
    if known is None or not known.parked or known.fence != effect.fence:
        return  # it was cancelled, or its plugin uninstalled: the next look finds that out
    records.park(tx, known, context=progress.stored_in(known.context or {}))


def _reports_no_effect(error: BaseException | None) -> bool:
    """Whether an operator says so itself. That it refuses to be asked says nothing about what it has begun."""
    envelope: Any = error.details.get("envelope") if isinstance(error, PaddockError) else None
    said: Any = cast("dict[str, Any]", envelope).get("error") if isinstance(envelope, dict) else None
    return isinstance(said, dict) and cast("dict[str, Any]", said).get(NO_EFFECT) is True
