"""Resuming calls that wait for a person: after an answer, also one that was given elsewhere, and after a restart.

Everything that is needed to make a call later is stored with its approval request, so any host can make it; see
`waiting_calls.py`. Here are calls that were approved, and those that somebody follows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct

from paddock.approvals.model import OPEN_STATES, Approval, ApprovalState
from paddock.approvals.open_requests import UNUSED_PAGE_ROWS, UnusedApproval
from paddock.approvals.service import Approvals
from paddock.approvals.standing_approval import StandingApproval
from paddock.core.call import CallContext
from paddock.core.canonical import hash_of
from paddock.core.errors import Conflict, NotFound, PaddockError, StoreUnavailable
from paddock.core.ids import CallId, Tenant
from paddock.gate.calls.handle import CallHandle
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.calls.waiting_calls import WaitingCalls, ended_approval_error, unapproved_outcome
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.effects.approval_preview import approval_required_error
from paddock.gate.gate import Gate
from paddock.gate.invocation import CallCancelled

_log = logging.getLogger("paddock.gate")

CHECK_INTERVAL_S = 2.0  # seconds between two looks for answers that were given elsewhere
_CHECKS_LEFT_TO_OTHERS = 3  # checks, while another host may use the approval it was given
_MAX_RESUMED = 200  # calls that run; those that were approved before a restart wait until others have ended


class PendingCallResumer:
    """Resumes or ends calls that waited for a person.

    Args:
        gate: A resumed call goes through all of it again.
        calls: The registry of calls.
        waiting: Makes the handles of calls that wait.
        approvals: The approval requests.
    """

    def __init__(self, gate: Gate, calls: CallRegistry, waiting: WaitingCalls, approvals: Approvals) -> None:
        self._gate = gate
        self._calls = calls
        self._waiting = waiting
        self._approvals = approvals
        self._unused: dict[str, int] = {}  # by approved request, how many checks found it unused
        self._checked_until = ""  # the id that the last of these checks came to

    async def on_answered(self, approval: Approval) -> CallHandle | None:
        """Apply an answer: make the call, end it, or let it wait for more approvers; and those that joined it.

        Raises:
            PaddockError: it was approved, and its target is gone, or its principal may not act any more. The request
                is voided.
            StoreUnavailable: it was approved, and waits for one of the next checks.
        """
        try:
            live = await self._apply_answer(approval)
        except StoreUnavailable:
            raise
        except PaddockError as error:
            for other in self._calls.list_joined(approval.call):
                self._calls.abandon(other, error)
            raise
        if not self._calls.is_shutting_down:
            for other in self._calls.list_joined(approval.call):
                await self._apply_answer_to_joined(other, approval)
        return live

    async def _apply_answer(self, approval: Approval) -> CallHandle | None:
        tenant = approval.binding.subject.tenant
        live = self._calls.get(approval.call)
        if approval.state not in OPEN_STATES:
            # This needs neither the plugin nor the principal.
            if live is not None:
                self._calls.abandon(live, *unapproved_outcome(approval))
            return live
        if self._calls.is_shutting_down:
            return live  # the next host knows what waits, and makes approved calls
        if live is not None and live.is_over:
            await self._approvals.withdraw(tenant, live.id, "the call is over")
            return live
        if approval.state is ApprovalState.PENDING:
            if live is not None and live.approval_id not in (None, approval.id):
                live.hold(approval_required_error(approval, self._target(approval)))  # somebody edited it
            return live  # more people are needed
        try:
            target, context = self._waiting.find_target(approval), await self._waiting.load_context(approval)
        except StoreUnavailable:
            raise  # that says nothing about the call
        except PaddockError as error:
            await self._approvals.void(tenant, approval.id, error.message)
            if live is not None:
                self._calls.abandon(live, error)
            raise
        live = self._waiting.restore_held(approval, target, context)
        if live.approval_required is not None:  # else it goes on already
            self._calls.resume_approved(live, context, target, approval.payload, approval.id)
        return live

    def _target(self, approval: Approval) -> CallTarget | None:
        try:
            return self._waiting.find_target(approval)
        except PaddockError:
            return None

    async def _apply_answer_to_joined(self, other: CallHandle, approval: Approval) -> None:
        """Do with a call what becomes of the one whose request it waits for."""
        if approval.state in (ApprovalState.APPROVED, ApprovalState.CONSUMED):
            try:
                context = await self._waiting.with_current_rights(other.context)
            except StoreUnavailable:
                pass  # the next check applies it
            except PaddockError as error:
                self._calls.abandon(other, error)
            else:
                self._calls.resume_joined(other, context)
        elif approval.state is not ApprovalState.PENDING:
            self._calls.abandon(other, *unapproved_outcome(approval))
        elif other.approval_id not in (None, approval.id):
            other.hold(approval_required_error(approval, self._target(approval)))  # somebody edited it

    async def cancel(self, live: CallHandle) -> None:
        """Cancel a call, whether it runs or waits: its approval request is withdrawn too. Harmless when it is over.

        Raises:
            StoreUnavailable: it waits for a person, and still does.
        """
        if live.approval_required is None:
            # The caller learns from its end that the outcome is unknown.
            poller = self._gate.long_running.poller
            if live.status != "in_progress" or not await poller.cancel(live.context.tenant, live.id):
                live.cancel()
            await self._gate.starter.withdraw(live.context.tenant, live.id)
            return
        await self._approvals.withdraw(live.context.tenant, live.id, "it was cancelled")
        self._calls.abandon(live, CallCancelled("the call was cancelled"), "cancelled")
        live.cancel()  # it may have gone on meanwhile

    async def resume_unused(self, plugin: str | None = None) -> None:
        """Make the calls, or only those of a plugin, that were approved and not made: after a restart, or once the
        plugin is enabled."""
        async for unused in self._approvals.iter_unused(plugin):
            if self._calls.running_count >= _MAX_RESUMED:
                return  # the next check goes on
            if self._may_have_target(unused):
                await self._resume_unused(unused)

    async def resume_left_over(self) -> None:
        """Make the calls that several checks found approved and not made: another host was given the approval, and is
        gone, or its plugin starts slowly. Should both make it, only one can consume the approval.

        Each check looks at so many of them, the next one at those after them.
        """
        after = self._checked_until
        page = await self._approvals.list_unused(after)
        last = page[-1].id if len(page) == UNUSED_PAGE_ROWS else ""
        found: dict[str, int] = {}
        for unused in page:
            if self._calls.running_count >= _MAX_RESUMED:
                return  # the next check goes on
            if self._may_have_target(unused):
                found[unused.id] = self._unused.get(unused.id, 0) + 1
                if found[unused.id] > _CHECKS_LEFT_TO_OTHERS:
                    await self._resume_unused(unused)
        others = {one: checks for one, checks in self._unused.items() if one <= after or (last and one > last)}
        self._unused, self._checked_until = others | found, last

    async def _resume_unused(self, unused: UnusedApproval) -> None:
        try:
            approval = await self._approvals.find(unused.tenant, unused.id)
        except NotFound:
            return  # deleted meanwhile
        if self._target(approval) is not None:
            await self.resume_approved([approval])

    def _may_have_target(self, unused: UnusedApproval) -> bool:
        """Whether its target exists, as far as that is known without its parameters."""
        catalogue = self._gate.catalogue(Tenant(unused.tenant))
        try:
            if ":" in unused.callable:  # a document or a prompt, which the parameters name
                catalogue.entry(unused.plugin)
            else:
                catalogue.find_callable(unused.plugin, unused.callable)
        except PaddockError:
            return False
        return True

    async def resume_approved(self, approvals: Iterable[Approval]) -> None:
        """Make those calls of several answered requests that are approved; one that cannot go on stops no other."""
        for approval in approvals:
            if approval.state is ApprovalState.APPROVED:
                try:
                    await self.on_answered(approval)
                except PaddockError as error:
                    _log.warning("the call %s cannot go on: %s", approval.call, error.message)

    async def void_pending(self, tenant: Tenant, plugin: str, callables: Collection[str], reason: str) -> None:
        """Void the requests that wait for an answer about some callables of a plugin, and end their calls."""
        async for voided in self._approvals.void_pending(tenant, plugin, callables, reason):
            await self.on_answered(voided)

    async def apply_remote_answers(self) -> None:
        """Apply answers that were given elsewhere, by a command or at another host, to calls that are followed here."""
        held = self._calls.list_held()
        calls = sorted({str(live.approval_call_id) for live in held})
        still = await self._approvals.open_states(calls) if calls else {}
        for live in held:
            asked = str(live.approval_call_id)
            if asked in still:
                continue
            latest, _ = await self._approvals.requests_of_call(live.context.tenant, asked)
            if latest is None or live.approval_required is None or latest.state in OPEN_STATES:
                continue  # this one may have gone on while we looked
            if asked != live.id:
                await self._apply_answer_to_joined(live, latest)
            elif latest.state is ApprovalState.CONSUMED:
                self._calls.follow_remote(live)
            else:
                self._calls.abandon(live, *unapproved_outcome(latest))

    async def check_forever(self) -> None:
        """Look for answers that were given elsewhere, and retry clean-ups, periodically."""
        while True:
            try:
                await self._gate.starter.retry_cleanups()
                await self.apply_remote_answers()
                await self.resume_left_over()
            except PaddockError as error:
                _log.warning("requests could not be looked through: %s", error.message)
            await asyncio.sleep(CHECK_INTERVAL_S)

    def unchanged_target(self, approval: Approval) -> CallTarget | None:
        """The target of a request, if it exists and its definition is the one that the request was made for."""
        target = self._target(approval)
        return target if target and target.definition_hash == approval.binding.subject.definition else None

    def is_outdated(self, standing: StandingApproval) -> bool:
        """Whether a standing approval covers nothing any more, since its plugin or callable has changed.

        That of a plugin which is not enabled is not outdated: it may come back as it was.
        """
        catalogue = self._gate.catalogue(Tenant(standing.tenant))
        try:
            if catalogue.entry(standing.plugin).key.digest != standing.digest:
                return True
            targets = catalogue.targets_of(standing.plugin)
        except PaddockError:
            return False
        current = [target.definition_hash for target in targets if target.spec.name == standing.callable]
        return bool(current) and standing.definition not in current

    def require_valid(self, approval: Approval, payload: Mapping[str, Any]) -> None:
        """Require that edited parameters fit the target, before the request is replaced.

        Raises:
            Invalid: they do not; carries every mistake.
        """
        target = self.unchanged_target(approval)
        if target is not None:
            self._gate.require_valid(target, payload)

    async def require_permitted(self, target: CallTarget, context: CallContext, call: CallId) -> None:
        """Require that whoever comes back for a call may make it now: as they present themselves, and by the rights
        that they have in the store.

        Raises:
            Denied: they lack a scope, the policy forbids it, or they may not act any more.
            NotFound: nobody has that name any more.
        """
        await self._gate.require_permitted(target, context, call)
        await self._gate.require_permitted(target, await self._waiting.with_current_rights(context), call)


class ApprovalTokens(Struct, frozen=True):
    """Redeems approval tokens for the calls that they were issued for.

    Args:
        approvals: The approval requests, with hashes of their tokens.
        resumer: Resumes a call that was approved and not made yet.
        calls: The registry, for calls that were made already.
        waiting: Finds the calls that still wait.
    """

    approvals: Approvals
    resumer: PendingCallResumer
    calls: CallRegistry
    waiting: WaitingCalls

    async def redeem(
        self, token: str, target: CallTarget, params: Mapping[str, Any], context: CallContext
    ) -> CallHandle:
        """The call that the token was issued for. The token is used up then, unless the call still waits.

        Args:
            token: The token that came with `NeedsApproval`.
            target: The target of the call.
            params: Its parameters.
            context: Its principal.

        Raises:
            Denied: the token is not theirs, is none, or was used; or it was denied; or they may not make the call
                any more, and what came of it is not for them.
            Conflict: it was given out for something else; or nobody answered in time.
            NotFound: the call was made, and is not remembered here any more.
        """
        approval = await self.approvals.find_by_token(context.tenant, token, context.principal.id)
        subject = approval.binding.subject
        same = (subject.plugin, subject.callable) == (target.key.plugin, target.spec.name)
        if not same or approval.binding.payload_hash != hash_of(params):
            raise Conflict(
                "this approval token was issued for another call",
                code="approval.token_elsewhere",
                hint="repeat the original call with the same parameters",
                details={"approval": approval.id, "call_id": approval.call},
            )
        await self.resumer.require_permitted(target, context, CallId(approval.call))
        match approval.state:
            case ApprovalState.PENDING:
                return await self.waiting.find(approval.call, context.tenant)
            case ApprovalState.APPROVED:
                await self.approvals.redeem_token(context.tenant, token)
                return await self.resumer.on_answered(approval) or self.calls.find(approval.call, context.tenant)
            case ApprovalState.CONSUMED:
                live = self.calls.find(approval.call, context.tenant)
                await self.approvals.redeem_token(context.tenant, token)
                return live
            case _:
                raise ended_approval_error(approval)
