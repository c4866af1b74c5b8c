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

from paddock.core.clock import Clock
from paddock.core.errors import Busy, NeedsApproval, PaddockError, StoreUnavailable
from paddock.core.event import Event
from paddock.core.events_effects import EffectInDoubt
from paddock.core.ids import CallId, Tenant
from paddock.gate.course import Course
from paddock.gate.effects import records
from paddock.gate.effects.errors import clash, foreign, gone, in_doubt, underway
from paddock.gate.effects.machine import Claim, Clash, Doubt, Foreign, Gone, Join, Replay, State, met
from paddock.gate.effects.records import RECOVER, Effect, EffectKey
from paddock.gate.effects.resolving import require_doubt
from paddock.gate.held import kept_context, waiting
from paddock.gate.settling import HOST_IS_LOST, HOST_LOST, Settling
from paddock.ledger.entry import Made
from paddock.policy.approvals.approval import OPEN
from paddock.policy.approvals.approval import State as Asked
from paddock.policy.approvals.desk import Approvals
from paddock.queue import queue
from paddock.queue.leases import Here, require
from paddock.queue.node import Node
from paddock.store.database import Database, Transaction

_LOOK_AGAIN = (0.05, 0.1, 0.2, 0.5, 1.0)  # seconds, while another daemon has the key

RecordAll: TypeAlias = Callable[[Transaction, Sequence[tuple[Tenant, CallId, Event]]], None]


@dataclass(slots=True)
class _Underway:
    """A call of this host that has a key."""

    call: CallId
    payload_hash: str
    principal: str
    over: asyncio.Event = field(default_factory=asyncio.Event)
    failure: PaddockError | None = None  # which those get too who wait for it, where it failed and nothing happened


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
        record_in: Callable[[Transaction, Course, Made], None],
        record_all: RecordAll,
    ) -> None:
        self._database = database
        self._approvals = approvals
        self._clock = clock
        self._node = node
        self._record_all = record_all
        self.when_in_doubt: Callable[[], None] = lambda: None  # told that something has to be found out
        self.until_over: Callable[[Effect], Awaitable[None]] = _later  # waits for one that its operator is at work on
        self.when_succeeded: Callable[[Effect], None] = lambda _effect: None  # told once that is on disk
        self.found_out: Callable[[Effect], Awaitable[bool]] = _nobody_does  # waits for what becomes of one in doubt
        self._underway: dict[EffectKey, _Underway] = {}
        self.going_down: Callable[[], bool] = lambda: False
        self._settling = Settling(
            database, clock, record_in, self._lose, self._settled, going_down=lambda: self.going_down()
        )

    async def claim(self, course: Course) -> Replayed | None:
        """Take the key of a call for it, or give what came of the call that had it; waits while that is under way.

        Raises:
            Conflict: the key stands for another payload or is another principal's, or it is not known what became of
                it, or not any more.
            NeedsApproval: it waits for a person, who is asked once.
            Busy: another daemon works on it, for too long to wait.
            PaddockError: the call that was under way with it failed, and nothing happened.
        """
        of, pauses = key_of(course), iter(_LOOK_AGAIN)
        while True:
            await self._alone(of, course)
            known = await self._known(of, course)
            if of in self._underway:
                continue  # another one here was quicker
            if known is not None and known.state is State.AWAITING_APPROVAL:
                if known.call == course.call:
                    return self._take(of, course, known)  # it goes on with a person's yes, who may have edited it
                if await self._free(known, course):
                    continue
            match met(known.known if known else None, course.payload_hash, course.context.principal.id):
                case Claim():
                    return self._take(of, course, known)
                case Replay() if known is not None and known.result is not None:
                    return Replayed(known.call, known.result)
                case Join() if known is not None and known.parked:
                    await self.until_over(known)
                case Join():
                    if (pause := next(pauses, None)) is None:
                        raise underway(of)
                    await asyncio.sleep(pause)
                case Clash():
                    raise clash(of, known.call if known else course.call)
                case Foreign():
                    raise foreign(of)
                case Doubt() if known is not None:
                    if not await self.found_out(known):
                        raise in_doubt(known)
                case Replay() | Doubt() | Gone():
                    raise gone(of)

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
        now, effect = self._now(), course.effect
        if effect is None or effect.state is State.FAILED_NO_EFFECT:
            effect = self._claimed(tx, course, here, now, records.starting(course.payload, _kept(course)))
            if effect.state is State.STARTED:
                return effect
        return records.start(tx, effect, holder=here, now=now, payload=course.payload, context=_kept(course))

    def hold(self, tx: Transaction, course: Course, here: Here) -> None:
        """Keep the key for a call that waits for a person, in the unit of work that asks them.

        Raises:
            TakenMeanwhile: somebody else has the key by now.
        """
        records.hold(tx, self._claimed(tx, course, here, self._now()))

    async def settle(self, course: Course, result: Any, error: BaseException | None) -> State:
        """Record what became of a call that had started. See `Settling.settle`."""
        state = await self._settling.settle(course, result, error)
        mine = self._underway.get(key_of(course))
        if mine is not None and state is State.FAILED_NO_EFFECT and isinstance(error, PaddockError):
            mine.failure = error
        return state

    def has_end(self, call: CallId) -> bool:
        """Whether it is known what became of a call, and only not recorded yet."""
        return self._settling.has_end(call)

    async def settle_again(self) -> None:
        """Record what could not be recorded at its time. See `Settling.settle_again`."""
        await self._settling.settle_again()

    def _settled(self, effect: Effect, state: State) -> None:
        if state is State.SUCCEEDED:
            self.when_succeeded(effect)
        elif state is State.IN_DOUBT:
            self.when_in_doubt()

    def abandoned(self, tx: Transaction, holder: Here) -> None:
        """A run of a host is over: what it had started is in doubt."""
        lost = records.lose_held(tx, holder, error=HOST_IS_LOST)
        self._find_out_all(tx, [effect for effect in lost if effect.recovery != "none"])
        self._record_all(tx, [(effect.of.tenant, effect.call, _in_doubt(effect)) for effect in lost])

    def lose(self, tx: Transaction, effect: Effect, error: Mapping[str, Any]) -> None:
        """Nobody knows what became of an effect, nor makes its call any more, in a unit of work."""
        self._lose(tx, effect, error, timedelta())
        told = EffectInDoubt(effect.of.plugin, effect.of.callable, str(error["message"]), effect.recovery)
        self._record_all(tx, [(effect.of.tenant, effect.call, told)])

    def take_back(self, tx: Transaction, tenant: Tenant, call: CallId, error: Mapping[str, Any]) -> None:
        """Let go of the key of a call that was never sent, where it is on record as started."""
        effect = records.find_call(tx, tenant, call)
        if effect is not None and effect.state is State.STARTED:
            records.fail(tx, effect, now=self._now(), error=error)

    async def not_started(self, course: Course, error: BaseException | None) -> None:
        """Let go of the key of a call that had waited for a person and comes to nothing.

        Where that cannot be written now, whoever comes with the key next looks at what became of the request. So they
        do where the call was cancelled: if its host goes down the yes is still good, and the next one goes on with it.
        """
        effect = course.effect
        still = isinstance(error, NeedsApproval | asyncio.CancelledError)
        if effect is not None and effect.state is State.AWAITING_APPROVAL and not still:
            with suppress(StoreUnavailable):
                await self._database.write(lambda tx: records.give_back(tx, effect))

    def leave(self, course: Course) -> None:
        """The call is over, or waits: whoever has the same key may look."""
        mine = self._underway.get(key_of(course))
        if mine is not None and mine.call == course.call:
            del self._underway[key_of(course)]
            mine.over.set()

    async def look_again(self) -> None:
        """Have it found out once more what became of effects in doubt, where that was given up or found no room."""
        while left := await self._database.read(records.nobody_looks):  # some at a time
            if not await self._database.write(lambda tx, left=left: self._find_out_all(tx, left)):
                return  # there is no room again

    async def look_now(self, tenant: Tenant, call: str) -> bool:
        """Have it found out at once what became of an effect in doubt; False where only a person can, or somebody is at
        it already.

        Raises:
            NotFound: there is no such effect.
            Conflict: it is not in doubt.
            Busy: `queue.full`, too much waits to be done.
        """

        def unit(tx: Transaction) -> bool:
            effect, now = require_doubt(tx, tenant, call), self._clock.now()
            if effect.recovery == "none":
                return False
            kind = work_of(effect)
            return queue.put(tx, tenant, kind, call, due=now, now=now) or queue.hurry(tx, tenant, kind, call, now=now)

        begun = await self._database.write(unit)
        if begun:
            self.when_in_doubt()
        return begun

    def _lose(self, tx: Transaction, effect: Effect, error: Mapping[str, Any], wait: timedelta) -> None:
        """Nobody knows what became of it; where its plugin says how, it is found out soon."""
        records.lose(tx, effect, error=error)
        if effect.recovery != "none":
            self._find_out(tx, effect, wait)

    def _find_out(self, tx: Transaction, effect: Effect, wait: timedelta = timedelta()) -> None:
        now = self._clock.now()
        with suppress(Busy):  # then at the next start, or a person does
            queue.put(tx, effect.of.tenant, work_of(effect), effect.call, due=now + wait, now=now)

    def _find_out_all(self, tx: Transaction, effects: Sequence[Effect]) -> int:
        """Have it found out soon what became of these; of how many there was room for."""
        now, found = self._clock.now(), sorted(effects, key=lambda effect: effect.of.tenant)
        return sum(
            queue.put_all(tx, tenant, [(work_of(effect), effect.call) for effect in some], due=now, now=now)
            for tenant, some in groupby(found, key=lambda effect: effect.of.tenant)
        )

    def _claimed(
        self, tx: Transaction, course: Course, here: Here, now: str, start: records.Start | None = None
    ) -> Effect:
        effect = records.claim(
            tx,
            key_of(course),
            call=course.call,
            payload_hash=course.payload_hash,
            holder=here,
            recovery=course.target.spec.recovery,
            now=now,
            principal=course.context.principal.id,
            start=start,
        )
        if effect is None:
            raise TakenMeanwhile
        return effect

    async def _free(self, known: Effect, course: Course) -> bool:
        """Whether a key that waits for a person's yes is free, since they said no or did not answer in time.

        Raises:
            NeedsApproval: they are still asked; whoever comes with the same key waits for the same answer.
            Conflict: the key is another principal's, or stands for another payload.
        """
        _require_same(known.of, known.call, known.principal, known.payload_hash, course)
        approval = await self._approvals.latest_of(known.of.tenant, known.call)
        if approval is not None and approval.state is Asked.PENDING:
            raise waiting(approval, course.target)
        if approval is not None and approval.state in (*OPEN, Asked.CONSUMED):
            return False  # it is about to be made
        return await self._database.write(lambda tx: records.give_back(tx, known))

    async def _alone(self, of: EffectKey, course: Course) -> None:
        """Wait while another call of this host has the key, or the same one has not come to rest that now goes on.

        Raises:
            Conflict: it is another principal's, or stands for another payload.
            PaddockError: that call failed, and nothing happened.
        """
        while (other := self._underway.get(of)) is not None:
            if other.call != course.call:
                _require_same(of, other.call, other.principal, other.payload_hash, course)
            await other.over.wait()
            if other.failure is not None:
                raise other.failure

    async def _known(self, of: EffectKey, course: Course) -> Effect | None:
        if course.context.idempotency_key is None and not course.resumed:
            return None  # the key is the call's own id, which nobody else has
        return await self._database.read(lambda tx: records.find(tx, of))

    def _take(self, of: EffectKey, course: Course, known: Effect | None) -> None:
        asked = course.payload_hash if known is None else known.payload_hash
        self._underway[of] = _Underway(course.call, asked, course.context.principal.id)
        course.effect = known

    def _now(self) -> str:
        return self._clock.now().isoformat()


async def _nobody_does(_effect: Effect) -> bool:
    return False


async def _later(effect: Effect) -> None:
    raise underway(effect.of)


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


def _require_same(of: EffectKey, call: CallId, principal: str | None, payload_hash: str, course: Course) -> None:
    """See to it that a call is the same one as that which has its key.

    Raises:
        Conflict: it is not.
    """
    if principal not in (None, course.context.principal.id):
        raise foreign(of)
    if payload_hash != course.payload_hash:
        raise clash(of, call)


def _kept(course: Course) -> Mapping[str, Any]:
    """What is kept of where a call came from, for finding out what became of it."""
    return kept_context(course.context) | {"digest": course.target.key.digest}
