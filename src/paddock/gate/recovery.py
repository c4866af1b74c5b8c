"""For how long probes have found nothing of calls, by the time that only ever grows: a calendar may be moved meanwhile,
and a host that dies over it begins anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

import orjson

from paddock.capabilities.sql.effect_records import RecordedEffect
from paddock.core.canonical import hash_of
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError, PluginError
from paddock.core.events.calls import EffectInProgress, EffectResolved
from paddock.core.events.event import EventSink
from paddock.core.ids import CallId, PluginName, Tenant
from paddock.core.tasks import run_to_completion
from paddock.gate.authorization import policy_snapshot
from paddock.gate.catalogue.catalogue import CallTarget
from paddock.gate.effects.context import restore_context
from paddock.gate.effects.coordinator import recovery_job_type
from paddock.gate.effects.poll_state import PollState
from paddock.gate.gate import Gate
from paddock.gate.idempotency import records
from paddock.gate.idempotency.errors import recovers_automatically
from paddock.gate.idempotency.fencing import next_fence
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.idempotency.states import EffectState, Resolution
from paddock.gate.invocation import CallCancelled
from paddock.gate.output import is_kernel_operator
from paddock.plugins.dialects.envelope import InProgress
from paddock.policy.decision import Deny
from paddock.queue import queue
from paddock.queue.node import Node
from paddock.queue.schedule import RescheduleAt
from paddock.runtime.calls import DeliveryStatus
from paddock.store.database import Database, Transaction

PROBE_RETENTION_S = 3600.0  # seconds after it lasts for long enough


class NegativeProbes:
    """When a probe first found nothing, by call.

    Whoever asks no more about a call need not say so: a person may have said what became of it, or another host.
    """

    def __init__(self) -> None:
        self._since: dict[CallId, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def not_found_for(self, seconds: float, call: CallId, now: float) -> bool:
        """Whether nothing was found of a call for that long; it begins now where it never was looked for."""
        for old in [one for one, since in self._since.items() if now - since > seconds + PROBE_RETENTION_S]:
            del self._since[old]
        return now - self._since.setdefault(call, now) >= seconds

    def forget(self, call: CallId) -> None:
        """It is known what became of it."""
        self._since.pop(call, None)


PROBE_NOT_HAPPENED = {"code": "effect.not_happened", "message": "its plugin looked, and it has not happened"}


class CallJournal(Protocol):
    """Where it is noted what calls have changed in their plugins' tables."""

    async def end_call(
        self, tenant: Tenant, plugin: PluginName, call: CallId, fence: int, *, started_at: str
    ) -> RecordedEffect | None:
        """What a call has noted. One that has noted nothing changes nothing from here on."""
        ...


@dataclass(frozen=True, slots=True)
class _RecoveredOutcome:
    """What became of an effect, by whose word."""

    by: Resolution
    happened: bool
    result: Any = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EffectRecovery:
    """Asks plugins what became of their effects.

    Args:
        gate: Where they are called.
        database: Where the records are.
        clock: Tells when.
        notes: What calls have noted in their plugins' tables.
        publish_in: Where it is told what was found out, in a unit of work.
        settle: How long what was sent may still be on its way.
    """

    gate: Gate
    database: Database
    clock: Clock
    journal: CallJournal
    publish_in: Callable[[Transaction, Tenant, str | None], EventSink]
    settle_time: timedelta
    _negative_probes: NegativeProbes = field(default_factory=NegativeProbes)

    async def recover(self, tenant: Tenant, call: str) -> RescheduleAt | None:
        """Find out what became of the effect of a call: when to go on with that, or nothing where it is known, or only
        a person can.

        Raises:
            PaddockError: it cannot be found out now: its plugin is not there, does not run, or does not answer.
        """
        effect = await self.database.read(lambda tx: records.find_by_call(tx, tenant, call))
        if effect is None or effect.state is not EffectState.IN_DOUBT:
            self._negative_probes.forget(CallId(call))
            return None
        await self.gate.audit_log.wait_for_room(tenant)  # of whose chain is broken nobody is asked
        target = self.gate.catalogue(tenant).find_callable(effect.effect_key.plugin, effect.effect_key.callable)
        match effect.recovery:
            case "atomic":
                found = await self._read_journal(target, effect)
            case said if said != target.spec.recovery:
                return None
            case "probe":
                found = await self._probe(target, effect)
                if not found.happened and not self._is_settled(effect.call):
                    return RescheduleAt(self.clock.now() + self.settle_time)
            case "native_key" if (effect.error or {}).get("code") == CallCancelled.code:
                return None  # nobody wants it any more
            case "native_key" if self._progress_expired(effect):
                return None
            case "native_key":
                effect = await self.database.write(partial(records.raise_fence, effect=effect))
                try:
                    found = await self._repeat_call(target, effect)
                except InProgress as going:
                    return await self._record_progress(effect, going)
            case _:
                return None
        if found is not None:
            if found.happened:
                await self.gate.output_validator.validate(target, found.result)
            await self.database.write(partial(self._record_outcome, effect=effect, found=found))
        self._negative_probes.forget(effect.call)
        return None

    async def _read_journal(self, target: CallTarget, effect: IdempotencyRecord) -> _RecoveredOutcome:
        of = effect.effect_key
        done = await self.journal.end_call(
            of.tenant, target.key.plugin, effect.call, effect.fence, started_at=effect.started_at or effect.claimed_at
        )
        return _RecoveredOutcome(Resolution.ATOMIC, done is not None, None if done is None else done.result)

    async def _probe(self, target: CallTarget, effect: IdempotencyRecord) -> _RecoveredOutcome:
        probe = self.gate.catalogue(effect.effect_key.tenant).find_callable(effect.effect_key.plugin, target.spec.probe)
        payload = {"idempotency_key": effect.effect_key.key, "params": dict(effect.payload or {})}
        context = await restore_context(effect, self.database, self.clock.now())
        answer = await self.gate.call(probe, payload, context)
        fields = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        if not isinstance(fields.get("happened"), bool):
            raise PluginError(
                f"{effect.effect_key.plugin} {target.spec.probe} does not say whether it has happened",
                code="effect.probe",
                hint='a probe answers {"happened": true, "result": …} or {"happened": false}',
                details={"plugin": effect.effect_key.plugin},
            )
        return _RecoveredOutcome(Resolution.PROBE, fields["happened"], fields.get("result"))

    def _is_settled(self, call: CallId) -> bool:
        """Whether nothing can be on its way any more of what a probe did not find."""
        return self._negative_probes.not_found_for(self.settle_time.total_seconds(), call, self.clock.monotonic())

    async def _repeat_call(self, target: CallTarget, effect: IdempotencyRecord) -> _RecoveredOutcome | None:
        """What comes of the same call under the same key; None where the rules forbid it now, or its plugin refuses it,
        which says nothing of what it did with it before. Of two hosts that make it again only the one is served that
        took it over last."""
        context = await restore_context(effect, self.database, self.clock.now(), fence=next_fence(effect))
        decision = await self.gate.authorizer.decide(target, context)
        if isinstance(decision, Deny):
            return None
        if is_kernel_operator(target):
            asked = await self.gate.starter.approvals.latest_for_call(effect.effect_key.tenant, effect.call)
            context = replace(context, policy=policy_snapshot(decision, None if asked is None else asked.id))
        if (progress := PollState.from_record(effect)) is not None:
            context = replace(context, so_far=progress.operator_progress)
        await self.gate.require_secrets(target, effect.payload or {}, context)
        fate = DeliveryStatus()
        try:
            result = await self.gate.supervisor.call(
                target.key, target.spec, dict(effect.payload or {}), context, status=fate
            )
        except PaddockError:
            if fate.refused:
                return None
            raise  # it was not asked, or nobody knows what it did: another time
        return _RecoveredOutcome(Resolution.NATIVE_KEY, happened=True, result=result)

    def _progress_expired(self, effect: IdempotencyRecord) -> bool:
        """Whether its operator was at work on it for as long as such work may take."""
        progress = PollState.from_record(effect)
        return progress is not None and progress.is_expired(self.clock.now())

    async def _record_progress(self, effect: IdempotencyRecord, going: InProgress) -> RescheduleAt:
        """When to ask an operator again that is at work on the call: as one is that never was in doubt.

        Raises:
            InProgress: nobody follows such work here.
        """
        now, known, following = self.clock.now(), PollState.from_record(effect), self.gate.long_running
        if following is None:
            raise going
        progress = known.after_poll(going) if known else PollState.first(going, now, following.poller.max_progress_s)

        def unit(tx: Transaction) -> None:
            records.store_progress(tx, effect, context=progress.stored_in(effect.context or {}))
            if known is None:
                told = EffectInProgress(effect.effect_key.plugin, effect.effect_key.callable, progress.until)
                self.publish_in(tx, effect.effect_key.tenant, effect.call).publish(told)

        await self.database.write(unit)
        return RescheduleAt(progress.next_poll_at(now, going.retry_after))

    def _record_outcome(self, tx: Transaction, effect: IdempotencyRecord, found: _RecoveredOutcome) -> None:
        now = self.clock.now().isoformat()
        if found.happened:
            records.mark_succeeded(tx, effect, now=now, result=orjson.dumps(found.result), by=found.by)
        else:
            records.mark_failed(tx, effect, now=now, error=found.error or PROBE_NOT_HAPPENED, by=found.by)
        state = EffectState.SUCCEEDED if found.happened else EffectState.FAILED_NO_EFFECT
        digest = hash_of(found.result) if found.happened else None
        told = EffectResolved(
            effect.effect_key.plugin, effect.effect_key.callable, state.value, found.by.value, None, digest
        )
        self.publish_in(tx, effect.effect_key.tenant, effect.call).publish(told)


MAX_RECOVERY_WAIT_S = (
    20.0  # seconds: what was cancelled is looked at after ten, and a probe that finds nothing looks twice
)
_CHECK_INTERVAL_S = 0.2

RecoverCall: TypeAlias = Callable[[Tenant, str], Awaitable[RescheduleAt | None]]


class RecoveryWaiter:
    """Waits until it is known what became of effects.

    Args:
        database: Where their records and the queue are.
        clock: The time.
        node: In whose name a command takes the work from the queue.
        recover: Finds it out here; None where a daemon does so by itself.
    """

    def __init__(self, database: Database, clock: Clock, node: Node, recover: RecoverCall | None = None) -> None:
        self._database = database
        self._clock = clock
        self._node = node
        self._recover = recover

    async def wait_until_resolved(self, effect: IdempotencyRecord) -> bool:
        """Whether it is known by now what became of an effect, after a while at most.

        Not where nobody would find out in that time: its plugin does not say how, or it was tried in vain.
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
        """Look once, as a worker would; False where that does not tell now."""
        of, here, now = effect.effect_key, await self._node.current_run(), self._clock.now()
        take = queue.claim_one
        work = await self._database.write(
            lambda tx: take(tx, here, of.tenant, recovery_job_type(effect), effect.call, now=now)
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
    """Whether it is known what became of it, and else when somebody looks, if anybody does."""
    now = records.find_by_call(tx, effect.effect_key.tenant, effect.call)
    if now is None or now.state is not EffectState.IN_DOUBT:
        return True, None
    return False, queue.find_due(tx, effect.effect_key.tenant, recovery_job_type(effect), effect.call)
