"""Calls with effects on their way through the door: whoever comes with a key gets one effect, or the answer of it.

Before a call starts it owns nothing but a place in memory; its key is claimed, and its start recorded, in one unit of
work. What becomes of it is recorded in another, before anybody hears of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import groupby
from typing import Any, TypeAlias

import orjson

from paddock.core.clock import Clock
from paddock.core.errors import Busy, HostError, NeedsApproval, PaddockError, StoreUnavailable, TimedOut
from paddock.core.event import Event
from paddock.core.events_effects import EffectInDoubt
from paddock.core.ids import CallId, Tenant
from paddock.core.outward import to_json
from paddock.gate.course import Course
from paddock.gate.effects import records
from paddock.gate.effects.errors import clash, gone, in_doubt, unrecorded
from paddock.gate.effects.machine import Claim, Clash, Doubt, Gone, Join, Replay, State, met
from paddock.gate.effects.records import Effect, EffectKey
from paddock.gate.held import kept_context, waiting
from paddock.plugins.runtimes.envelopes import OutputInvalid
from paddock.policy.approvals.approval import OPEN
from paddock.policy.approvals.approval import State as Asked
from paddock.policy.approvals.desk import Approvals
from paddock.queue import queue
from paddock.queue.leases import Here, require
from paddock.queue.node import Node
from paddock.store.database import Database, Transaction

RECOVER = "effect.recover"  # the kind of work that finds out what became of one
HOST_LOST = "the host that made it is gone"
_STOPPING = timedelta(seconds=10)  # until a plugin that was told to stop has, or was ended
_CHANGES_TABLES = ("storage.exec", "storage.commit")
_LOOK_AGAIN = (0.05, 0.1, 0.2, 0.5, 1.0)  # seconds, while another daemon has the key

RecordAll: TypeAlias = Callable[[Transaction, Sequence[tuple[Tenant, CallId, Event]]], None]


@dataclass(slots=True)
class _Underway:
    """A call of this host that has a key."""

    call: CallId
    payload_hash: str
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Replayed:
    """What came of a call that was made before under the same key."""

    call: CallId
    result: bytes

    def value(self) -> Any:
        return orjson.loads(self.result)


class TakenMeanwhile(Exception):
    """Another daemon has claimed the key since we looked."""


class Effects:
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
        record_in: Callable[[Transaction, Course, Event], None],
        record_all: RecordAll,
    ) -> None:
        self._database = database
        self._approvals = approvals
        self._clock = clock
        self._node = node
        self._record_in = record_in
        self._record_all = record_all
        self.when_lost: Callable[[], None] = lambda: None  # told that something has to be found out
        self.when_succeeded: Callable[[Effect], None] = lambda _effect: None  # told once that is on disk
        self._underway: dict[EffectKey, _Underway] = {}
        self._unsettled: list[Callable[[Transaction], None]] = []

    async def claim(self, course: Course) -> Replayed | None:
        """Take the key of a call for it, or give what came of the call that had it; waits while that is under way.

        Raises:
            Conflict: the key stands for another payload, or it is not known what became of it, or not any more.
            Busy: another daemon works on it, for too long to wait.
        """
        of = key_of(course)
        for number in range(len(_LOOK_AGAIN) + 1):
            await self._alone(of, course)
            known = await self._known(of, course)
            if of in self._underway:
                continue
            if known is not None and known.call == course.call and known.state is State.AWAITING_APPROVAL:
                return self._take(of, course, known)  # it goes on with a person's yes, who may have edited it
            if known is not None and known.state is State.AWAITING_APPROVAL and await self._free(known, course):
                continue
            match met(known.known if known else None, course.payload_hash):
                case Claim():
                    return self._take(of, course, known)
                case Replay() if known is not None and known.result is not None:
                    return Replayed(known.call, known.result)
                case Join():
                    if number < len(_LOOK_AGAIN):
                        await asyncio.sleep(_LOOK_AGAIN[number])
                case Clash():
                    raise clash(of)
                case Doubt() if known is not None:
                    raise in_doubt(known)
                case Replay() | Doubt() | Gone():
                    raise gone(of)
        raise Busy(
            "the same call is under way elsewhere",
            code="effect.underway",
            hint="ask again with the same key in a moment: it will not be made twice",
            details={"plugin": of.plugin},
        )

    async def here(self) -> Here:
        """This run of this host, for `start`."""
        return await self._node.here()

    def start(self, tx: Transaction, course: Course, here: Here) -> Effect:
        """Record that a call starts, in the unit of work that lets it.

        Raises:
            TakenMeanwhile: somebody else has the key by now.
            HostError: its record is not where it was, or others took this host for dead.
        """
        require(tx, here)
        context, now, effect = course.context, self._now(), course.effect
        if effect is None or effect.state is State.FAILED_NO_EFFECT:
            effect = records.claim(
                tx,
                key_of(course),
                call=course.call,
                payload_hash=course.payload_hash,
                holder=here,
                recovery=course.target.spec.recovery,
                now=now,
                principal=context.principal.id,
            )
            if effect is None:
                raise TakenMeanwhile
        records.start(
            tx,
            effect,
            holder=here,
            now=now,
            payload=course.payload,
            payload_hash=course.payload_hash,
            context=_kept(course),
        )
        return effect

    async def settle(self, course: Course, result: Any, error: BaseException | None) -> None:
        """Record what became of a call that had started, with its entry in the ledger.

        Raises:
            StoreUnavailable: it cannot be recorded now; it is tried again, and nobody is told of a success meanwhile.
        """
        effect = course.effect
        if effect is None:
            raise HostError("a call without a record ended", code="effect.stale")
        now, started = self._now(), replace(effect, state=State.STARTED)
        written = b"" if error is not None else orjson.dumps(result)
        told = {} if error is None else _told(error)
        ended = course.ended()

        def unit(tx: Transaction) -> None:
            if error is None:
                records.succeed(tx, started, now=now, result=written)
            elif _had_no_effect(course, error):
                records.fail(tx, started, now=now, error=told)
            else:
                # What may still be at work is given the time to end: whoever looks earlier may see too little.
                stopping = isinstance(error, TimedOut | asyncio.CancelledError) and effect.recovery != "atomic"
                self._lose(tx, started, told, _STOPPING if stopping else timedelta())
            self._record_in(tx, course, ended)

        try:
            await self._database.write(unit)
        except StoreUnavailable as failure:
            self._unsettled.append(unit)
            raise unrecorded(course.call, effect.of.plugin, failure, happened=error is None) from failure
        if error is None:
            self.when_succeeded(effect)
        else:
            self.when_lost()

    async def settle_again(self) -> None:
        """Record what could not be recorded at its time.

        Raises:
            StoreUnavailable: it cannot be now either.
        """
        while self._unsettled:
            await self._database.write(self._unsettled[0])
            self._unsettled.pop(0)

    def abandoned(self, tx: Transaction, holder: Here) -> None:
        """A run of a host is over: what it had started is in doubt, and what it had only claimed is free."""
        lost = records.lose_held(tx, holder, error={"code": "host.lost", "message": HOST_LOST})
        self._find_out_all(tx, [effect for effect in lost if effect.recovery != "none"])
        self._record_all(tx, [(effect.of.tenant, effect.call, _in_doubt(effect)) for effect in lost])

    async def not_started(self, course: Course, error: BaseException | None) -> None:
        """Keep the key of a call that waits for a person, and let go of that of one that comes to nothing.

        Where it cannot be written now, whoever comes with the key next looks at what became of the request.
        """
        effect = course.effect
        with suppress(StoreUnavailable):
            if isinstance(error, NeedsApproval):
                if effect is None or effect.state is not State.AWAITING_APPROVAL:
                    await self._hold(course)
            elif effect is not None and effect.state is State.AWAITING_APPROVAL:
                await self._database.write(lambda tx: records.give_back(tx, effect))

    def leave(self, course: Course) -> None:
        """The call is over, or waits: whoever has the same key may look."""
        mine = self._underway.get(key_of(course))
        if mine is not None and mine.call == course.call:
            del self._underway[key_of(course)]
            mine.over.set()

    async def look_again(self) -> None:
        """Have it found out once more what became of effects in doubt, where that was given up or found no room."""
        left = await self._database.read(records.nobody_looks)
        if left:
            await self._database.write(lambda tx: self._find_out_all(tx, left))

    def _lose(self, tx: Transaction, effect: Effect, error: Mapping[str, Any], wait: timedelta = timedelta()) -> None:
        """Nobody knows what became of it; where its plugin says how, it is found out soon."""
        records.lose(tx, effect, error=error)
        if effect.recovery != "none":
            self._find_out(tx, effect, wait)

    def _find_out(self, tx: Transaction, effect: Effect, wait: timedelta = timedelta()) -> None:
        now = self._clock.now()
        with suppress(Busy):  # then at the next start, or a person does
            queue.put(tx, effect.of.tenant, work_of(effect), effect.call, due=now + wait, now=now)

    def _find_out_all(self, tx: Transaction, effects: Sequence[Effect]) -> None:
        now, found = self._clock.now(), sorted(effects, key=lambda effect: effect.of.tenant)
        for tenant, some in groupby(found, key=lambda effect: effect.of.tenant):
            queue.put_all(tx, tenant, [(work_of(effect), effect.call) for effect in some], due=now, now=now)

    async def _hold(self, course: Course) -> None:
        """Until the person has answered, whoever comes with the key waits for the same answer."""
        here = await self._node.here()

        def unit(tx: Transaction) -> None:
            claimed = records.claim(
                tx,
                key_of(course),
                call=course.call,
                payload_hash=course.payload_hash,
                holder=here,
                recovery=course.target.spec.recovery,
                now=self._now(),
                principal=course.context.principal.id,
            )
            if claimed is not None:
                records.hold(tx, claimed)

        await self._database.write(unit)

    async def _free(self, known: Effect, course: Course) -> bool:
        """Whether a key that waits for a person's yes is free, since they said no or did not answer in time.

        Raises:
            NeedsApproval: they are still asked; whoever comes with the same key waits for the same answer.
            Conflict: the key stands for another payload.
        """
        if known.payload_hash != course.payload_hash:
            raise clash(known.of)
        approval = await self._approvals.latest_of(known.of.tenant, known.call)
        if approval is not None and approval.state is Asked.PENDING:
            raise waiting(approval, course.target)
        if approval is not None and approval.state in (*OPEN, Asked.CONSUMED):
            return False  # it is about to be made
        return await self._database.write(lambda tx: records.give_back(tx, known))

    async def _alone(self, of: EffectKey, course: Course) -> None:
        while (other := self._underway.get(of)) is not None and other.call != course.call:
            if other.payload_hash != course.payload_hash:
                raise clash(of)
            await other.over.wait()

    async def _known(self, of: EffectKey, course: Course) -> Effect | None:
        if course.context.idempotency_key is None and not course.resumed:
            return None  # the key is the call's own id, which nobody else has
        return await self._database.read(lambda tx: records.find(tx, of))

    def _take(self, of: EffectKey, course: Course, known: Effect | None) -> None:
        self._underway[of] = _Underway(course.call, course.payload_hash)
        course.effect = known

    def _now(self) -> str:
        return self._clock.now().isoformat()


def key_of(course: Course) -> EffectKey:
    """What the effect of a call is known by; a call that was given no key stands for itself."""
    key = course.target.key
    return EffectKey(
        course.context.tenant, key.plugin, course.target.spec.name, course.context.idempotency_key or course.call
    )


def work_of(effect: Effect) -> str:
    """The kind of work that finds out what became of it. What is atomic is known to the home that made it alone, in the
    files of its plugins."""
    return recover_at(effect.holder.node) if effect.recovery == "atomic" else RECOVER


def recover_at(node: str) -> str:
    """The kind of that work that only this node can do."""
    return f"{RECOVER}:{node}"


def _in_doubt(effect: Effect) -> EffectInDoubt:
    return EffectInDoubt(effect.of.plugin, effect.of.callable, HOST_LOST, effect.recovery)


def _had_no_effect(course: Course, error: BaseException) -> bool:
    """Whether it is certain that a call which failed did nothing."""
    if not course.fate.known or isinstance(error, TimedOut | OutputInvalid):
        return False
    # Its tables tell better than its answer whether it has changed them.
    atomic = course.effect is not None and course.effect.recovery == "atomic"
    return not (atomic and any(course.tally.get(method) for method in _CHANGES_TABLES))


def _kept(course: Course) -> Mapping[str, Any]:
    """What is kept of where a call came from, for finding out what became of it."""
    return kept_context(course.context) | {"digest": course.target.key.digest}


def _told(error: BaseException) -> dict[str, Any]:
    if isinstance(error, PaddockError):
        return to_json(error)
    cancelled = isinstance(error, asyncio.CancelledError)
    code, message = ("call.cancelled", "the call was cancelled") if cancelled else ("internal", "the host failed")
    return {"code": code, "message": message}
