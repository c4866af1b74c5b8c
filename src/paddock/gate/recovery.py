"""Recovery of effects whose outcome is unknown: by the plugin's journal, by a probe, or by repeating the call.

How long a probe has found nothing is measured by the monotonic clock, since the calendar may be moved; a host that
restarts begins to measure again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias, cast

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from paddock.capabilities.sql.effect_records import RecordedEffect
from paddock.core.canonical import hash_of
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError, PluginError
from paddock.core.events.calls import EffectInProgress, EffectResolved
from paddock.core.events.event import EventSink
from paddock.core.ids import CallId, PluginName, Tenant
from paddock.core.tasks import run_to_completion
from paddock.gate.authorization import policy_snapshot
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.effects.in_doubt import recovery_job_type
from paddock.gate.effects.poll_state import PollState
from paddock.gate.effects.stored_context import restore_context
from paddock.gate.gate import Gate
from paddock.gate.idempotency import records
from paddock.gate.idempotency.errors import recovers_automatically
from paddock.gate.idempotency.fencing import next_fence
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.idempotency.states import EffectState, Resolution
from paddock.gate.invocation import CallCancelled, CallRequest, Invocation
from paddock.gate.output import is_kernel_operator
from paddock.plugins.dialects.envelope import InProgress
from paddock.policy.decision import Deny
from paddock.queue import queue
from paddock.queue.node import Node
from paddock.queue.schedule import RescheduleAt
from paddock.store.database import Database, Transaction

PROBE_RETENTION_S = 3600.0  # seconds after it lasts for long enough


class NegativeProbes:
    """Tracks since when (monotonic) each call's probe has returned "not found".

    Entries expire by themselves: a person or another host may resolve a call without telling this one.
    """

    def __init__(self) -> None:
        self._since: dict[CallId, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def not_found_for(self, seconds: float, call: CallId, now: float) -> bool:
        """Whether the probe of a call has found nothing for that long; counting begins with the first time."""
        for old in [one for one, since in self._since.items() if now - since > seconds + PROBE_RETENTION_S]:
            del self._since[old]
        return now - self._since.setdefault(call, now) >= seconds

    def forget(self, call: CallId) -> None:
        """Drop a call whose outcome is known."""
        self._since.pop(call, None)


PROBE_NOT_HAPPENED = {"code": "effect.not_happened", "message": "its plugin looked, and it has not happened"}


EndCall: TypeAlias = Callable[[Tenant, PluginName, CallId, int, str], Awaitable[RecordedEffect | None]]
"""Reads the recorded effect of a call from its plugin's tables, by its fence and when it was started.

A call without one is fenced off, and changes nothing from here on.
"""


class _RecoveredOutcome(Struct, frozen=True):
    """The outcome of an effect, and how it was found out."""

    by: Resolution
    happened: bool
    result: Any = None
    error: dict[str, Any] | None = None


class EffectRecovery(Struct, frozen=True):
    """Recovers effects whose outcome is unknown, in the way that their callable declares.

    Args:
        gate: Calls the plugins.
        database: Holds the idempotency records.
        clock: The time.
        end_call: Reads what a call has changed in its plugin's tables.
        publish_in: Publishes the outcome within a transaction.
        settle_time: How long a request that was sent may still be in transit.
    """

    gate: Gate
    database: Database
    clock: Clock
    end_call: EndCall
    publish_in: Callable[[Transaction, Tenant, str | None], EventSink]
    settle_time: timedelta
    _negative_probes: NegativeProbes = field(default_factory=NegativeProbes)

    async def recover(self, tenant: Tenant, call: str) -> RescheduleAt | None:
        """Recover the effect of a call. Returns when to try again; None where it is resolved, or only a person can.

        Raises:
            PaddockError: it cannot be recovered now: its plugin is gone, does not run, or does not answer.
        """
        effect = await self.database.read(lambda tx: records.find_by_call(tx, tenant, call))
        if effect is None or effect.state is not EffectState.IN_DOUBT:
            self._negative_probes.forget(CallId(call))
            return None
        await self.gate.audit_log.wait_for_room(tenant)  # no plugin is called for a tenant whose ledger is broken
        target = self.gate.catalogue(tenant).find_callable(effect.effect_key.plugin, effect.effect_key.callable)
        match effect.recovery:
            case "atomic":
                found = await self._read_recorded(target, effect)
            case declared if declared != target.spec.recovery:
                return None
            case "probe":
                found = await self._probe(target, effect)
                if not found.happened and not self._is_settled(effect.call):
                    return RescheduleAt(self.clock.now() + self.settle_time)
            case "native_key" if (effect.error or {}).get("code") == CallCancelled.code:
                return None  # it was cancelled, and must not be made again
            case "native_key" if self._progress_expired(effect):
                return None
            case "native_key":
                effect = await self.database.write(partial(records.raise_fence, effect=effect))
                try:
                    found = await self._repeat_call(target, effect)
                except InProgress as pending:
                    return await self._record_progress(effect, pending)
            case _:
                return None
        if found is not None:
            if found.happened and found.by is not Resolution.NATIVE_KEY:  # whose answer was checked as it came
                context = await restore_context(effect, self.database, self.clock.now())
                await self.gate.output_validator.validate(target, context, effect.payload or {}, found.result)
            await self.database.write(partial(self._record_outcome, effect=effect, found=found))
        self._negative_probes.forget(effect.call)
        return None

    async def _read_recorded(self, target: CallTarget, effect: IdempotencyRecord) -> _RecoveredOutcome:
        of = effect.effect_key
        done = await self.end_call(
            of.tenant, target.key.plugin, effect.call, effect.fence, effect.started_at or effect.claimed_at
        )
        return _RecoveredOutcome(Resolution.ATOMIC, done is not None, None if done is None else done.result)

    async def _probe(self, target: CallTarget, effect: IdempotencyRecord) -> _RecoveredOutcome:
        probe = self.gate.catalogue(effect.effect_key.tenant).find_callable(effect.effect_key.plugin, target.spec.probe)
        payload = {"idempotency_key": effect.effect_key.key, "params": dict(effect.payload or {})}
        context = await restore_context(effect, self.database, self.clock.now())
        answer = await self.gate.call(CallRequest(probe, payload, context))
        fields = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        if not isinstance(fields.get("happened"), bool):
            raise PluginError(
                f"{effect.effect_key.plugin} {target.spec.probe} does not say whether the effect happened",
                code="effect.probe",
                hint='a probe answers {"happened": true, "result": …} or {"happened": false}',
                details={"plugin": effect.effect_key.plugin},
            )
        return _RecoveredOutcome(Resolution.PROBE, fields["happened"], fields.get("result"))

    def _is_settled(self, call: CallId) -> bool:
        """Whether a request that the probe did not find cannot be in transit any more."""
        return self._negative_probes.not_found_for(self.settle_time.total_seconds(), call, self.clock.monotonic())

    async def _repeat_call(self, target: CallTarget, effect: IdempotencyRecord) -> _RecoveredOutcome | None:
        """Make the same call again under the same key.

        None where the policy forbids it now, or the plugin refuses it, which says nothing about the first time. Of two
        hosts that repeat it, only the one with the higher fence is served.
        """
        context = await restore_context(effect, self.database, self.clock.now(), fence=next_fence(effect))
        decision = await self.gate.authorizer.decide(target, context)
        if isinstance(decision, Deny):
            return None
        if is_kernel_operator(target):
            asked = await self.gate.starter.approvals.latest_for_call(effect.effect_key.tenant, effect.call)
            context = replace(context, policy=policy_snapshot(decision, None if asked is None else asked.id))
        if (progress := PollState.from_record(effect)) is not None:
            context = replace(context, so_far=progress.operator_progress)
        payload, now = dict(effect.payload or {}), self.clock.monotonic()
        invocation = Invocation(effect.call, target, payload, context, now)
        try:
            result = await self.gate.invoke(invocation)
        except PaddockError:
            if invocation.delivery.refused:
                return None
            raise  # it was not called, or its outcome is still unknown: another time
        return _RecoveredOutcome(Resolution.NATIVE_KEY, happened=True, result=result)

    def _progress_expired(self, effect: IdempotencyRecord) -> bool:
        """Whether the time for work in progress is up."""
        progress = PollState.from_record(effect)
        return progress is not None and progress.is_expired(self.clock.now())

    async def _record_progress(self, effect: IdempotencyRecord, pending: InProgress) -> RescheduleAt:
        """Record that the operator is still at work; returns when to poll it again."""
        now, known, poller = self.clock.now(), PollState.from_record(effect), self.gate.long_running.poller
        progress = known.after_poll(pending) if known else PollState.first(pending, now, poller.max_progress_s)

        def unit(tx: Transaction) -> None:
            records.store_progress(tx, effect, context=progress.stored_in(effect.context or {}))
            if known is None:
                event = EffectInProgress(effect.effect_key.plugin, effect.effect_key.callable, progress.until)
                self.publish_in(tx, effect.effect_key.tenant, effect.call).publish(event)

        await self.database.write(unit)
        return RescheduleAt(progress.next_poll_at(now, pending.retry_after))

    def _record_outcome(self, tx: Transaction, effect: IdempotencyRecord, found: _RecoveredOutcome) -> None:
        now = self.clock.now().isoformat()
        if found.happened:
            records.mark_succeeded(tx, effect, now=now, result=orjson.dumps(found.result), resolution=found.by)
        else:
            records.mark_failed(tx, effect, now=now, error=found.error or PROBE_NOT_HAPPENED, resolution=found.by)
        state = EffectState.SUCCEEDED if found.happened else EffectState.FAILED_NO_EFFECT
        digest = hash_of(found.result) if found.happened else None
        event = EffectResolved(
            effect.effect_key.plugin, effect.effect_key.callable, state.value, found.by.value, None, digest
        )
        self.publish_in(tx, effect.effect_key.tenant, effect.call).publish(event)


MAX_RECOVERY_WAIT_S = 20.0  # a cancelled call is looked at after ten, and a probe that finds nothing is repeated
_CHECK_INTERVAL_S = 0.2

RecoverCall: TypeAlias = Callable[[Tenant, str], Awaitable[RescheduleAt | None]]


class RecoveryWaiter:
    """Waits until effects are resolved.

    Args:
        database: Holds the idempotency records and the queue.
        clock: The time.
        node: The node under which a command takes the job from the queue.
        recover: Recovers an effect in this process; None where a daemon's worker does.
    """

    def __init__(self, database: Database, clock: Clock, node: Node, recover: RecoverCall | None = None) -> None:
        self._database = database
        self._clock = clock
        self._node = node
        self._recover = recover

    async def wait_until_resolved(self, effect: IdempotencyRecord) -> bool:
        """Wait a while for an effect to be resolved; returns whether it is.

        Returns at once where it cannot be: its plugin does not declare how, or recovery was given up.
        """
        if not recovers_automatically(effect):
            return False
        until = self._clock.monotonic() + MAX_RECOVERY_WAIT_S
        while (now := self._clock.monotonic()) < until:
            over, due = await self._database.read(lambda tx: _recovery_state(tx, effect))
            if over or due is None:
                return over
            wait = (due - self._clock.now()).total_seconds()
            if now + wait > until:
                return False
            if self._recover is not None and wait <= 0 and not await self._recover_once(effect, self._recover):
                return False
            await asyncio.sleep(min(max(wait, _CHECK_INTERVAL_S), until - now))
        return False

    async def _recover_once(self, effect: IdempotencyRecord, recover: RecoverCall) -> bool:
        """Run the recovery job once, as a worker would; False where it fails for now."""
        of, here, now = effect.effect_key, await self._node.current_run(), self._clock.now()
        work = await self._database.write(
            lambda tx: queue.claim_one(tx, here, of.tenant, recovery_job_type(effect), effect.call, now=now)
        )
        if work is None:
            return True  # another has it
        try:
            again = await recover(of.tenant, effect.call)
            now = self._clock.now()
            await self._database.write(
                lambda tx: queue.complete(tx, work) if again is None else queue.reschedule(tx, work, again.due, now=now)
            )
        except BaseException as error:
            await run_to_completion(self._database.write(lambda tx: queue.release(tx, work)))
            if isinstance(error, PaddockError):
                return False  # a daemon tries again for a day
            raise
        return True


def _recovery_state(tx: Transaction, effect: IdempotencyRecord) -> tuple[bool, datetime | None]:
    """Whether an effect is resolved; and if not, when its recovery job is due, if it has one."""
    now = records.find_by_call(tx, effect.effect_key.tenant, effect.call)
    if now is None or now.state is not EffectState.IN_DOUBT:
        return True, None
    return False, queue.find_due(tx, effect.effect_key.tenant, recovery_job_type(effect), effect.call)
