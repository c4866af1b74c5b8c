"""Recording what became of calls that had started: in one unit of work each, with their entries in the ledger.

What cannot be recorded at its time, since there is no room on the disk for instance, is recorded later. A host that was
taken for dead meanwhile has no word in it any more: then only the end of its call is recorded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeAlias

import orjson

from paddock.core.clock import Clock
from paddock.core.error_mapping import error_to_json
from paddock.core.errors import HostError, PaddockError, StoreUnavailable, TimedOut
from paddock.core.events.calls import CallEnded, EffectInDoubt
from paddock.core.events.event import Event
from paddock.core.ids import CallId
from paddock.gate.idempotency import records
from paddock.gate.idempotency.errors import superseded_error, unrecorded_error, with_unknown_outcome
from paddock.gate.idempotency.records import STALE_CODE, IdempotencyRecord
from paddock.gate.idempotency.states import EffectState
from paddock.gate.invocation import Invocation
from paddock.ledger.entry import EventSource
from paddock.plugins.dialects.envelope import OutputInvalid
from paddock.store.database import Database, Transaction

_log = logging.getLogger("paddock.gate")

HOST_LOST_MESSAGE = "the host that made it is gone"
HOST_LOST_ERROR = {"code": "host.lost", "message": HOST_LOST_MESSAGE}
_STOP_GRACE = timedelta(seconds=10)  # until a plugin that was told to stop has, or was ended
_TABLE_WRITES = ("storage.exec", "storage.commit")

MarkInDoubt: TypeAlias = Callable[[Transaction, IdempotencyRecord, Mapping[str, Any], timedelta], None]


@dataclass(frozen=True, slots=True, eq=False)
class _OutcomeToRecord:
    """What is to be recorded of a call."""

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
        """The entry where it counts for nothing any more."""
        told = superseded_error(self.effect)
        return replace(
            self.invocation.ended_event(),
            status="in_doubt",
            success=False,
            error_code=told.error_code,
            error_category=told.category.value,
            error_message=told.message,
        )

    def is_written(self, known: IdempotencyRecord | None) -> bool:
        """Whether a first try, of which nobody heard what became of it, was written after all."""
        if known is None or (known.call, known.fence, known.state) != (self.effect.call, self.effect.fence, self.state):
            return False
        if self.state is EffectState.IN_DOUBT:
            return orjson.dumps(known.error) == orjson.dumps(self.error)
        return known.ended_at == self.at


class OutcomeRecorder:
    """Records the ends of calls.

    Args:
        database: Where.
        clock: When.
        record_in: Writes an entry of a call, in a unit of work.
        lose: Marks an effect as one that may have happened, and has it found out after a while.
        then: Told of each effect whose end is on disk, with what it is then.
        going_down: Whether this host is: what is cut off then was cancelled by nobody.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        record_in: Callable[[Transaction, Invocation, EventSource], None],
        lose: MarkInDoubt,
        then: Callable[[IdempotencyRecord, EffectState], None],
        going_down: Callable[[], bool],
    ) -> None:
        self._database = database
        self._clock = clock
        self._record_in = record_in
        self._mark_in_doubt = lose
        self._on_recorded = then
        self._is_shutting_down = going_down
        self._unrecorded: list[_OutcomeToRecord] = []
        self._retry_lock = asyncio.Lock()  # else what counts for nothing any more is recorded twice

    async def record(self, invocation: Invocation, result: Any, error: BaseException | None) -> EffectState:
        """Record what became of a call that had started; which of its states that is.

        Raises:
            StoreUnavailable: it cannot be recorded now; it is tried again, and nobody is told of a success meanwhile.
            Conflict: others took this host for dead, and what it says of the call does not count.
            PaddockError: the error that it failed with, saying that it may have happened.
        """
        end = self._build_outcome(invocation, result, error)
        try:
            counted = await self._write_and_notify(end)
        except PaddockError as failure:
            self._unrecorded.append(end)
            if not isinstance(failure, StoreUnavailable):  # which is told by whoever looks at the store
                _log.error("what became of the call %s is not recorded: %s", end.effect.call, failure.message)
            raise unrecorded_error(
                invocation.call_id, end.effect.effect_key.plugin, failure, happened=error is None
            ) from failure
        if not counted:
            invocation.status = "in_doubt"
            raise superseded_error(end.effect)
        if end.state is EffectState.IN_DOUBT and isinstance(error, PaddockError):
            raise with_unknown_outcome(error, end.effect) from error
        return end.state

    def has_unrecorded_outcome(self, call: CallId) -> bool:
        """Whether it is known what became of a call, and only not recorded yet."""
        return any(end.effect.call == call for end in self._unrecorded)

    async def retry_unrecorded(self) -> None:
        """Record what could not be recorded at its time. One that still cannot be keeps back no other.

        Raises:
            StoreUnavailable: nothing can be now either.
        """
        async with self._retry_lock:
            for end in tuple(self._unrecorded):
                await self._retry(end)

    async def _retry(self, end: _OutcomeToRecord) -> None:
        try:
            if not await self._write_and_notify(end):
                _log.warning("what became of the call %s is known by others already", end.effect.call)
        except StoreUnavailable:
            raise
        except PaddockError:
            pass  # it was told when it failed first, and is tried every two seconds
        else:
            self._unrecorded.remove(end)

    def _build_outcome(self, invocation: Invocation, result: Any, error: BaseException | None) -> _OutcomeToRecord:
        if invocation.effect is None:
            raise HostError("a call without a record ended", code=STALE_CODE)
        effect = invocation.effect
        state, wait, entries = EffectState.SUCCEEDED, timedelta(), list[Event]()
        cut_off = isinstance(error, asyncio.CancelledError) and self._is_shutting_down()
        if error is not None:
            state = EffectState.FAILED_NO_EFFECT if had_no_effect(invocation, error) else EffectState.IN_DOUBT
        if state is EffectState.IN_DOUBT:
            invocation.status = "in_doubt"
            why = HOST_LOST_MESSAGE if cut_off else _in_doubt_reason(error)
            entries.append(EffectInDoubt(effect.effect_key.plugin, effect.effect_key.callable, why, effect.recovery))
            # What may still be at work is given the time to end: whoever looks earlier may see too little.
            if isinstance(error, TimedOut | asyncio.CancelledError) and effect.recovery != "atomic":
                wait = _STOP_GRACE
        return _OutcomeToRecord(
            invocation,
            effect,
            state,
            self._clock.now().isoformat(),
            orjson.dumps(result) if error is None else b"",
            {} if error is None else HOST_LOST_ERROR if cut_off else _error_data(error),
            wait,
            (invocation.split_event(), *entries),
        )

    async def _write_and_notify(self, end: _OutcomeToRecord) -> bool:
        """Whether what this host says of it counts."""
        counted = await self._database.write(lambda tx: self._write(tx, end))
        if counted:
            self._on_recorded(end.effect, end.state)
        return counted

    def _write(self, tx: Transaction, end: _OutcomeToRecord) -> bool:
        try:
            match end.state:
                case EffectState.SUCCEEDED:
                    records.mark_succeeded(tx, end.effect, now=end.at, result=end.result)
                case EffectState.FAILED_NO_EFFECT:
                    records.mark_failed(tx, end.effect, now=end.at, error=end.error)
                case _:
                    self._mark_in_doubt(tx, end.effect, end.error, end.wait)
        except HostError as stale:
            if stale.error_code != STALE_CODE:
                raise
            if end.is_written(records.find(tx, end.effect.effect_key)):
                return True
            self._record_in(tx, end.invocation, end.superseded_event)
            return False
        for entry in end.entries:
            self._record_in(tx, end.invocation, entry)
        return True


def had_no_effect(invocation: Invocation, error: BaseException) -> bool:
    """Whether it is certain that a call which failed did nothing."""
    if not invocation.delivery.had_no_effect or isinstance(error, TimedOut | OutputInvalid):
        return False
    # Its tables tell better than its answer whether it has changed them.
    atomic = invocation.effect is not None and invocation.effect.recovery == "atomic"
    return not (atomic and any(invocation.tally.get(method) for method in _TABLE_WRITES))


def _in_doubt_reason(error: BaseException | None) -> str:
    """Why nobody knows, in words of ours: the plugin's are kept with the end of the call, where they can be erased."""
    match error:
        case TimedOut():
            return "its plugin did not answer in time"
        case asyncio.CancelledError():
            return "the call was cancelled while its plugin worked on it"
        case OutputInvalid():
            return "its plugin answered with something else than it declares"
        case _:
            return "its plugin gave no answer that tells"


def _error_data(error: BaseException) -> dict[str, Any]:
    if isinstance(error, PaddockError):
        return error_to_json(error)
    cancelled = isinstance(error, asyncio.CancelledError)
    code, message = ("call.cancelled", "the call was cancelled") if cancelled else ("internal", "the host failed")
    return {"code": code, "message": message}
