"""Records the outcome of started calls, each in one transaction with its ledger entries.

An outcome that cannot be recorded at once, for example because the disk is full, is recorded later. If this host was
taken for dead meanwhile, its outcome no longer counts: then only the end of the call is recorded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from paddock.core.clock import Clock, format_utc
from paddock.core.error_formats import error_to_json
from paddock.core.errors import HostError, PaddockError, StoreUnavailable, TimedOut
from paddock.core.events.calls import CallEnded, EffectInDoubt
from paddock.core.ids import CallId
from paddock.core.tasks import DeferredCancellation
from paddock.gate.effects.failure_outcome import IN_DOUBT_REASONS, failure_point, failure_state
from paddock.gate.effects.in_doubt import HOST_LOST_ERROR, HOST_LOST_MESSAGE, InDoubtEffects
from paddock.gate.idempotency import records
from paddock.gate.idempotency.errors import superseded_error, unrecorded_error, with_unknown_outcome
from paddock.gate.idempotency.records import STALE_CODE, IdempotencyRecord
from paddock.gate.idempotency.states import EffectState
from paddock.gate.invocation import Invocation
from paddock.ledger.entry import EventSource
from paddock.store.database import Database, Transaction

_log = logging.getLogger("paddock.gate")

_NO_WAIT = timedelta()
_STOP_GRACE = timedelta(seconds=10)  # until a plugin that was told to stop has stopped or was killed


class _OutcomeToRecord(Struct, frozen=True, eq=False):
    """The outcome of a call, ready to be written."""

    invocation: Invocation
    effect: IdempotencyRecord  # as it started
    state: EffectState
    at: str
    result: bytes
    error: Mapping[str, Any]
    wait: timedelta
    entries: tuple[EventSource, ...]

    @property
    def superseded_event(self) -> CallEnded:
        """The ledger event to write if the outcome of this host no longer counts."""
        error = superseded_error(self.effect)
        return replace(
            self.invocation.ended_event(),
            status="in_doubt",
            success=False,
            error_code=error.error_code,
            error_category=error.category.value,
            error_message=error.message,
        )

    def is_written(self, stored: IdempotencyRecord | None) -> bool:
        """Whether an earlier write with an unknown result was committed after all."""
        if stored is None or (stored.call, stored.fence, stored.state) != (
            self.effect.call,
            self.effect.fence,
            self.state,
        ):
            return False
        if self.state is EffectState.IN_DOUBT:
            return orjson.dumps(stored.error) == orjson.dumps(self.error)
        return stored.ended_at == self.at


class OutcomeRecorder:
    """Records the outcomes of calls, and retries those that could not be written.

    Args:
        database: Holds the records and the ledger.
        clock: Tells the end time.
        record_in: Writes a ledger entry of a call within a transaction.
        in_doubt: Marks an effect as in doubt and schedules its recovery.
        on_succeeded: Called with each effect whose success is on disk.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        record_in: Callable[[Transaction, Invocation, EventSource], None],
        in_doubt: InDoubtEffects,
        on_succeeded: Callable[[IdempotencyRecord], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._record_in = record_in
        self._in_doubt = in_doubt
        self._on_succeeded = on_succeeded
        self._shutting_down = False
        self._unrecorded: list[_OutcomeToRecord] = []
        self._retry_lock = asyncio.Lock()  # otherwise a superseded outcome would be recorded twice

    def begin_shutdown(self) -> None:
        """Note that the host shuts down: a call that is interrupted from now on was not cancelled by a caller."""
        self._shutting_down = True

    async def record(
        self, invocation: Invocation, result: Any, error: BaseException | None, deferral: DeferredCancellation
    ) -> EffectState:
        """Record the outcome of a started call and return the state of its effect.

        Raises:
            StoreUnavailable: it cannot be recorded now; it is retried, and no success is reported meanwhile.
            Conflict: other hosts took this host for dead, and its outcome no longer counts.
            PaddockError: the error of the call, with the note that the effect may have happened.
        """
        outcome = self._build_outcome(invocation, result, error)
        try:
            accepted = await self._write_and_notify(outcome, deferral)
        except PaddockError as failure:
            self._unrecorded.append(outcome)
            if not isinstance(failure, StoreUnavailable):  # which the code that monitors the store reports
                _log.error("the outcome of the call %s is not recorded: %s", outcome.effect.call, failure.message)
            raise unrecorded_error(
                invocation.call_id, outcome.effect.effect_key.plugin, failure, happened=error is None
            ) from failure
        if not accepted:
            invocation.status = "in_doubt"
            raise superseded_error(outcome.effect)
        if outcome.state is EffectState.IN_DOUBT and isinstance(error, PaddockError):
            raise with_unknown_outcome(error, outcome.effect) from error
        return outcome.state

    def has_unrecorded_outcome(self, call: CallId) -> bool:
        """Whether the outcome of a call is known and not recorded yet."""
        return any(outcome.effect.call == call for outcome in self._unrecorded)

    async def retry_unrecorded(self) -> None:
        """Retry the outcomes that could not be recorded. One that fails again does not block the others.

        Raises:
            StoreUnavailable: the store still cannot be written.
        """
        async with self._retry_lock:
            for outcome in tuple(self._unrecorded):
                await self._retry(outcome)

    async def _retry(self, outcome: _OutcomeToRecord) -> None:
        try:
            if not await self._write_and_notify(outcome):
                _log.warning("what became of the call %s is known by others already", outcome.effect.call)
        except StoreUnavailable:
            raise
        except PaddockError:
            pass  # it was logged at the first failure, and is retried every two seconds
        else:
            self._unrecorded.remove(outcome)

    def _build_outcome(self, invocation: Invocation, result: Any, error: BaseException | None) -> _OutcomeToRecord:
        if invocation.effect is None:
            raise HostError("a call without a record ended", code=STALE_CODE)
        effect = invocation.effect
        state, wait, doubt = EffectState.SUCCEEDED, _NO_WAIT, ()
        interrupted = isinstance(error, asyncio.CancelledError) and self._shutting_down
        if error is not None:
            state = failure_state(invocation, error)
        if error is not None and state is EffectState.IN_DOUBT:
            invocation.status = "in_doubt"
            reason = HOST_LOST_MESSAGE if interrupted else IN_DOUBT_REASONS[failure_point(invocation, error)]
            key = effect.effect_key
            doubt = (EffectInDoubt(key.plugin, key.callable, reason, effect.recovery),)
            # A plugin that may still be working gets time to stop: an earlier check could miss its effect.
            if isinstance(error, TimedOut | asyncio.CancelledError) and effect.recovery != "atomic":
                wait = _STOP_GRACE
        return _OutcomeToRecord(
            invocation,
            effect,
            state,
            format_utc(self._clock.now()),
            orjson.dumps(result) if error is None else b"",
            {} if error is None else HOST_LOST_ERROR if interrupted else _error_data(error),
            wait,
            (invocation.split_event(), *doubt),
        )

    async def _write_and_notify(self, outcome: _OutcomeToRecord, deferral: DeferredCancellation | None = None) -> bool:
        """Write an outcome and notify; False if the outcome of this host no longer counts."""
        accepted = await self._database.write(lambda tx: self._write(tx, outcome), deferral)
        if accepted and outcome.state is EffectState.SUCCEEDED:
            self._on_succeeded(outcome.effect)
        elif accepted and outcome.state is EffectState.IN_DOUBT:
            self._in_doubt.wake_worker()
        return accepted

    def _write(self, tx: Transaction, outcome: _OutcomeToRecord) -> bool:
        try:
            match outcome.state:
                case EffectState.SUCCEEDED:
                    records.mark_succeeded(tx, outcome.effect, now=outcome.at, result=outcome.result)
                case EffectState.FAILED_NO_EFFECT:
                    records.mark_failed(tx, outcome.effect, now=outcome.at, error=outcome.error)
                case _:
                    self._in_doubt.mark(tx, outcome.effect, outcome.error, outcome.wait)
        except HostError as stale:
            if stale.error_code != STALE_CODE:
                raise
            if outcome.is_written(records.find(tx, outcome.effect.effect_key)):
                return True
            self._record_in(tx, outcome.invocation, outcome.superseded_event)
            return False
        for entry in outcome.entries:
            self._record_in(tx, outcome.invocation, entry)
        return True


def _error_data(error: BaseException) -> Mapping[str, Any]:
    if isinstance(error, PaddockError):
        return error_to_json(error)
    cancelled = isinstance(error, asyncio.CancelledError)
    code, message = ("call.cancelled", "the call was cancelled") if cancelled else ("internal", "the host failed")
    return {"code": code, "message": message}
