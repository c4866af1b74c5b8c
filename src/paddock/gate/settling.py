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
from paddock.core.errors import HostError, PaddockError, StoreUnavailable, TimedOut
from paddock.core.event import Event
from paddock.core.events_calls import CallEnded
from paddock.core.events_effects import EffectInDoubt
from paddock.core.ids import CallId
from paddock.core.outward import to_json
from paddock.gate.course import Course
from paddock.gate.effects import records
from paddock.gate.effects.errors import doubtful, overruled, unrecorded
from paddock.gate.effects.machine import State
from paddock.gate.effects.records import STALE, Effect
from paddock.ledger.entry import Made
from paddock.plugins.runtimes.envelopes import OutputInvalid
from paddock.store.database import Database, Transaction

_log = logging.getLogger("paddock.gate")

HOST_LOST = "the host that made it is gone"
HOST_IS_LOST = {"code": "host.lost", "message": HOST_LOST}
_STOPPING = timedelta(seconds=10)  # until a plugin that was told to stop has, or was ended
_CHANGES_TABLES = ("storage.exec", "storage.commit")

Lose: TypeAlias = Callable[[Transaction, Effect, Mapping[str, Any], timedelta], None]


@dataclass(frozen=True, slots=True, eq=False)
class _End:
    """What is to be recorded of a call."""

    course: Course
    effect: Effect  # as it started
    state: State
    at: str
    result: bytes
    error: Mapping[str, Any]
    wait: timedelta
    entries: tuple[Made, ...]

    @property
    def overruled(self) -> CallEnded:
        """The entry where it counts for nothing any more."""
        told = overruled(self.effect)
        return replace(
            self.course.ended(),
            status="in_doubt",
            success=False,
            error_code=told.error_code,
            error_category=told.category.value,
            error_message=told.message,
        )

    def is_written(self, known: Effect | None) -> bool:
        """Whether a first try, of which nobody heard what became of it, was written after all."""
        if known is None or (known.call, known.fence, known.state) != (self.effect.call, self.effect.fence, self.state):
            return False
        if self.state is State.IN_DOUBT:
            return orjson.dumps(known.error) == orjson.dumps(self.error)
        return known.ended_at == self.at


class Settling:
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
        record_in: Callable[[Transaction, Course, Made], None],
        lose: Lose,
        then: Callable[[Effect, State], None],
        going_down: Callable[[], bool],
    ) -> None:
        self._database = database
        self._clock = clock
        self._record_in = record_in
        self._lose = lose
        self._then = then
        self._going_down = going_down
        self._unsettled: list[_End] = []
        self._one_at_a_time = asyncio.Lock()  # else what counts for nothing any more is recorded twice

    async def settle(self, course: Course, result: Any, error: BaseException | None) -> State:
        """Record what became of a call that had started; which of its states that is.

        Raises:
            StoreUnavailable: it cannot be recorded now; it is tried again, and nobody is told of a success meanwhile.
            Conflict: others took this host for dead, and what it says of the call does not count.
            PaddockError: the error that it failed with, saying that it may have happened.
        """
        end = self._end(course, result, error)
        try:
            counted = await self._written(end)
        except PaddockError as failure:
            self._unsettled.append(end)
            if not isinstance(failure, StoreUnavailable):  # which is told by whoever looks at the store
                _log.error("what became of the call %s is not recorded: %s", end.effect.call, failure.message)
            raise unrecorded(course.call, end.effect.of.plugin, failure, happened=error is None) from failure
        if not counted:
            course.status = "in_doubt"
            raise overruled(end.effect)
        if end.state is State.IN_DOUBT and isinstance(error, PaddockError):
            raise doubtful(error, end.effect) from error
        return end.state

    def has_end(self, call: CallId) -> bool:
        """Whether it is known what became of a call, and only not recorded yet."""
        return any(end.effect.call == call for end in self._unsettled)

    async def settle_again(self) -> None:
        """Record what could not be recorded at its time. One that still cannot be keeps back no other.

        Raises:
            StoreUnavailable: nothing can be now either.
        """
        async with self._one_at_a_time:
            for end in tuple(self._unsettled):
                await self._settle_again(end)

    async def _settle_again(self, end: _End) -> None:
        try:
            if not await self._written(end):
                _log.warning("what became of the call %s is known by others already", end.effect.call)
        except StoreUnavailable:
            raise
        except PaddockError:
            pass  # it was told when it failed first, and is tried every two seconds
        else:
            self._unsettled.remove(end)

    def _end(self, course: Course, result: Any, error: BaseException | None) -> _End:
        if course.effect is None:
            raise HostError("a call without a record ended", code=STALE)
        effect = course.effect
        state, wait, entries = State.SUCCEEDED, timedelta(), list[Event]()
        cut_off = isinstance(error, asyncio.CancelledError) and self._going_down()
        if error is not None:
            state = State.FAILED_NO_EFFECT if had_no_effect(course, error) else State.IN_DOUBT
        if state is State.IN_DOUBT:
            course.status = "in_doubt"
            why = HOST_LOST if cut_off else _why(error)
            entries.append(EffectInDoubt(effect.of.plugin, effect.of.callable, why, effect.recovery))
            # What may still be at work is given the time to end: whoever looks earlier may see too little.
            if isinstance(error, TimedOut | asyncio.CancelledError) and effect.recovery != "atomic":
                wait = _STOPPING
        return _End(
            course,
            effect,
            state,
            self._clock.now().isoformat(),
            orjson.dumps(result) if error is None else b"",
            {} if error is None else HOST_IS_LOST if cut_off else _told(error),
            wait,
            (course.apart(), *entries),
        )

    async def _written(self, end: _End) -> bool:
        """Whether what this host says of it counts."""
        counted = await self._database.write(lambda tx: self._write(tx, end))
        if counted:
            self._then(end.effect, end.state)
        return counted

    def _write(self, tx: Transaction, end: _End) -> bool:
        try:
            match end.state:
                case State.SUCCEEDED:
                    records.succeed(tx, end.effect, now=end.at, result=end.result)
                case State.FAILED_NO_EFFECT:
                    records.fail(tx, end.effect, now=end.at, error=end.error)
                case _:
                    self._lose(tx, end.effect, end.error, end.wait)
        except HostError as stale:
            if stale.error_code != STALE:
                raise
            if end.is_written(records.find(tx, end.effect.of)):
                return True
            self._record_in(tx, end.course, end.overruled)
            return False
        for entry in end.entries:
            self._record_in(tx, end.course, entry)
        return True


def had_no_effect(course: Course, error: BaseException) -> bool:
    """Whether it is certain that a call which failed did nothing."""
    if not course.fate.known or isinstance(error, TimedOut | OutputInvalid):
        return False
    # Its tables tell better than its answer whether it has changed them.
    atomic = course.effect is not None and course.effect.recovery == "atomic"
    return not (atomic and any(course.tally.get(method) for method in _CHANGES_TABLES))


def _why(error: BaseException | None) -> str:
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


def _told(error: BaseException) -> dict[str, Any]:
    if isinstance(error, PaddockError):
        return to_json(error)
    cancelled = isinstance(error, asyncio.CancelledError)
    code, message = ("call.cancelled", "the call was cancelled") if cancelled else ("internal", "the host failed")
    return {"code": code, "message": message}
