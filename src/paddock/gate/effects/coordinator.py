"""Calls with effects on their way through the door: whoever comes with a key gets one effect, or the answer of it.

Before a call starts it owns nothing but a place in memory; its key is claimed, and its start recorded, in one unit of
work. What becomes of it is recorded in another, before anybody hears of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby
from typing import Any, TypeAlias

import orjson

from paddock.approvals.model import OPEN_STATES
from paddock.approvals.model import ApprovalState as Asked
from paddock.approvals.service import Approvals
from paddock.core.clock import Clock
from paddock.core.errors import Busy, NeedsApproval, PaddockError, StoreUnavailable
from paddock.core.events.calls import EffectInDoubt
from paddock.core.events.event import Event
from paddock.core.ids import CallId, Tenant
from paddock.gate.effects.context import approval_required_error, dump_context
from paddock.gate.effects.outcomes import HOST_LOST_ERROR, HOST_LOST_MESSAGE, OutcomeRecorder
from paddock.gate.idempotency import records
from paddock.gate.idempotency.errors import (
    in_doubt_error,
    other_payload_error,
    other_principal_error,
    result_expired_error,
    underway_error,
)
from paddock.gate.idempotency.records import RECOVER_JOB, EffectKey, IdempotencyRecord
from paddock.gate.idempotency.resolve import require_in_doubt
from paddock.gate.idempotency.states import (
    EffectState,
    KeyExpired,
    KeyFree,
    KeyInDoubt,
    KeyInUse,
    KeyOtherPayload,
    KeyOtherPrincipal,
    KeySucceeded,
    key_verdict,
)
from paddock.gate.invocation import Invocation
from paddock.ledger.entry import EventSource
from paddock.queue import queue
from paddock.queue.leases import NodeRun, require_lease
from paddock.queue.node import Node
from paddock.store.database import Database, Transaction

_POLL_DELAYS_S = (0.05, 0.1, 0.2, 0.5, 1.0)  # seconds, while another daemon has the key

RecordAll: TypeAlias = Callable[[Transaction, Sequence[tuple[Tenant, CallId, Event]]], None]


@dataclass(slots=True)
class _ActiveKey:
    """A call of this host that has a key."""

    call: CallId
    payload_hash: str
    principal: str
    over: asyncio.Event = field(default_factory=asyncio.Event)
    failure: PaddockError | None = None  # which those get too who wait for it, where it failed and nothing happened


@dataclass(slots=True)
class ReplayedResult:
    """What came of a call that was made before under the same key."""

    call: CallId
    result: bytes

    def value(self) -> Any:
        return orjson.loads(self.result)


class KeyAlreadyClaimed(Exception):
    """Another daemon has claimed the key since we looked."""


class EffectCoordinator:
    """The effects that this host makes.

    Args:
        database: Where their records are.
        approvals: Tells whether what waits for a person still does.
        clock: Gives the times in them.
        node: Which run of which host this is.
        record_in: Writes the entry of a call's end, in a unit of work.
        record_all: Writes the entries of many calls, in a unit of work.
    """

    def __init__(
        self,
        database: Database,
        approvals: Approvals,
        clock: Clock,
        node: Node,
        record_in: Callable[[Transaction, Invocation, EventSource], None],
        record_all: RecordAll,
    ) -> None:
        self._database = database
        self._approvals = approvals
        self._clock = clock
        self._node = node
        self._record_all = record_all
        self.on_in_doubt: Callable[[], None] = lambda: None  # told that something has to be found out
        self.wait_until_over: Callable[[IdempotencyRecord], Awaitable[None]] = (
            _raise_underway  # waits for one that its operator is at work on
        )
        self.on_succeeded: Callable[[IdempotencyRecord], None] = lambda _effect: None  # told once that is on disk
        self.wait_until_resolved: Callable[[IdempotencyRecord], Awaitable[bool]] = (
            _never_resolved  # waits for what becomes of one in doubt
        )
        self._active: dict[EffectKey, _ActiveKey] = {}
        self.is_shutting_down: Callable[[], bool] = lambda: False
        self._outcomes = OutcomeRecorder(
            database,
            clock,
            record_in,
            self._mark_in_doubt,
            self._on_recorded,
            going_down=lambda: self.is_shutting_down(),
        )

    async def claim(self, course: Invocation) -> ReplayedResult | None:
        """Take the key of a call for it, or give what came of the call that had it; waits while that is under way.

        Raises:
            Conflict: the key stands for another payload or is another principal's, or it is not known what became of
                it, or not any more.
            NeedsApproval: it waits for a person, who is asked once.
            Busy: another daemon works on it, for too long to wait.
            PaddockError: the call that was under way with it failed, and nothing happened.
        """
        of, pauses = effect_key_of(course), iter(_POLL_DELAYS_S)
        while True:
            await self._wait_for_active(of, course)
            known = await self._find_record(of, course)
            if of in self._active:
                continue  # another one here was quicker
            if known is not None and known.state is EffectState.AWAITING_APPROVAL:
                if known.call == course.call_id:
                    return self._hold_key(of, course, known)  # it goes on with a person's yes, who may have edited it
                if await self._release_if_declined(known, course):
                    continue
            match key_verdict(known.key_record if known else None, course.payload_hash, course.context.principal.id):
                case KeyFree():
                    return self._hold_key(of, course, known)
                case KeySucceeded() if known is not None and known.result is not None:
                    return ReplayedResult(known.call, known.result)
                case KeyInUse() if known is not None and known.parked:
                    await self.wait_until_over(known)
                case KeyInUse():
                    if (pause := next(pauses, None)) is None:
                        raise underway_error(of)
                    await asyncio.sleep(pause)
                case KeyOtherPayload():
                    raise other_payload_error(of, known.call if known else course.call_id)
                case KeyOtherPrincipal():
                    raise other_principal_error(of)
                case KeyInDoubt() if known is not None:
                    if not await self.wait_until_resolved(known):
                        raise in_doubt_error(known)
                case KeySucceeded() | KeyInDoubt() | KeyExpired():
                    raise result_expired_error(of)

    async def current_node_run(self) -> NodeRun:
        """This run of this host, for `start`."""
        return await self._node.current_run()

    def record_start(self, tx: Transaction, course: Invocation, here: NodeRun) -> IdempotencyRecord:
        """Record that a call starts, in the unit of work that lets it.

        Raises:
            TakenMeanwhile: somebody else has the key by now.
            HostError: its record is not where it was, or others took this host for dead.
        """
        require_lease(tx, here)
        now, effect = self._now(), course.effect
        if effect is None or effect.state is EffectState.FAILED_NO_EFFECT:
            effect = self._claim_record(
                tx, course, here, now, records.encode_call(course.payload, _stored_context(course))
            )
            if effect.state is EffectState.STARTED:
                return effect
        return records.mark_started(
            tx, effect, holder=here, now=now, payload=course.payload, context=_stored_context(course)
        )

    def record_hold(self, tx: Transaction, course: Invocation, here: NodeRun) -> None:
        """Keep the key for a call that waits for a person, in the unit of work that asks them.

        Raises:
            TakenMeanwhile: somebody else has the key by now.
        """
        records.mark_awaiting_approval(tx, self._claim_record(tx, course, here, self._now()))

    async def record_outcome(self, course: Invocation, result: Any, error: BaseException | None) -> EffectState:
        """Record what became of a call that had started. See `Settling.settle`."""
        state = await self._outcomes.record(course, result, error)
        mine = self._active.get(effect_key_of(course))
        if mine is not None and state is EffectState.FAILED_NO_EFFECT and isinstance(error, PaddockError):
            mine.failure = error
        return state

    def has_unrecorded_outcome(self, call: CallId) -> bool:
        """Whether it is known what became of a call, and only not recorded yet."""
        return self._outcomes.has_unrecorded_outcome(call)

    async def retry_unrecorded(self) -> None:
        """Record what could not be recorded at its time. See `Settling.settle_again`."""
        await self._outcomes.retry_unrecorded()

    def _on_recorded(self, effect: IdempotencyRecord, state: EffectState) -> None:
        if state is EffectState.SUCCEEDED:
            self.on_succeeded(effect)
        elif state is EffectState.IN_DOUBT:
            self.on_in_doubt()

    def mark_abandoned(self, tx: Transaction, holder: NodeRun) -> None:
        """A run of a host is over: what it had started is in doubt."""
        lost = records.mark_in_doubt_for(tx, holder, error=HOST_LOST_ERROR)
        self._schedule_recovery_of_all(tx, [effect for effect in lost if effect.recovery != "none"])
        self._record_all(tx, [(effect.effect_key.tenant, effect.call, _in_doubt_event(effect)) for effect in lost])

    def mark_in_doubt(self, tx: Transaction, effect: IdempotencyRecord, error: Mapping[str, Any]) -> None:
        """Nobody knows what became of an effect, nor makes its call any more, in a unit of work."""
        self._mark_in_doubt(tx, effect, error, timedelta())
        told = EffectInDoubt(
            effect.effect_key.plugin, effect.effect_key.callable, str(error["message"]), effect.recovery
        )
        self._record_all(tx, [(effect.effect_key.tenant, effect.call, told)])

    def undo_start(self, tx: Transaction, tenant: Tenant, call: CallId, error: Mapping[str, Any]) -> None:
        """Let go of the key of a call that was never sent, where it is on record as started."""
        effect = records.find_by_call(tx, tenant, call)
        if effect is not None and effect.state is EffectState.STARTED:
            records.mark_failed(tx, effect, now=self._now(), error=error)

    async def release_unstarted(self, course: Invocation, error: BaseException | None) -> None:
        """Let go of the key of a call that had waited for a person and comes to nothing.

        Where that cannot be written now, whoever comes with the key next looks at what became of the request. So they
        do where the call was cancelled: if its host goes down the yes is still good, and the next one goes on with it.
        """
        effect = course.effect
        still = isinstance(error, NeedsApproval | asyncio.CancelledError)
        if effect is not None and effect.state is EffectState.AWAITING_APPROVAL and not still:
            with suppress(StoreUnavailable):
                await self._database.write(lambda tx: records.release_claim(tx, effect))

    def release_key(self, course: Invocation) -> None:
        """The call is over, or waits: whoever has the same key may look."""
        mine = self._active.get(effect_key_of(course))
        if mine is not None and mine.call == course.call_id:
            del self._active[effect_key_of(course)]
            mine.over.set()

    async def schedule_recoveries(self) -> None:
        """Have it found out once more what became of effects in doubt, where that was given up or found no room."""
        while left := await self._database.read(records.in_doubt_unscheduled):  # some at a time
            if not await self._database.write(lambda tx, left=left: self._schedule_recovery_of_all(tx, left)):
                return  # there is no room again

    async def recover_now(self, tenant: Tenant, call: str) -> bool:
        """Have it found out at once what became of an effect in doubt; False where only a person can, or somebody is at
        it already.

        Raises:
            NotFound: there is no such effect.
            Conflict: it is not in doubt.
            Busy: `queue.full`, too much waits to be done.
        """

        def unit(tx: Transaction) -> bool:
            effect, now = require_in_doubt(tx, tenant, call), self._clock.now()
            if effect.recovery == "none":
                return False
            kind = recovery_job_type(effect)
            return queue.enqueue(tx, tenant, kind, call, due=now, now=now) or queue.expedite(
                tx, tenant, kind, call, now=now
            )

        begun = await self._database.write(unit)
        if begun:
            self.on_in_doubt()
        return begun

    def _mark_in_doubt(
        self, tx: Transaction, effect: IdempotencyRecord, error: Mapping[str, Any], wait: timedelta
    ) -> None:
        """Nobody knows what became of it; where its plugin says how, it is found out soon."""
        records.mark_in_doubt(tx, effect, error=error)
        if effect.recovery != "none":
            self._schedule_recovery(tx, effect, wait)

    def _schedule_recovery(self, tx: Transaction, effect: IdempotencyRecord, wait: timedelta = timedelta()) -> None:
        now = self._clock.now()
        with suppress(Busy):  # then at the next start, or a person does
            queue.enqueue(tx, effect.effect_key.tenant, recovery_job_type(effect), effect.call, due=now + wait, now=now)

    def _schedule_recovery_of_all(self, tx: Transaction, effects: Sequence[IdempotencyRecord]) -> int:
        """Have it found out soon what became of these; of how many there was room for."""
        now, found = self._clock.now(), sorted(effects, key=lambda effect: effect.effect_key.tenant)
        return sum(
            queue.enqueue_many(
                tx, tenant, [(recovery_job_type(effect), effect.call) for effect in some], due=now, now=now
            )
            for tenant, some in groupby(found, key=lambda effect: effect.effect_key.tenant)
        )

    def _claim_record(
        self, tx: Transaction, course: Invocation, here: NodeRun, now: str, start: records.StoredCall | None = None
    ) -> IdempotencyRecord:
        effect = records.claim(
            tx,
            effect_key_of(course),
            call=course.call_id,
            payload_hash=course.payload_hash,
            holder=here,
            recovery=course.target.spec.recovery,
            now=now,
            principal=course.context.principal.id,
            start=start,
        )
        if effect is None:
            raise KeyAlreadyClaimed
        return effect

    async def _release_if_declined(self, known: IdempotencyRecord, course: Invocation) -> bool:
        """Whether a key that waits for a person's yes is free, since they said no or did not answer in time.

        Raises:
            NeedsApproval: they are still asked; whoever comes with the same key waits for the same answer.
            Conflict: the key is another principal's, or stands for another payload.
        """
        _require_same_call(known.effect_key, known.call, known.principal, known.payload_hash, course)
        approval = await self._approvals.latest_for_call(known.effect_key.tenant, known.call)
        if approval is not None and approval.state is Asked.PENDING:
            raise approval_required_error(approval, course.target)
        if approval is not None and approval.state in (*OPEN_STATES, Asked.CONSUMED):
            return False  # it is about to be made
        return await self._database.write(lambda tx: records.release_claim(tx, known))

    async def _wait_for_active(self, of: EffectKey, course: Invocation) -> None:
        """Wait while another call of this host has the key, or the same one has not come to rest that now goes on.

        Raises:
            Conflict: it is another principal's, or stands for another payload.
            PaddockError: that call failed, and nothing happened.
        """
        while (other := self._active.get(of)) is not None:
            if other.call != course.call_id:
                _require_same_call(of, other.call, other.principal, other.payload_hash, course)
            await other.over.wait()
            if other.failure is not None:
                raise other.failure

    async def _find_record(self, of: EffectKey, course: Invocation) -> IdempotencyRecord | None:
        if course.context.idempotency_key is None and not course.resumed:
            return None  # the key is the call's own id, which nobody else has
        return await self._database.read(lambda tx: records.find(tx, of))

    def _hold_key(self, of: EffectKey, course: Invocation, known: IdempotencyRecord | None) -> None:
        asked = course.payload_hash if known is None else known.payload_hash
        self._active[of] = _ActiveKey(course.call_id, asked, course.context.principal.id)
        course.effect = known

    def _now(self) -> str:
        return self._clock.now().isoformat()


async def _never_resolved(_effect: IdempotencyRecord) -> bool:
    return False


async def _raise_underway(effect: IdempotencyRecord) -> None:
    raise underway_error(effect.effect_key)


def effect_key_of(course: Invocation) -> EffectKey:
    """What the effect of a call is known by; a call that was given no key stands for itself."""
    key = course.target.key
    return EffectKey(
        course.context.tenant, key.plugin, course.target.spec.name, course.context.idempotency_key or course.call_id
    )


def recovery_job_type(effect: IdempotencyRecord) -> str:
    """The kind of work that finds out what became of it. What is atomic is known to the home that made it alone, in the
    files of its plugins."""
    return recovery_job_type_at(effect.holder.node) if effect.recovery == "atomic" else RECOVER_JOB


def recovery_job_type_at(node: str) -> str:
    """The kind of that work that only this node can do."""
    return f"{RECOVER_JOB}:{node}"


def _in_doubt_event(effect: IdempotencyRecord) -> EffectInDoubt:
    return EffectInDoubt(effect.effect_key.plugin, effect.effect_key.callable, HOST_LOST_MESSAGE, effect.recovery)


def _require_same_call(
    of: EffectKey, call: CallId, principal: str | None, payload_hash: str, course: Invocation
) -> None:
    """See to it that a call is the same one as that which has its key.

    Raises:
        Conflict: it is not.
    """
    if principal not in (None, course.context.principal.id):
        raise other_principal_error(of)
    if payload_hash != course.payload_hash:
        raise other_payload_error(of, call)


def _stored_context(course: Invocation) -> Mapping[str, Any]:
    """What is kept of where a call came from, for finding out what became of it."""
    return dump_context(course.context) | {"digest": course.target.key.digest}
