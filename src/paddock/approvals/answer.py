"""Answers to approval requests: one denial ends a request; approval needs as many people as its quorum.

Only a confirmation can be remembered. Its standing approval also answers the requests that wait already and that it
covers, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.approvals import standing_approval, store
from paddock.approvals.access import Answerer, may_answer, require_may_answer, require_open
from paddock.approvals.consume import end_request, require_unexpired
from paddock.approvals.model import (
    Approval,
    ApprovalAnswer,
    ApprovalReach,
    ApprovalRequestKind,
    ApprovalScope,
    ApprovalState,
)
from paddock.approvals.request import replace_request
from paddock.approvals.standing_approval import StandingApproval
from paddock.approvals.store import ApprovalTransaction
from paddock.core.call import Principal
from paddock.core.canonical import hash_of
from paddock.core.errors import CallerError, Conflict, Denied
from paddock.core.events.approvals import ApprovalAnswered, StandingApprovalGiven, StandingApprovalRevoked
from paddock.core.printable import printable

MAX_COMMENT_CHARS: Final = 2_000  # longer comments are truncated

# Both ordered from the narrowest to the widest.
SCOPES: Final[tuple[ApprovalScope, ...]] = ("once", "session", "always")
REACHES: Final[tuple[ApprovalReach, ...]] = ("tool", "plugin")

_ALLOWED_REACHES: Mapping[str, tuple[ApprovalReach, ...]] = {
    "never": (),
    "tool": ("tool",),
    "plugin": ("tool", "plugin"),
}


class RememberChoice(Struct, frozen=True):
    """How far an approval is to be remembered beyond this call."""

    scope: ApprovalScope = "once"
    reach: ApprovalReach = "tool"


def approve(
    unit: ApprovalTransaction,
    approval_id: str,
    answerer: Answerer,
    comment: str,
    remember: RememberChoice | None,
    payload: Mapping[str, Any] | None,
) -> Approval:
    """Approve a request. See `Approvals.approve`."""
    comment = printable(comment, MAX_COMMENT_CHARS)
    approval = _load_answerable(unit, approval_id, answerer)
    choice = remember or _default_choice(approval)
    _require_rememberable(approval, choice)
    if payload is not None and hash_of(payload) != approval.binding.payload_hash:
        if approval.binding.four_eyes:
            # Editing the parameters makes the editor a requester, who cannot be the one to approve.
            return _approve_edited(unit, approval, answerer.by, comment, payload)
        approval = _approve_edited(unit, approval, answerer.by, comment, payload)
    answer = ApprovalAnswer(
        answerer.by.id, True, unit.now, comment, answerer.through, scope=choice.scope, reach=choice.reach
    )
    store.insert_answer(unit.tx, approval, answer)
    approval = store.find_request(unit.tx, unit.tenant, approval.id)
    if not approval.still_needed:
        store.set_state(unit.tx, approval, ApprovalState.APPROVED, at=unit.now)
    if choice.scope == "once":
        return _record_answer(unit, approval, answer)
    standing = _create_standing(unit, approval, answerer, choice)  # a confirmation takes one person
    approved = _record_answer(unit, approval, answer)
    _approve_covered(unit, standing, answerer, replace(answer, comment="", standing=standing.id))
    return approved


def deny(unit: ApprovalTransaction, approval_id: str, answerer: Answerer, comment: str) -> Approval:
    """Deny a request. See `Approvals.deny`."""
    comment = printable(comment, MAX_COMMENT_CHARS)
    approval = _load_undecided(unit, approval_id)
    try:
        require_may_answer(approval, answerer)
    except Denied:
        if answerer.by.id not in approval.requesters:
            raise
        return _withdraw_own_request(unit, approval, answerer, comment)
    answer = ApprovalAnswer(answerer.by.id, False, unit.now, comment, answerer.through)
    store.insert_answer(unit.tx, approval, answer)
    store.set_state(unit.tx, approval, ApprovalState.DENIED, at=unit.now, why=comment)
    return _record_answer(unit, approval, answer)


def _withdraw_own_request(unit: ApprovalTransaction, approval: Approval, answerer: Answerer, comment: str) -> Approval:
    """Withdraw a request: requesters may always withdraw it, even if others have to answer."""
    withdrawn_by = f"{answerer.through}, as {answerer.by.id}," if answerer.through else answerer.by.id
    end_request(
        unit, approval, ApprovalState.WITHDRAWN, f"{withdrawn_by} took it back{f': {comment}' if comment else ''}"
    )
    return store.find_request(unit.tx, unit.tenant, approval.id)


def revoke_standing(unit: ApprovalTransaction, standing_id: str, answerer: Answerer) -> StandingApproval:
    """Revoke a standing approval. See `Approvals.revoke`."""
    previous = standing_approval.mark_revoked(unit.tx, unit.tenant, standing_id, by=answerer.by.id, at=unit.now)
    if previous.revoked_at is None:
        unit.publish().publish(
            StandingApprovalRevoked(
                standing=previous.id,
                name=previous.plugin,
                method=previous.callable,
                revoked_by=answerer.by.id,
                operator=answerer.through,
            )
        )
    return previous


def _load_answerable(unit: ApprovalTransaction, approval_id: str, answerer: Answerer) -> Approval:
    approval = _load_undecided(unit, approval_id)
    require_may_answer(approval, answerer)
    return approval


def _load_undecided(unit: ApprovalTransaction, approval_id: str) -> Approval:
    approval = store.find_request(unit.tx, unit.tenant, approval_id)
    require_open(approval)
    require_unexpired(approval, unit.now)
    if approval.state is not ApprovalState.PENDING:
        raise Conflict(f"{approval.id} is approved already", code="approval.approved")
    return approval


def _approve_edited(
    unit: ApprovalTransaction, approval: Approval, by: Principal, comment: str, payload: Mapping[str, Any]
) -> Approval:
    edited = replace_request(unit, approval, payload, by.id)
    reason = f"{by.id} changed the parameters{f': {comment}' if comment else ''}; see {edited.id}"
    end_request(unit, approval, ApprovalState.VOIDED, reason)
    return edited


def _default_choice(approval: Approval) -> RememberChoice:
    """Return the choice of an approver who does not say: what a rule has confirmed once is asked once."""
    return RememberChoice("once" if approval.remember_limit == "never" else "always")


def _require_rememberable(approval: Approval, remember: RememberChoice) -> None:
    allowed = _ALLOWED_REACHES[approval.remember_limit]
    if remember.scope != "once" and remember.reach not in allowed:
        if allowed:
            message, hint = "a standing approval can cover this tool only", "approve the tool alone, not the plugin"
        elif approval.kind is ApprovalRequestKind.CONFIRMATION:
            message, hint = "the rule allows no standing approval", "approve it once; the rule asks for every call"
        else:
            message = f"a request of kind {approval.kind} is approved for exactly this call, never for others"
            hint = "approve it once; only a confirmation can last"
        raise Denied(message, code="approval.not_rememberable", hint=hint, details={"approval": approval.id})
    if remember.scope == "session" and not approval.context.get("session"):
        raise CallerError("this call belongs to no session", code="approval.no_session", hint="use once or always")


def _create_standing(
    unit: ApprovalTransaction, approval: Approval, answerer: Answerer, remember: RememberChoice
) -> StandingApproval:
    subject, for_whole_plugin = approval.binding.subject, remember.reach == "plugin"
    created = StandingApproval(
        id=unit.new_id("sta"),
        tenant=subject.tenant,
        holder=approval.binding.requester,
        plugin=subject.plugin,
        callable=None if for_whole_plugin else subject.callable,
        session=approval.context["session"] if remember.scope == "session" else None,
        digest=subject.digest,
        definition=None if for_whole_plugin else subject.definition,
        effects=None if for_whole_plugin else subject.effects,
        policies=subject.policies,
        given_by=answerer.by.id,
        given_at=unit.now,
        approval=approval.id,
        operator=answerer.through,
    )
    standing_approval.insert_standing(unit.tx, created)
    unit.publish(approval.call).publish(
        StandingApprovalGiven(
            standing=created.id,
            approval=approval.id,
            name=created.plugin,
            method=created.callable,
            scope=remember.scope,
            holder=created.holder,
            given_by=created.given_by,
            operator=created.operator,
        )
    )
    return created


def _approve_covered(
    unit: ApprovalTransaction, standing: StandingApproval, answerer: Answerer, answer: ApprovalAnswer
) -> None:
    """Approve the waiting requests that a new standing approval covers: their calls would not be asked about now."""
    for waiting in store.list_pending_of(unit.tx, unit.tenant, standing.holder, standing.plugin):
        if (
            waiting.remember_limit != "never"
            and waiting.binding.expires_at > unit.now
            and standing.covers(waiting.binding.subject, waiting.binding.requester, waiting.context.get("session"))
            and may_answer(waiting, answerer)
        ):
            store.insert_answer(unit.tx, waiting, answer)
            store.set_state(unit.tx, waiting, ApprovalState.APPROVED, at=unit.now)
            _record_answer(unit, waiting, answer)


def _record_answer(unit: ApprovalTransaction, approval: Approval, answer: ApprovalAnswer) -> Approval:
    updated = store.find_request(unit.tx, unit.tenant, approval.id)
    subject = updated.binding.subject
    unit.publish(approval.call).publish(
        ApprovalAnswered(
            approval=updated.id,
            name=subject.plugin,
            method=subject.callable,
            approved=answer.approved,
            answered_by=answer.by,
            comment=answer.comment,
            state=updated.state.value,
            operator=answer.operator,
            standing=answer.standing,
        )
    )
    return updated
