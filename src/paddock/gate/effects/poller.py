"""Polling operators that are still at work on a call, and waking the callers of this host who wait for its outcome.

Nothing is kept in memory of calls that nobody waits for: another daemon may record their outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError, StoreUnavailable
from paddock.core.ids import CallId, Tenant
from paddock.core.tasks import run_to_completion
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.effects.coordinator import EffectCoordinator
from paddock.gate.effects.poll_state import DEFAULT_MAX_PROGRESS_S, PollState, progress_timeout_error
from paddock.gate.effects.stored_context import restore_context
from paddock.gate.idempotency import records
from paddock.gate.idempotency.errors import with_unknown_outcome
from paddock.gate.idempotency.records import POLL_JOB, IdempotencyRecord
from paddock.gate.idempotency.states import FINAL_STATES, EffectState
from paddock.gate.invocation import CallCancelled, Invocation
from paddock.plugins.dialects.envelope import InProgress, OutputInvalid
from paddock.queue import queue
from paddock.queue.job import Job
from paddock.queue.schedule import RescheduleAt
from paddock.rpc.errors import NO_EFFECT
from paddock.runtime.calls import DeliveryStatus
from paddock.store.database import Database, Transaction


class CompletionWait(Struct, eq=False):
    """The outcome of one call, for those who wait for it."""

    invocation: Invocation | None = None  # of a call that was made by this host
    error: BaseException | None = None
    waiters: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_up_to(self, seconds: float) -> None:
        """Wait until this host records the outcome, but no longer: another host may record it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.over.wait()


class CompletionWaiters:
    """The waiting callers of this host, by call."""

    def __init__(self) -> None:
        self._waits: dict[CallId, CompletionWait] = {}

    def __len__(self) -> int:
        return len(self._waits)

    def register(self, invocation: Invocation) -> None:
        """Register a call of this host that is in progress; its caller waits from now on."""
        self._waits.setdefault(invocation.call_id, CompletionWait()).invocation = invocation

    @contextmanager
    def wait_for(self, call: CallId) -> Generator[CompletionWait, None, None]:
        """Wait for the outcome of a call while the block runs."""
        wait = self._waits.setdefault(call, CompletionWait())
        wait.waiters += 1
        try:
            yield wait
        finally:
            wait.waiters -= 1
            if not wait.waiters and self._waits.get(call) is wait:
                del self._waits[call]

    def find_invocation(self, call: CallId) -> Invocation | None:
        """The invocation of a call that was made by this host and still has a waiting caller."""
        wait = self._waits.get(call)
        return None if wait is None else wait.invocation

    def complete(self, call: CallId, error: BaseException | None = None) -> None:
        """Wake all who wait for a call: with this error, or with the outcome in its record."""
        wait = self._waits.pop(call, None)
        if wait is not None:
            wait.error = error
            wait.over.set()


_RECORD_RETRY_DELAY = timedelta(seconds=5)

_log = logging.getLogger("paddock.gate")


class OperatorPoller:
    """Calls operators again that are still at work, and records how their calls end.

    Args:
        database: Holds the idempotency records and the queue.
        clock: The time.
        effects: Records outcomes.
        invoke: Calls an operator; see `Gate.invoke`.
        wait_for_room: Waits until the ledger has room for more of a tenant.
        catalogue: Gives the catalogue of a tenant.
        notify_ended: Is told of each call that has ended here.
        max_progress_s: Seconds after which an operator is not called again.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        effects: EffectCoordinator,
        *,
        invoke: Callable[[Invocation], Awaitable[Any]],
        wait_for_room: Callable[[str], Awaitable[None]],
        catalogue: Callable[[Tenant], Catalogue],
        notify_ended: Callable[[Invocation], None],
        max_progress_s: float = DEFAULT_MAX_PROGRESS_S,
    ) -> None:
        self._database = database
        self._clock = clock
        self._effects = effects
        self._wait_for_room = wait_for_room
        self._catalogue = catalogue
        self._notify_ended = notify_ended
        self.invoke = invoke
        self.max_progress_s = max_progress_s
        self.waiters = CompletionWaiters()

    def find_target(self, effect: IdempotencyRecord) -> CallTarget:
        """The current target of a recorded call.

        Raises:
            NotFound: it is gone.
        """
        return self._catalogue(effect.effect_key.tenant).find_callable(
            effect.effect_key.plugin, effect.effect_key.callable
        )

    async def run_job(self, work: Job) -> RescheduleAt | None:
        """Poll an operator once; run by the queue's worker.

        Raises:
            HostError: `queue.stale`, another worker has taken the job.
        """
        call = CallId(work.key)
        if self._effects.outcomes.has_unrecorded_outcome(call):  # its fence stays: that end bears it
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
        """Mark a call in doubt whose job was given up, since host after host died over it; within a transaction."""
        effect = records.find_by_call(tx, work.tenant, work.key)
        if effect is not None and effect.parked:
            error = {"code": code, "message": "its plugin could not be asked whether it is done"}
            self._effects.in_doubt.mark_and_record(tx, effect, error)

    async def cancel(self, tenant: Tenant, call: CallId) -> bool:
        """Stop polling. The operator cannot be told, so the outcome of the call is unknown from here on.

        Harmless when the call is over; an outcome that is known and not recorded yet is recorded. Returns whether the
        call is over: those who wait learn how.

        Raises:
            StoreUnavailable: it cannot be recorded now.
        """
        if self._effects.outcomes.has_unrecorded_outcome(call):
            await self._effects.outcomes.retry_unrecorded()
        known = await self._database.read(lambda tx: records.find_by_call(tx, tenant, call))
        if known is None or not known.parked:
            return known is not None and known.state in (*FINAL_STATES, EffectState.IN_DOUBT)
        invocation = await self._find_invocation(known)
        effect = await self._database.write(lambda tx: _withdraw(tx, tenant, call))
        if effect is not None:
            waiters_error = with_unknown_outcome(CallCancelled("the call was cancelled"), effect)
            await self._record_end(effect, invocation, None, asyncio.CancelledError(), waiters_error)
        return True

    async def _poll(self, work: Job, effect: IdempotencyRecord, progress: PollState) -> RescheduleAt | None:
        pending: InProgress | None = None
        try:
            await self._wait_for_room(effect.effect_key.tenant)
            target, context = self.find_target(effect), await self._restore_context(effect)
            invocation = self.waiters.find_invocation(effect.call) or self._rebuild_invocation(effect, target, context)
            invocation.target = target  # it may be another version by now
            invocation.context = replace(context, so_far=progress.operator_progress, trace=invocation.context.trace)
            result = await self.invoke(invocation)
        except InProgress as still:
            pending = still
        except PaddockError as error:
            if isinstance(error, OutputInvalid) or "envelope" in error.details:
                return await self._end_or_retry(effect, await self._find_invocation(effect), None, error)
            # It was not asked, or did not get to an answer: its work goes on all the same.
            _log.warning(
                "%s could not be asked about the call %s: %s", effect.effect_key.plugin, effect.call, error.message
            )
        else:
            return await self._end_or_retry(effect, invocation, result, None)
        progress = progress.after_poll(pending)
        await self._database.write(lambda tx: _store_poll(tx, work, effect, progress))
        return RescheduleAt(progress.next_poll_at(self._clock.now(), None if pending is None else pending.retry_after))

    async def _end_or_retry(
        self, effect: IdempotencyRecord, invocation: Invocation | None, result: Any, error: PaddockError | None
    ) -> RescheduleAt | None:
        try:
            await self._record_end(effect, invocation, result, error)
        except StoreUnavailable:
            return RescheduleAt(self._clock.now() + _RECORD_RETRY_DELAY)
        return None

    async def _record_end(
        self,
        effect: IdempotencyRecord,
        invocation: Invocation | None,
        result: Any,
        error: BaseException | None,
        waiters_error: PaddockError | None = None,
    ) -> None:
        """Record the outcome of a call, and wake those who wait for it. They get the error, or `waiters_error`.

        Raises:
            StoreUnavailable: it cannot be recorded now.
        """
        known = await self._database.read(lambda tx: records.find_by_call(tx, effect.effect_key.tenant, effect.call))
        if known is None or not known.parked or known.fence != effect.fence:
            _log.warning("the outcome of the call %s is dropped: another host polls it", effect.call)
            return
        if invocation is None:  # its plugin or its caller is gone, and with them the facts for its entry
            reason = error if isinstance(error, PaddockError) else CallCancelled("the call was cancelled")
            record = {"code": reason.error_code, "message": reason.message}
            await self._database.write(lambda tx: self._effects.in_doubt.mark_and_record(tx, effect, record))
            self.waiters.complete(effect.call)
            return
        invocation.effect = effect
        reported = _reported_error(error)
        refused = reported is not None and reported.get(NO_EFFECT) is True
        invocation.delivery = DeliveryStatus(sent=True, answered=reported is not None, refused=refused)
        invocation.finish(self._clock.monotonic(), result, error)
        failure = error if isinstance(error, PaddockError) else waiters_error
        unrecorded: StoreUnavailable | None = None
        try:
            await run_to_completion(self._effects.record_outcome(invocation, result, error))
        except StoreUnavailable as unavailable:
            failure = unrecorded = unavailable
        except PaddockError as final_error:
            failure = final_error
        finally:
            self._notify_ended(invocation)
        # After a cancellation it is unknown what is recorded: those who wait then look for themselves.
        self.waiters.complete(effect.call, failure)
        if unrecorded is not None:
            raise unrecorded

    async def _find_invocation(self, effect: IdempotencyRecord) -> Invocation | None:
        """The invocation of a call, rebuilt where another host made it; None where its plugin or its caller is gone."""
        invocation = self.waiters.find_invocation(effect.call)
        if invocation is not None:
            return invocation
        try:
            return self._rebuild_invocation(effect, self.find_target(effect), await self._restore_context(effect))
        except StoreUnavailable:
            raise
        except PaddockError:
            return None

    def _rebuild_invocation(self, effect: IdempotencyRecord, target: CallTarget, context: CallContext) -> Invocation:
        took = (self._clock.now() - datetime.fromisoformat(effect.started_at or effect.claimed_at)).total_seconds()
        invocation = Invocation(
            effect.call, target, effect.payload or {}, context, self._clock.monotonic() - max(took, 0)
        )
        invocation.started = invocation.ran = True
        return invocation

    async def _restore_context(self, effect: IdempotencyRecord) -> CallContext:
        return await restore_context(effect, self._database, self._clock.now(), fence=effect.fence)


def _claim_parked(tx: Transaction, work: Job) -> IdempotencyRecord | None:
    queue.require_held(tx, work)
    return _raise_fence_of(tx, work.tenant, work.key)


def _raise_fence_of(tx: Transaction, tenant: Tenant, call: str) -> IdempotencyRecord | None:
    """Raise the fence of a call, so that only this host's outcome counts from here on; None where it is over."""
    effect = records.find_by_call(tx, tenant, call)
    return records.raise_fence(tx, effect) if effect is not None and effect.parked else None


def _withdraw(tx: Transaction, tenant: Tenant, call: str) -> IdempotencyRecord | None:
    """Raise the fence of a call and remove its job: a worker that took it now would have the last word."""
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


def _reported_error(error: BaseException | None) -> Mapping[str, Any] | None:
    """Return the error that the operator itself reports. A refused poll says nothing about the work it has begun."""
    envelope: Any = error.details.get("envelope") if isinstance(error, PaddockError) else None
    reported: Any = cast("dict[str, Any]", envelope).get("error") if isinstance(envelope, dict) else None
    return cast("dict[str, Any]", reported) if isinstance(reported, dict) else None
