"""Coordination of calls with effects: one effect for each idempotency key, and its result for all who repeat the call.

Before a call starts it holds its key in memory only; the key is claimed and the start recorded in one transaction. The
outcome is recorded in another, before the caller gets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import orjson
from msgspec import Struct, field

from paddock.approvals.model import OPEN_STATES, ApprovalState
from paddock.approvals.service import Approvals
from paddock.core.clock import Clock, format_utc
from paddock.core.errors import NeedsApproval, PaddockError, StoreUnavailable
from paddock.core.ids import CallId, Tenant
from paddock.core.tasks import DeferredCancellation
from paddock.gate.effects.approval_preview import approval_required_error
from paddock.gate.effects.in_doubt import InDoubtEffects
from paddock.gate.effects.outcomes import OutcomeRecorder
from paddock.gate.effects.stored_context import dump_context
from paddock.gate.idempotency import records
from paddock.gate.idempotency.errors import (
    in_doubt_error,
    other_payload_error,
    other_principal_error,
    result_expired_error,
    underway_error,
)
from paddock.gate.idempotency.key_verdict import (
    KeyExpired,
    KeyFree,
    KeyInDoubt,
    KeyInUse,
    KeyOtherPayload,
    KeyOtherPrincipal,
    KeySucceeded,
    key_conflict,
    key_verdict,
)
from paddock.gate.idempotency.records import EffectKey, IdempotencyRecord
from paddock.gate.idempotency.states import EffectState
from paddock.gate.invocation import Invocation
from paddock.queue.leases import NodeRun, require_lease
from paddock.queue.node import Node
from paddock.store.database import Database, Transaction

_POLL_DELAYS_S = (0.05, 0.1, 0.2, 0.5, 1.0)  # seconds, while another daemon has the key


class OutcomeWaiter(Protocol):
    """Waits for the outcomes of calls that this call repeats."""

    async def wait_until_over(self, effect: IdempotencyRecord) -> None:
        """Wait for a call that its operator is still at work on."""
        ...

    async def wait_until_resolved(self, effect: IdempotencyRecord) -> bool:
        """Wait a while for an effect in doubt to be resolved; returns whether it is."""
        ...


class _ActiveKey(Struct):
    """A call of this host that holds a key."""

    call: CallId
    payload_hash: str
    principal: str
    over: asyncio.Event = field(default_factory=asyncio.Event)
    failure: PaddockError | None = None  # for those who wait for the same key, where the call failed without effect


class ReplayedResult(Struct):
    """The result of an earlier call under the same key."""

    call: CallId
    result: bytes

    def value(self) -> Any:
        return orjson.loads(self.result)


class KeyAlreadyClaimed(Exception):
    """Another daemon has claimed the key since it was looked up."""


class EffectCoordinator:
    """Claims keys for the calls of this host, and settles their effects.

    Args:
        database: Holds the idempotency records.
        approvals: Tells whether a call still waits for a person.
        clock: The time.
        node: Which run of which host this is.
        outcomes: Records the outcomes of started calls.
        in_doubt: Marks effects whose outcome is unknown, and schedules their recovery.
    """

    def __init__(
        self,
        database: Database,
        approvals: Approvals,
        clock: Clock,
        node: Node,
        outcomes: OutcomeRecorder,
        in_doubt: InDoubtEffects,
    ) -> None:
        self._database = database
        self._approvals = approvals
        self._clock = clock
        self._node = node
        self.outcomes = outcomes
        self.in_doubt = in_doubt
        self._active: dict[EffectKey, _ActiveKey] = {}

    async def claim(self, invocation: Invocation, outcomes: OutcomeWaiter) -> ReplayedResult | None:
        """Hold the key for a call, or give the result of the earlier call that had it; waits while that is in flight.

        Raises:
            Conflict: the key stands for another payload or belongs to another principal; or its outcome is unknown, or
                was forgotten.
            NeedsApproval: the earlier call waits for a person, who is asked once.
            Busy: another daemon works on it, for too long to wait.
            PaddockError: the earlier call was in flight and failed without effect.
        """
        of, pauses = invocation.effect_key, iter(_POLL_DELAYS_S)
        while True:
            if of in self._active:
                await self._wait_for_active(of, invocation)
            known = await self._find_record(of, invocation)
            if of in self._active:
                continue  # another call of this host was quicker
            if known is not None and known.state is EffectState.AWAITING_APPROVAL:
                if known.call == invocation.call_id:
                    # It goes on with the yes of a person, who may have edited it: its hash may differ from the key's.
                    return self._hold_key(of, invocation, known)
                if await self._release_if_declined(known, invocation):
                    continue
            match key_verdict(
                known.key_record if known else None, invocation.payload_hash, invocation.context.principal.id
            ):
                case KeyFree():
                    return self._hold_key(of, invocation, known)
                case KeySucceeded() if known is not None and known.result is not None:
                    return ReplayedResult(known.call, known.result)
                case KeyInUse() if known is not None and known.parked:
                    await outcomes.wait_until_over(known)
                case KeyInUse():
                    if (pause := next(pauses, None)) is None:
                        raise underway_error(of)
                    await asyncio.sleep(pause)
                case KeyOtherPayload():
                    raise other_payload_error(of, known.call if known else invocation.call_id)
                case KeyOtherPrincipal():
                    raise other_principal_error(of)
                case KeyInDoubt() if known is not None:
                    if not await outcomes.wait_until_resolved(known):
                        raise in_doubt_error(known)
                case KeySucceeded() | KeyInDoubt() | KeyExpired():
                    raise result_expired_error(of)

    async def current_node_run(self) -> NodeRun:
        """This run of this host, for `record_start`."""
        return await self._node.current_run()

    def record_start(self, tx: Transaction, invocation: Invocation, here: NodeRun) -> IdempotencyRecord:
        """Claim the key and record the start of a call, within the transaction that starts it.

        Raises:
            KeyAlreadyClaimed: another host has the key by now.
            HostError: the record has changed. It is raised before the commit where this host has lost its lease.
        """
        tx.before_commit(_require_leases, here)
        now, effect = self._now(), invocation.effect
        if effect is None or effect.state is EffectState.FAILED_NO_EFFECT:
            effect = self._claim_record(
                tx, invocation, here, now, records.encode_call(invocation.payload, _stored_context(invocation))
            )
            if effect.state is EffectState.STARTED:
                return effect
        return records.mark_started(
            tx, effect, holder=here, now=now, payload=invocation.payload, context=_stored_context(invocation)
        )

    def record_hold(self, tx: Transaction, invocation: Invocation, here: NodeRun) -> None:
        """Keep the key for a call that waits for a person, within the transaction that requests the approval.

        Raises:
            KeyAlreadyClaimed: another host has the key by now.
        """
        records.mark_awaiting_approval(tx, self._claim_record(tx, invocation, here, self._now()))

    def settled(self, invocation: Invocation) -> SettledCall:
        """Settle the effect of a call when the block ends: its outcome is on disk then, and its key released."""
        return SettledCall(self, invocation)

    async def settle(self, invocation: Invocation, error: BaseException | None) -> None:
        """As `settled`.

        Raises:
            PaddockError: see `OutcomeRecorder.record`.
        """
        try:
            if invocation.only_reads or invocation.parked:
                return  # no effect; or the poller records the outcome
            if invocation.started:
                invocation.finish(self._clock.monotonic(), invocation.result, error)
                await self.record_outcome(invocation, invocation.result, error)
            else:
                await self._release_unstarted(invocation, error)
        finally:
            self.release_key(invocation)

    async def record_outcome(self, invocation: Invocation, result: Any, error: BaseException | None) -> EffectState:
        """Record the outcome of a call that had started, to the end. See `OutcomeRecorder.record`."""
        with DeferredCancellation() as deferral:
            state = await self.outcomes.record(invocation, result, error, deferral)
            if state is EffectState.FAILED_NO_EFFECT and isinstance(error, PaddockError):
                mine = self._active.get(invocation.effect_key)
                if mine is not None:
                    mine.failure = error
            return state

    def undo_start(self, tx: Transaction, tenant: Tenant, call: CallId, error: Mapping[str, Any]) -> None:
        """Release the key of a call that is recorded as started and was never sent."""
        effect = records.find_by_call(tx, tenant, call)
        if effect is not None and effect.state is EffectState.STARTED:
            records.mark_failed(tx, effect, now=self._now(), error=error)

    async def _release_unstarted(self, invocation: Invocation, error: BaseException | None) -> None:
        """Release the key of a call that waited for a person and fails before it starts.

        Where that cannot be written now, the next call with the key looks at the approval request. The same holds where
        the call was cancelled: if its host shuts down, the approval stays valid, and the next host makes the call.
        """
        effect = invocation.effect
        still = isinstance(error, NeedsApproval | asyncio.CancelledError)
        if effect is not None and effect.state is EffectState.AWAITING_APPROVAL and not still:
            with suppress(StoreUnavailable):
                await self._database.write(lambda tx: records.release_claim(tx, effect))

    def release_key(self, invocation: Invocation) -> None:
        """Release the key that a call holds in memory, and wake other calls with the same key."""
        of = invocation.effect_key
        mine = self._active.get(of)
        if mine is not None and mine.call == invocation.call_id:
            del self._active[of]
            mine.over.set()

    def _claim_record(
        self, tx: Transaction, invocation: Invocation, here: NodeRun, now: str, start: records.StoredCall | None = None
    ) -> IdempotencyRecord:
        effect = records.claim(
            tx,
            invocation.effect_key,
            call=invocation.call_id,
            payload_hash=invocation.payload_hash,
            holder=here,
            recovery=invocation.target.spec.recovery,
            now=now,
            principal=invocation.context.principal.id,
            stored_call=start,
        )
        if effect is None:
            raise KeyAlreadyClaimed
        return effect

    async def _release_if_declined(self, known: IdempotencyRecord, invocation: Invocation) -> bool:
        """Whether a key that waited for an approval is free, since it was denied or has expired.

        Raises:
            NeedsApproval: the person is still asked; this call waits for the same answer.
            Conflict: the key is another principal's, or stands for another payload.
        """
        _require_same_call(known.effect_key, known.call, known.principal, known.payload_hash, invocation)
        approval = await self._approvals.latest_for_call(known.effect_key.tenant, known.call)
        if approval is not None and approval.state is ApprovalState.PENDING:
            raise approval_required_error(approval, invocation.target)
        if approval is not None and approval.state in (*OPEN_STATES, ApprovalState.CONSUMED):
            return False  # it is about to be made
        return await self._database.write(lambda tx: records.release_claim(tx, known))

    async def _wait_for_active(self, of: EffectKey, invocation: Invocation) -> None:
        """Wait while another call of this host holds the key, or an earlier attempt of the same call does.

        Raises:
            Conflict: it is another principal's, or stands for another payload.
            PaddockError: that call failed, and nothing happened.
        """
        while (other := self._active.get(of)) is not None:
            if other.call != invocation.call_id:
                _require_same_call(of, other.call, other.principal, other.payload_hash, invocation)
            await other.over.wait()
            if other.failure is not None:
                raise other.failure

    async def _find_record(self, of: EffectKey, invocation: Invocation) -> IdempotencyRecord | None:
        if invocation.context.idempotency_key is None and invocation.resumed_approval is None:
            return None  # the key is the call's own id, which nobody else has
        return await self._database.read(lambda tx: records.find(tx, of))

    def _hold_key(self, of: EffectKey, invocation: Invocation, known: IdempotencyRecord | None) -> None:
        asked = invocation.payload_hash if known is None else known.payload_hash
        self._active[of] = _ActiveKey(invocation.call_id, asked, invocation.context.principal.id)
        invocation.effect = known

    def _now(self) -> str:
        return format_utc(self._clock.now())


class SettledCall:
    """The block in which a call runs that may have an effect; see `EffectCoordinator.settled`."""

    __slots__ = ("_effects", "_invocation")

    def __init__(self, effects: EffectCoordinator, invocation: Invocation) -> None:
        self._effects = effects
        self._invocation = invocation

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """An error of settling takes the place of the one that the block raised."""
        await self._effects.settle(self._invocation, error)


def _require_leases(tx: Transaction, runs: Sequence[NodeRun]) -> None:
    """Once for all calls that start together."""
    for run in set(runs):
        require_lease(tx, run)


def _require_same_call(
    of: EffectKey, call: CallId, principal: str | None, payload_hash: str, invocation: Invocation
) -> None:
    """Require that a call repeats the one that holds its key.

    Raises:
        Conflict: it is not.
    """
    match key_conflict(payload_hash, principal, invocation.payload_hash, invocation.context.principal.id):
        case KeyOtherPrincipal():
            raise other_principal_error(of)
        case KeyOtherPayload():
            raise other_payload_error(of, call)
        case None:
            return


def _stored_context(invocation: Invocation) -> Mapping[str, Any]:
    """The context of a call as it is stored with its record, for recovery."""
    return dump_context(invocation.context) | {"digest": invocation.target.key.digest}
