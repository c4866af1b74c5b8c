"""From a decision to the start of a call: with a person's yes where the rules want one, and on record first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from paddock.core.errors import NeedsApproval, PaddockError, StoreUnavailable
from paddock.core.event import Event
from paddock.core.ids import CallId, Tenant
from paddock.core.outward import to_json
from paddock.gate.course import Course
from paddock.gate.deciding import Decides, refusal
from paddock.gate.effects.records import Effect
from paddock.gate.finishing import finished
from paddock.gate.held import kept_context, waiting
from paddock.gate.late_endings import LateEndings
from paddock.gate.once import Effects
from paddock.policy.approvals.approval import Kind
from paddock.policy.approvals.asking import Asked
from paddock.policy.approvals.binding import Subject
from paddock.policy.approvals.desk import Approvals
from paddock.policy.approvals.using import Changed
from paddock.policy.decision import Ask, Deny
from paddock.principals.approvers import count_approvers
from paddock.queue.leases import Here
from paddock.store.database import Database, Transaction

RecordIn = Callable[[Transaction, Course, Event], None]
"""Writes an event of a call into the ledger, in a unit of work."""

OUTCOME_UNKNOWN = "store.outcome_unknown"
_WITHDRAWING = 5.0  # seconds for taking back what was asked a moment ago


class DecidedOtherwise(Exception):
    """What the rules said to a call they do not say any more, since its caller consents to more or less by now."""


@dataclass(frozen=True, slots=True)
class Start:
    """Lets calls start.

    Args:
        decides: Knows the deciding rules.
        approvals: Where people are asked.
        effects: Sees to it that each happens once.
        database: For the unit of work in which a call starts.
        record_in: For the entry of that unit.
        endings: Where requests and starts are ended that cannot be at once.
    """

    decides: Decides
    approvals: Approvals
    effects: Effects
    database: Database
    record_in: RecordIn
    endings: LateEndings = field(default_factory=LateEndings)

    async def permit(self, course: Course, approval: str | None) -> str | None:
        """Whether the call may start, and with which approval, which `record` uses.

        Args:
            course: The call, its decision made.
            approval: The request that was approved for it, where it was held before.

        Raises:
            Denied: the rules forbid it.
            NeedsApproval: a person is asked first.
            TakenMeanwhile: another daemon has claimed the key.
        """
        match course.decision:
            case Deny() as denied:
                raise refusal(denied, course.target, course.call)
            case Ask() as asked:
                course.approval = approval or await self._standing(course, asked)
                if course.approval is None:
                    raise await self._held(course, asked)
                return approval
            case _:
                # Nobody has to be asked, or not any more. A yes is used up all the same: one that lies about would
                # have the call made again after each restart.
                course.approval = approval
                return approval

    async def record(self, course: Course, approval: str | None) -> None:
        """Use the approval, claim the key and record `call.started` in one unit of work, on disk when this returns.

        Raises:
            Conflict: the approval is not good for this, or not any more.
            TakenMeanwhile: another daemon has claimed the key.
            DecidedOtherwise: the rules say something else by now.
            StoreUnavailable: it cannot be recorded, so it must not happen.
        """
        here = None if course.target.only_reads else await self.effects.here()
        # To its end: whoever goes away while it is written must know whether it was. A call that was not sent by then
        # is on record as one that had no effect.
        await finished(self._record(course, approval, here))

    async def _record(self, course: Course, approval: str | None, here: Here | None) -> None:
        started = course.start()
        context = course.context

        def unit(tx: Transaction) -> Effect | None:
            decided = course.decision
            if here is not None and decided and not self.decides.holds(tx, course.target, context, decided):
                raise DecidedOtherwise
            if approval is not None:
                self.approvals.consume(
                    tx,
                    context.tenant,
                    approval,
                    subject=self._subject(course),
                    payload_hash=course.payload_hash,
                    requester=context.principal.id,
                    asked=isinstance(course.decision, Ask),
                )
            elif course.approval is not None:
                self.approvals.require_standing(tx, context.tenant, course.approval)
            effect = None if here is None else self.effects.start(tx, course, here)
            self.record_in(tx, course, started)
            return effect

        try:
            course.effect = await self.database.write(unit)
            if course.effect is not None:
                key, fence = course.effect.of.key, course.effect.fence
                course.context = replace(context, idempotency_key=key, fence=fence, call=course.call)
        except Changed as changed:
            course.started = False
            await self.approvals.void(context.tenant, changed.approval.id, changed.why)
            raise
        except BaseException as error:
            course.started = False
            if isinstance(error, StoreUnavailable) and error.error_code == OUTCOME_UNKNOWN:
                await self._take_back(course, error)
            raise

    async def _take_back(self, course: Course, error: StoreUnavailable) -> None:
        """Nobody knows whether the start of this call was written. Its plugin never hears of it: where it was, the call
        had no effect, and its key must not stay under way until this host ends."""
        of, told = (course.context.tenant, course.call), to_json(error)

        async def take_back() -> None:
            await self.database.write(lambda tx: self.effects.take_back(tx, *of, told))

        await self.endings.end_unsure(take_back)

    async def void(self, tenant: Tenant, approval: str, error: PaddockError) -> None:
        """The call that was approved failed before it started: nobody expects it to be made some day."""
        await self.endings.end(partial(self.approvals.void, tenant, approval, f"the call failed: {error.message}"))

    async def withdraw(self, tenant: Tenant, call: CallId) -> None:
        """The call was cancelled: nothing of it waits for a person any more, and no yes to it is good."""
        await self.endings.end(partial(self.approvals.withdraw, tenant, call, "it was cancelled"))

    async def end_again(self) -> None:
        """Record the ends of calls and requests that could not be recorded at their time, since there was no room on
        the disk for instance.

        Raises:
            StoreUnavailable: it cannot be written now either.
        """
        await self.effects.settle_again()
        await self.endings.again()

    async def _standing(self, course: Course, asked: Ask) -> str | None:
        if asked.remember == "never":
            return None
        context = course.context
        found = await self.approvals.standing_for(self._subject(course), context.principal.id, context.session)
        return found.id if found is not None else None

    async def _held(self, course: Course, asked: Ask) -> NeedsApproval:
        context = course.context
        four_eyes = asked.four_eyes
        if four_eyes is None:
            several = await self.database.read(lambda tx: count_approvers(tx, context.tenant))
            four_eyes = several > 1
        request = Asked(
            call=course.call,
            subject=self._subject(course),
            kind=Kind(asked.kind),
            payload=dict(course.payload),
            context=kept_context(context),
            requester=context.principal.id,
            for_person=context.principal.person,
            approvers=asked.approvers,
            quorum=asked.quorum,
            four_eyes=four_eyes,
            reason=asked.reason,
            public_reason=asked.public_reason,
            policy_version=asked.version,
            remember=asked.remember,
        )
        here = None if course.target.only_reads else await self.effects.here()
        # In one unit of work: until the person has answered, whoever comes with the same key waits for the same answer.
        also = None if here is None else partial(self.effects.hold, course=course, here=here)
        try:
            approval, token = await finished(self.approvals.ask(request, also))
        except asyncio.CancelledError:
            # Nobody is there to be told that the call waits.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WITHDRAWING):
                    await self.withdraw(context.tenant, course.call)
            raise
        except StoreUnavailable as error:
            if error.error_code == OUTCOME_UNKNOWN:
                # Whoever made the call hears that it failed, and may make it again: nobody is to be asked about both.
                unasked = partial(self.approvals.withdraw, context.tenant, course.call, "nobody heard that it waits")
                await self.endings.end_unsure(unasked)
            raise
        course.approval = approval.id
        return waiting(approval, course.target, token=token)

    def _subject(self, course: Course) -> Subject:
        target = course.target
        return Subject(
            tenant=Tenant(course.context.tenant),
            plugin=target.key.plugin,
            callable=target.spec.name,
            digest=target.key.digest,
            definition=target.definition,
            effects=target.effects,
            policies=self.decides.pins(course.decision) if course.decision is not None else (),
        )
