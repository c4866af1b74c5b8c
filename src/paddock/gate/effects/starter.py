"""Starts calls that have an effect or need an approval: approval, key and `call.started` in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from paddock.approvals.consume import ApprovalMismatch
from paddock.approvals.model import ApprovalRequestKind, ApprovedAction
from paddock.approvals.request import ApprovalRequest
from paddock.approvals.service import Approvals
from paddock.core.error_formats import error_to_json
from paddock.core.errors import NeedsApproval, PaddockError, StoreUnavailable
from paddock.core.ids import CallId, Tenant
from paddock.core.tasks import DeferredCancellation, run_to_completion
from paddock.gate.authorization import Authorizer, MadeDecision, denied_error
from paddock.gate.effects.approval_preview import approval_required_error
from paddock.gate.effects.coordinator import EffectCoordinator
from paddock.gate.effects.deferred_cleanups import DeferredCleanups
from paddock.gate.effects.stored_context import dump_waiting_context
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.invocation import Invocation
from paddock.ledger.entry import EventSource
from paddock.policy.decision import Ask, Deny
from paddock.principals.people import count_approvers
from paddock.queue.leases import NodeRun
from paddock.store.database import Database, Transaction

RecordIn = Callable[[Transaction, Invocation, EventSource], None]
"""Writes an event of a call into the ledger, within a transaction."""

OUTCOME_UNKNOWN_CODE = "store.outcome_unknown"
_WITHDRAW_TIMEOUT_S = 5.0  # for withdrawing an approval request that was made a moment ago


class DecisionChanged(Exception):
    """The call is decided differently by now: the caller's consents have changed, or a standing approval was given."""


class CallStarter(Struct, frozen=True):
    """Starts calls that have an effect, or that need an approval.

    Args:
        authorizer: Knows the deciding rules.
        approvals: Requests and consumes approvals.
        effects: Claims keys, so that each effect happens once.
        database: Runs the transaction in which a call starts.
        record_in: Writes the ledger entry within that transaction.
        cleanups: Undoes requests and starts that cannot be undone at once.
    """

    authorizer: Authorizer
    approvals: Approvals
    effects: EffectCoordinator
    database: Database
    record_in: RecordIn
    cleanups: DeferredCleanups = field(default_factory=DeferredCleanups)

    async def permit(self, invocation: Invocation) -> None:
        """Require that the decision lets the call start, and note the approval with which it does.

        Raises:
            Denied: the policy forbids it.
            NeedsApproval: a person has to approve it first.
            KeyAlreadyClaimed: another daemon has claimed the key.
            DecisionChanged: a standing approval for it was given meanwhile.
        """
        invocation.approval = invocation.resumed_approval
        match invocation.decision:
            case Deny() as denied:
                raise denied_error(denied, invocation.target, invocation.call_id)
            case Ask() as asked if invocation.approval is None:
                invocation.approval = await self.find_standing(invocation, asked)
                if invocation.approval is None:
                    raise await self._request_approval(invocation, asked)
            case _:
                # Where nobody has to be asked any more, an approval is used up all the same: an unused one would have
                # the call made again after each restart.
                pass

    async def record_start(self, invocation: Invocation) -> None:
        """Consume the approval, claim the key and record `call.started` in one transaction, on disk when this returns.

        Raises:
            Conflict: the approval is not for this call, or not valid any more.
            KeyAlreadyClaimed: another daemon has claimed the key.
            DecisionChanged: the policy decides differently by now.
            StoreUnavailable: the start cannot be recorded, so the call must not be made.
        """
        here = None if invocation.target.read_only else await self.effects.current_node_run()
        # A caller who is cancelled during the write must know whether it was committed. A call that was not sent by
        # then is recorded as one that had no effect.
        with DeferredCancellation() as deferral:
            await self._record_start(invocation, here, deferral)

    async def _record_start(self, invocation: Invocation, here: NodeRun | None, deferral: DeferredCancellation) -> None:
        context = invocation.context
        invocation.started = True
        try:
            invocation.effect = await self.database.write(
                lambda tx: self._record_start_in(tx, invocation, here), deferral
            )
            if invocation.effect is not None:
                key, fence = invocation.effect.effect_key.key, invocation.effect.fence
                invocation.context = replace(context, idempotency_key=key, fence=fence, call=invocation.call_id)
        except ApprovalMismatch as changed:
            invocation.started = False
            await run_to_completion(self.approvals.void(context.tenant, changed.approval.id, changed.why))
            raise
        except BaseException as error:
            invocation.started = False
            if isinstance(error, StoreUnavailable) and error.error_code == OUTCOME_UNKNOWN_CODE:
                await run_to_completion(self._undo_start(invocation, error))
            raise

    def _record_start_in(
        self, tx: Transaction, invocation: Invocation, here: NodeRun | None
    ) -> IdempotencyRecord | None:
        context, decided = invocation.context, invocation.decision
        if here is not None and decided:
            tx.before_commit(self._require_same_decisions, MadeDecision(invocation.target, context, decided))
        if invocation.resumed_approval is not None:
            self.approvals.consume(
                tx,
                context.tenant,
                invocation.resumed_approval,
                subject=self._approved_action(invocation),
                payload_hash=invocation.payload_hash,
                requester=context.principal.id,
                still_asked=isinstance(decided, Ask),
            )
        elif invocation.approval is not None:
            self.approvals.require_standing(tx, context.tenant, invocation.approval)
        effect = None if here is None else self.effects.record_start(tx, invocation, here)
        self.record_in(tx, invocation, invocation.split_start)
        return effect

    def _require_same_decisions(self, tx: Transaction, decisions: Sequence[MadeDecision]) -> None:
        """Once for all calls that start together: nearly all are the same few people's."""
        if not self.authorizer.still_hold(tx, decisions):
            raise DecisionChanged

    async def _undo_start(self, invocation: Invocation, error: StoreUnavailable) -> None:
        """Undo a start whose commit is unknown. The plugin is not called: if the start was committed, the call had no
        effect, and its key must not stay in use until this host ends."""
        tenant, call_id, reason = invocation.context.tenant, invocation.call_id, error_to_json(error)

        async def undo() -> None:
            await self.database.write(lambda tx: self.effects.undo_start(tx, tenant, call_id, reason))

        await self.cleanups.run_repeatedly(undo)

    async def void(self, tenant: Tenant, approval: str, error: PaddockError) -> None:
        """Void the approval of a call that failed before it started, so that it is not made some day."""
        await self.cleanups.run(partial(self.approvals.void, tenant, approval, f"the call failed: {error.message}"))

    async def withdraw(self, tenant: Tenant, call: CallId) -> None:
        """Withdraw the approval request of a cancelled call; an approval that was given is not valid any more."""
        await self.cleanups.run(partial(self.approvals.withdraw, tenant, call, "it was cancelled"))

    async def retry_cleanups(self) -> None:
        """Record outcomes and clean-ups that could not be written at their time, for instance on a full disk.

        Raises:
            StoreUnavailable: they still cannot be written.
        """
        await self.effects.outcomes.retry_unrecorded()
        await self.cleanups.retry_due()

    async def needs_another_person(self, tenant: Tenant, asked: Ask) -> bool:
        """Whether another person than the caller must approve; by default, where there are several approvers."""
        if asked.four_eyes is not None:
            return asked.four_eyes
        return await self.database.read(lambda tx: count_approvers(tx, tenant)) > 1

    async def find_standing(self, invocation: Invocation, asked: Ask) -> str | None:
        """Return the standing approval with which a call may start, if there is one."""
        if asked.remember == "never":
            return None
        context = invocation.context
        found = await self.approvals.standing_for(
            self._approved_action(invocation), context.principal.id, context.session
        )
        return found.id if found is not None else None

    async def _request_approval(self, invocation: Invocation, asked: Ask) -> NeedsApproval:
        context = invocation.context
        request = self._approval_request(
            invocation, asked, four_eyes=await self.needs_another_person(context.tenant, asked)
        )
        here = None if invocation.target.read_only else await self.effects.current_node_run()

        def check_and_hold(tx: Transaction) -> None:
            # A standing approval answers what waits when it is given; nothing may begin to wait for it afterwards.
            if request.remember != "never" and self.approvals.is_covered(tx, request):
                raise DecisionChanged
            # In one transaction: until the person answers, other calls with the same key wait for the same answer.
            if here is not None:
                self.effects.record_hold(tx, invocation=invocation, here=here)

        try:
            approval, token = await run_to_completion(self.approvals.ask(request, check_and_hold))
        except asyncio.CancelledError:
            # The caller is gone, and would not learn that the call waits.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WITHDRAW_TIMEOUT_S):
                    await self.withdraw(context.tenant, invocation.call_id)
            raise
        except StoreUnavailable as error:
            if error.error_code == OUTCOME_UNKNOWN_CODE:
                # The caller learns that the call failed and may repeat it: no person should be asked about both.
                unasked = partial(
                    self.approvals.withdraw, context.tenant, invocation.call_id, "nobody heard that it waits"
                )
                await self.cleanups.run_repeatedly(unasked)
            raise
        invocation.approval = approval.id
        return approval_required_error(approval, invocation.target, token=token)

    def _approval_request(self, invocation: Invocation, asked: Ask, *, four_eyes: bool) -> ApprovalRequest:
        context = invocation.context
        return ApprovalRequest(
            call=invocation.call_id,
            subject=self._approved_action(invocation),
            kind=ApprovalRequestKind(asked.kind),
            payload=dict(invocation.payload),
            context=dump_waiting_context(context),
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

    def _approved_action(self, invocation: Invocation) -> ApprovedAction:
        target = invocation.target
        return ApprovedAction(
            tenant=Tenant(invocation.context.tenant),
            plugin=target.key.plugin,
            callable=target.spec.name,
            digest=target.key.digest,
            definition=target.definition_hash,
            effects=target.effects,
            policies=self.authorizer.rule_pins(invocation.decision) if invocation.decision is not None else (),
        )
