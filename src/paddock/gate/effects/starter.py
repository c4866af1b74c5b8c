"""What has to be ended and could not be at its time, or of which nobody knows whether it has begun."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeAlias

from paddock.approvals.consume import ApprovalMismatch
from paddock.approvals.model import ApprovalRequestKind, ApprovedAction
from paddock.approvals.request import ApprovalRequest
from paddock.approvals.service import Approvals
from paddock.core.error_mapping import error_to_json
from paddock.core.errors import NeedsApproval, PaddockError, StoreUnavailable
from paddock.core.events.event import Event
from paddock.core.ids import CallId, Tenant
from paddock.core.tasks import run_to_completion
from paddock.gate.authorization import Authorizer, denied_error
from paddock.gate.effects.context import approval_required_error, dump_context
from paddock.gate.effects.coordinator import EffectCoordinator
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.invocation import Invocation
from paddock.policy.decision import Ask, Deny
from paddock.principals.people import count_approvers
from paddock.queue.leases import NodeRun
from paddock.store.database import Database, Transaction

CleanupAction: TypeAlias = Callable[[], Awaitable[None]]

_RETRY_DELAYS_S = (2.0, 15.0, 60.0)


class _PendingCleanup(NamedTuple):
    run: CleanupAction
    not_before: float


class DeferredCleanups:
    """Ends things, now or as soon as the store takes it.

    Args:
        looks: When to look again for what may be written although nobody heard of it, in seconds.
    """

    def __init__(self, looks: Sequence[float] = _RETRY_DELAYS_S) -> None:
        self._retry_delays_s = looks
        self._pending: list[_PendingCleanup] = []

    async def run(self, ending: CleanupAction) -> None:
        """End something, unless it is not there, or over; later where the store cannot take it now."""
        try:
            await ending()
        except StoreUnavailable:
            self._pending.append(_PendingCleanup(ending, 0.0))
        except PaddockError:
            pass

    async def run_repeatedly(self, ending: CleanupAction) -> None:
        """End something that may not be there yet, since nobody heard of its commit: now, and a few times more."""
        await self.run(ending)
        now = asyncio.get_running_loop().time()
        self._pending += [_PendingCleanup(ending, now + pause) for pause in self._retry_delays_s]

    async def retry_due(self) -> None:
        """End what is due by now.

        Raises:
            StoreUnavailable: the store cannot take it now either.
        """
        now = asyncio.get_running_loop().time()
        for late in [one for one in self._pending if one.not_before <= now]:
            try:
                await late.run()
            except StoreUnavailable:
                raise
            except PaddockError:
                pass  # it is not there, or over
            self._pending.remove(late)


RecordIn = Callable[[Transaction, Invocation, Event], None]
"""Writes an event of a call into the ledger, in a unit of work."""

OUTCOME_UNKNOWN_CODE = "store.outcome_unknown"
_WITHDRAW_TIMEOUT_S = 5.0  # seconds for taking back what was asked a moment ago


class DecisionChanged(Exception):
    """What the rules said to a call they do not say any more, since its caller consents to more or less by now."""


@dataclass(frozen=True, slots=True)
class CallStarter:
    """Lets calls start.

    Args:
        decides: Knows the deciding rules.
        approvals: Where people are asked.
        effects: Sees to it that each happens once.
        database: For the unit of work in which a call starts.
        record_in: For the entry of that unit.
        endings: Where requests and starts are ended that cannot be at once.
    """

    authorizer: Authorizer
    approvals: Approvals
    effects: EffectCoordinator
    database: Database
    record_in: RecordIn
    cleanups: DeferredCleanups = field(default_factory=DeferredCleanups)

    async def permit(self, course: Invocation, approval: str | None) -> str | None:
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
                raise denied_error(denied, course.target, course.call_id)
            case Ask() as asked:
                course.approval = approval or await self._find_standing(course, asked)
                if course.approval is None:
                    raise await self._request_approval(course, asked)
                return approval
            case _:
                # Nobody has to be asked, or not any more. A yes is used up all the same: one that lies about would
                # have the call made again after each restart.
                course.approval = approval
                return approval

    async def record_start(self, course: Invocation, approval: str | None) -> None:
        """Use the approval, claim the key and record `call.started` in one unit of work, on disk when this returns.

        Raises:
            Conflict: the approval is not good for this, or not any more.
            TakenMeanwhile: another daemon has claimed the key.
            DecidedOtherwise: the rules say something else by now.
            StoreUnavailable: it cannot be recorded, so it must not happen.
        """
        here = None if course.target.read_only else await self.effects.current_node_run()
        # To its end: whoever goes away while it is written must know whether it was. A call that was not sent by then
        # is on record as one that had no effect.
        await run_to_completion(self._record_start(course, approval, here))

    async def _record_start(self, course: Invocation, approval: str | None, here: NodeRun | None) -> None:
        started = course.started_event()
        context = course.context

        def unit(tx: Transaction) -> IdempotencyRecord | None:
            decided = course.decision
            if here is not None and decided and not self.authorizer.still_holds(tx, course.target, context, decided):
                raise DecisionChanged
            if approval is not None:
                self.approvals.consume(
                    tx,
                    context.tenant,
                    approval,
                    subject=self._approved_action(course),
                    payload_hash=course.payload_hash,
                    requester=context.principal.id,
                    still_asked=isinstance(course.decision, Ask),
                )
            elif course.approval is not None:
                self.approvals.require_standing(tx, context.tenant, course.approval)
            effect = None if here is None else self.effects.record_start(tx, course, here)
            self.record_in(tx, course, started)
            return effect

        try:
            course.effect = await self.database.write(unit)
            if course.effect is not None:
                key, fence = course.effect.effect_key.key, course.effect.fence
                course.context = replace(context, idempotency_key=key, fence=fence, call=course.call_id)
        except ApprovalMismatch as changed:
            course.started = False
            await self.approvals.void(context.tenant, changed.approval.id, changed.why)
            raise
        except BaseException as error:
            course.started = False
            if isinstance(error, StoreUnavailable) and error.error_code == OUTCOME_UNKNOWN_CODE:
                await self._undo_start(course, error)
            raise

    async def _undo_start(self, course: Invocation, error: StoreUnavailable) -> None:
        """Nobody knows whether the start of this call was written. Its plugin never hears of it: where it was, the call
        had no effect, and its key must not stay under way until this host ends."""
        of, told = (course.context.tenant, course.call_id), error_to_json(error)

        async def take_back() -> None:
            await self.database.write(lambda tx: self.effects.undo_start(tx, *of, told))

        await self.cleanups.run_repeatedly(take_back)

    async def void(self, tenant: Tenant, approval: str, error: PaddockError) -> None:
        """The call that was approved failed before it started: nobody expects it to be made some day."""
        await self.cleanups.run(partial(self.approvals.void, tenant, approval, f"the call failed: {error.message}"))

    async def withdraw(self, tenant: Tenant, call: CallId) -> None:
        """The call was cancelled: nothing of it waits for a person any more, and no yes to it is good."""
        await self.cleanups.run(partial(self.approvals.withdraw, tenant, call, "it was cancelled"))

    async def retry_cleanups(self) -> None:
        """Record the ends of calls and requests that could not be recorded at their time, since there was no room on
        the disk for instance.

        Raises:
            StoreUnavailable: it cannot be written now either.
        """
        await self.effects.retry_unrecorded()
        await self.cleanups.retry_due()

    async def _find_standing(self, course: Invocation, asked: Ask) -> str | None:
        if asked.remember == "never":
            return None
        context = course.context
        found = await self.approvals.standing_for(self._approved_action(course), context.principal.id, context.session)
        return found.id if found is not None else None

    async def _request_approval(self, course: Invocation, asked: Ask) -> NeedsApproval:
        context = course.context
        four_eyes = asked.four_eyes
        if four_eyes is None:
            several = await self.database.read(lambda tx: count_approvers(tx, context.tenant))
            four_eyes = several > 1
        request = ApprovalRequest(
            call=course.call_id,
            subject=self._approved_action(course),
            kind=ApprovalRequestKind(asked.kind),
            payload=dict(course.payload),
            context=dump_context(context),
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
        here = None if course.target.read_only else await self.effects.current_node_run()
        # In one unit of work: until the person has answered, whoever comes with the same key waits for the same answer.
        also = None if here is None else partial(self.effects.record_hold, course=course, here=here)
        try:
            approval, token = await run_to_completion(self.approvals.ask(request, also))
        except asyncio.CancelledError:
            # Nobody is there to be told that the call waits.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WITHDRAW_TIMEOUT_S):
                    await self.withdraw(context.tenant, course.call_id)
            raise
        except StoreUnavailable as error:
            if error.error_code == OUTCOME_UNKNOWN_CODE:
                # Whoever made the call hears that it failed, and may make it again: nobody is to be asked about both.
                unasked = partial(self.approvals.withdraw, context.tenant, course.call_id, "nobody heard that it waits")
                await self.cleanups.run_repeatedly(unasked)
            raise
        course.approval = approval.id
        return approval_required_error(approval, course.target, token=token)

    def _approved_action(self, course: Invocation) -> ApprovedAction:
        target = course.target
        return ApprovedAction(
            tenant=Tenant(course.context.tenant),
            plugin=target.key.plugin,
            callable=target.spec.name,
            digest=target.key.digest,
            definition=target.definition_hash,
            effects=target.effects,
            policies=self.authorizer.rule_pins(course.decision) if course.decision is not None else (),
        )
