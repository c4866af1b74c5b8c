"""Resuming calls that wait for a person: after an answer, after expiry, and after a restart.

Everything that is needed to make a call later is stored with its approval request, so any host can make it. The
principal is looked up again each time, with the rights that it has then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from paddock.approvals.model import OPEN_STATES, Approval, ApprovalState
from paddock.approvals.service import Approvals
from paddock.approvals.standing_approval import StandingApproval
from paddock.core.call import CallContext, Principal
from paddock.core.canonical import hash_of
from paddock.core.clock import Clock
from paddock.core.errors import Conflict, Denied, PaddockError
from paddock.core.ids import CallId, Tenant
from paddock.gate.calls.handle import CallHandle
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.effects.approval_preview import approval_required_error
from paddock.gate.effects.stored_context import load_context
from paddock.gate.gate import Gate
from paddock.gate.invocation import CallCancelled
from paddock.principals.principal_name import resolve_principal
from paddock.store.database import Database

_log = logging.getLogger("paddock.gate")

EXPIRY_CHECK_INTERVAL_S = 2.0  # seconds between two looks for requests whose time is over
_CHECKS_LEFT_TO_OTHERS = 3  # checks, while another host may use the approval it was given


class PendingCallResumer:
    """Resumes or ends calls that waited for a person.

    Args:
        gate: A resumed call goes through all of it again.
        calls: The registry of calls.
        approvals: The approval requests.
        database: Holds the principals.
        clock: The time.
    """

    def __init__(self, gate: Gate, calls: CallRegistry, approvals: Approvals, database: Database, clock: Clock) -> None:
        self._gate = gate
        self._calls = calls
        self._approvals = approvals
        self._database = database
        self._clock = clock
        self._unused_approvals: dict[str, int] = {}  # by waiting call, how many checks found its approval unused

    async def on_answered(self, approval: Approval) -> CallHandle | None:
        """Apply an answer: make the call, end it, or let it wait for more approvers; and those that joined it.

        Raises:
            PaddockError: it was approved, and its target is gone, or its principal may not act any more. The request
                is voided.
        """
        try:
            live = await self._apply_answer(approval)
        except PaddockError as error:
            for other in self._joined_calls(approval.call):
                self._calls.abandon(other, error)
            raise
        if not self._calls.is_shutting_down:
            for other in self._joined_calls(approval.call):
                await self._apply_answer_to_joined(other, approval, live)
        return live

    async def _apply_answer(self, approval: Approval) -> CallHandle | None:
        tenant = approval.binding.subject.tenant
        live = self._calls.get(approval.call)
        if approval.state not in OPEN_STATES:
            # This needs neither the plugin nor the principal.
            if live is not None:
                self._abandon(live, approval)
            return live
        if self._calls.is_shutting_down:
            return live  # the next host knows what waits, and makes approved calls
        if live is not None and live.is_over:
            await self._approvals.withdraw(tenant, live.id, "the call is over")
            return live
        try:
            target, context = self._find_target(approval), await self._load_context(approval)
        except PaddockError as error:
            if approval.state is ApprovalState.PENDING:
                return live  # its plugin may come back
            await self._approvals.void(tenant, approval.id, error.message)
            if live is not None:
                self._calls.abandon(live, error)
            raise
        return self._resume(approval, target, context)

    def _resume(self, approval: Approval, target: CallTarget, context: CallContext) -> CallHandle:
        required = approval_required_error(approval, target)
        live = self._calls.restore_held(CallId(approval.call), target, context, required)
        match live.approval_required:
            case None:
                pass  # it goes on already
            case _ if approval.state is ApprovalState.APPROVED:
                self._calls.resume_approved(live, context, target, approval.payload, approval.id)
            case held if held.details["approval"] != approval.id:
                live.hold(required)  # somebody edited it: another request took the place of the one it waited for
            case _:
                pass  # more people are needed
        return live

    def _joined_calls(self, call: str) -> list[CallHandle]:
        """The calls that wait for the approval of this one, since they have the same key."""
        return [live for live in self._calls.list_held() if live.approval_call_id == call != live.id]

    async def _apply_answer_to_joined(self, other: CallHandle, approval: Approval, live: CallHandle | None) -> None:
        """Do with a call what becomes of the one whose request it waits for."""
        if approval.state in (ApprovalState.APPROVED, ApprovalState.CONSUMED):
            try:
                context = await self._with_current_rights(other.context)
            except PaddockError as error:
                self._calls.abandon(other, error)
            else:
                self._calls.resume_joined(other, context)
        elif approval.state is not ApprovalState.PENDING:
            self._abandon(other, approval)
        elif live is not None and live.approval_required is not None and live.approval_id != other.approval_id:
            other.hold(live.approval_required)  # somebody edited it

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

    async def restore_open(self, plugin: str | None = None) -> None:
        """Restore waiting calls after a restart, and make those that were approved; of one plugin, or of all.

        Calls of a plugin that is not enabled wait for it until they expire.
        """
        async for approval in self._approvals.iter_open(plugin):
            if self._target_exists(approval):
                try:
                    await self.on_answered(approval)
                except PaddockError as error:
                    _log.warning("the call %s cannot go on: %s", approval.call, error.message)

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
        async for approval in self._approvals.iter_open(plugin):
            subject = approval.binding.subject
            if subject.tenant != tenant or subject.callable not in callables:
                continue
            if approval.state is ApprovalState.PENDING:
                await self._approvals.void(tenant, approval.id, reason)
                now = await self._approvals.find(tenant, approval.id)
                if now.state is ApprovalState.VOIDED:  # and not answered a moment ago
                    await self.on_answered(now)

    async def apply_remote_answers(self) -> None:
        """Apply answers that were given elsewhere, by a command or at another host, to the calls that wait here."""
        held = self._calls.list_held()
        still = await self._approvals.waiting_calls() if held else {}
        unused = {live.id for live in held if still.get(live.id) is ApprovalState.APPROVED}
        self._unused_approvals = {call: self._unused_approvals.get(call, 0) + 1 for call in unused}
        for live in held:
            asked = str(live.approval_call_id)
            if asked in still and self._unused_approvals.get(live.id, 0) <= _CHECKS_LEFT_TO_OTHERS:
                continue
            latest = await self._approvals.latest_for_call(live.context.tenant, asked)
            if latest is None or live.approval_required is None:
                continue  # this one may have gone on while we looked
            if latest.state in OPEN_STATES:
                await self._resume_unused_approval(latest)
            elif asked != live.id:
                await self._apply_answer_to_joined(live, latest, None)
            elif latest.state is ApprovalState.CONSUMED:
                self._calls.follow_remote(live)
            else:
                self._abandon(live, latest)

    async def _resume_unused_approval(self, approval: Approval) -> None:
        """Make a call whose approval another host got and has not used: that host is gone, or its plugin starts slowly.
        Should both make it, only one can consume the approval."""
        try:
            await self.on_answered(approval)
        except PaddockError as error:
            _log.warning("the call %s cannot go on: %s", approval.call, error.message)

    def _abandon(self, live: CallHandle, approval: Approval) -> None:
        if approval.state is ApprovalState.WITHDRAWN:
            self._calls.abandon(live, CallCancelled("the call was cancelled"), "cancelled")
        else:
            self._calls.abandon(live, ended_approval_error(approval))

    async def expire_forever(self) -> None:
        """Expire requests and retry clean-ups, periodically."""
        while True:
            try:
                await self._gate.starter.retry_cleanups()
                await self.apply_remote_answers()
                await self.expire()
            except PaddockError as error:
                _log.warning("requests could not be looked through: %s", error.message)
            await asyncio.sleep(EXPIRY_CHECK_INTERVAL_S)

    async def expire(self, *, came_back: bool = False) -> None:
        """Expire requests that were not answered in time, and end their calls.

        Args:
            came_back: Whether the host has just started: it restores the calls first, since their callers may ask.
        """
        while over := await self._approvals.expire():
            for approval in over:
                now = await self._approvals.find(approval.binding.subject.tenant, approval.id)
                if came_back:
                    await self._restore_call(now)
                await self.on_answered(now)

    async def expire_at_startup(self, seconds: float) -> None:
        """Expire requests after a restart, before calls are resumed, for so long at most: an expired approval cannot be
        used anyway, and the rest expires a moment later."""
        try:
            async with asyncio.timeout(seconds):
                await self.expire(came_back=True)
        except (PaddockError, TimeoutError) as error:
            _log.warning("not all requests could be looked through: %s", str(error) or "there are too many")

    async def _restore_call(self, approval: Approval) -> None:
        with suppress(PaddockError):  # what was to be called is not there, or who asked: then nobody asks for it
            target, context = self._find_target(approval), await self._load_context(approval)
            self._calls.restore_held(CallId(approval.call), target, context, approval_required_error(approval, target))

    def _find_target(self, approval: Approval) -> CallTarget:
        subject = approval.binding.subject
        catalogue = self._gate.catalogue(Tenant(subject.tenant))
        return catalogue.find_recorded(subject.plugin, subject.callable, approval.payload)

    def unchanged_target(self, approval: Approval) -> CallTarget | None:
        """The target of a request, if it exists and its definition is the one that the request was made for."""
        try:
            target = self._find_target(approval)
        except PaddockError:
            return None
        return target if target.definition_hash == approval.binding.subject.definition else None

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

    def _target_exists(self, approval: Approval) -> bool:
        try:
            self._find_target(approval)
        except PaddockError:
            return False
        return True

    async def _load_context(self, approval: Approval) -> CallContext:
        """The context of a call that waits. Who made it is looked up again: rights may have been taken away since."""
        live = self._calls.get(approval.call)
        if live is not None:
            return await self._with_current_rights(live.context)
        tenant, name = approval.binding.subject.tenant, str(approval.context["principal"])
        return load_context(approval.context, await self._resolve(name, tenant))

    async def _with_current_rights(self, context: CallContext) -> CallContext:
        """The context without the rights that its principal has lost since the call was made."""
        caller = context.principal
        # The name of a token does not tell which roles it stands for; its owner has all that it can stand for.
        name = caller.person if caller.id.startswith("token:") else caller.id
        return replace(context, principal=caller.restricted_to(await self._resolve(name, context.tenant)))

    async def _resolve(self, name: str, tenant: str) -> Principal:
        now = self._clock.now()
        return await self._database.read(lambda tx: resolve_principal(tx, name, tenant, now))

    async def require_permitted(self, target: CallTarget, context: CallContext, call: CallId) -> None:
        """Require that whoever comes back for a call may make it now: as they present themselves, and by the rights
        that they have in the store.

        Raises:
            Denied: they lack a scope, the policy forbids it, or they may not act any more.
            NotFound: nobody has that name any more.
        """
        await self._gate.require_permitted(target, context, call)
        await self._gate.require_permitted(target, await self._with_current_rights(context), call)


def ended_approval_error(approval: Approval) -> PaddockError:
    """The error for the caller of a request that ended without its call."""
    who = ", ".join(answer.by for answer in approval.answers if not answer.approved)
    why = f": {approval.ended_why}" if approval.ended_why else ""
    details = {"approval": approval.id, "call_id": approval.call, "plugin": approval.binding.subject.plugin}
    match approval.state:
        case ApprovalState.DENIED:
            return Denied(f"{who or 'a person'} denied it{why}", code="approval.denied", details=details)
        case ApprovalState.EXPIRED:
            hint = "repeat the call to request approval again"
            return Conflict("the approval request expired", code="approval.expired", hint=hint, details=details)
        case _:
            return Conflict(f"the request is {approval.state}{why}", code=f"approval.{approval.state}", details=details)


class ApprovalTokens(Struct, frozen=True):
    """Redeems approval tokens for the calls that they were issued for.

    Args:
        approvals: The approval requests, with hashes of their tokens.
        resumer: Resumes a call that was approved and not made yet.
        calls: The registry, for calls that were made already.
    """

    approvals: Approvals
    resumer: PendingCallResumer
    calls: CallRegistry

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
                return await self.resumer.on_answered(approval) or self.calls.find(approval.call, context.tenant)
            case ApprovalState.APPROVED:
                await self.approvals.redeem_token(context.tenant, token)
                return await self.resumer.on_answered(approval) or self.calls.find(approval.call, context.tenant)
            case ApprovalState.CONSUMED:
                live = self.calls.find(approval.call, context.tenant)
                await self.approvals.redeem_token(context.tenant, token)
                return live
            case _:
                raise ended_approval_error(approval)
