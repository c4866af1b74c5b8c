"""Answers to approval requests: one denial ends a request; approval needs as many people as its quorum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from paddock.approvals import standing_approval, store
from paddock.approvals.access import Answerer, require_may_answer, require_open
from paddock.approvals.consume import end_request, require_unexpired
from paddock.approvals.model import Approval, ApprovalAnswer, ApprovalReach, ApprovalScope, ApprovalState
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


@dataclass(frozen=True, slots=True)
class RememberChoice:
    """How far an approval is to be remembered beyond this call."""

    scope: ApprovalScope = "once"
    reach: ApprovalReach = "tool"


def approve(
    unit: ApprovalTransaction,
    approval_id: str,
    answerer: Answerer,
    comment: str,
    remember: RememberChoice,
    payload: Mapping[str, Any] | None,
) -> Approval:
    """Approve a request. See `Approvals.approve`."""
    comment = printable(comment, MAX_COMMENT_CHARS)
    approval = _load_answerable(unit, approval_id, answerer)
    _require_rememberable(approval, remember)
    if payload is not None and hash_of(payload) != approval.binding.payload_hash:
        if approval.binding.four_eyes:
            # Editing the parameters makes the editor a requester, who cannot be the one to approve.
            _require_once(approval, remember)
            return _approve_edited(unit, approval, answerer.by, comment, payload)
        approval = _approve_edited(unit, approval, answerer.by, comment, payload)
    answer = ApprovalAnswer(
        answerer.by.id, True, unit.now, comment, answerer.through, scope=remember.scope, reach=remember.reach
    )
    store.insert_answer(unit.tx, approval.id, answer)
    approval = store.find_request(unit.tx, unit.tenant, approval.id)
    if not approval.still_needed:
        store.set_state(unit.tx, approval, ApprovalState.APPROVED, at=unit.now)
        choice = narrowest_choice(approval)
        if choice.scope != "once":
            _create_standing(unit, approval, answerer, choice)
    return _record_answer(unit, approval, answer)


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
    store.insert_answer(unit.tx, approval.id, answer)
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


def narrowest_choice(approval: Approval) -> RememberChoice:
    """Return the narrowest choice of all approvers: a remembered approval needs as many people as a single one."""
    approvals = [answer for answer in approval.answers if answer.approved]
    return RememberChoice(
        SCOPES[min(SCOPES.index(answer.scope) for answer in approvals)],
        REACHES[min(REACHES.index(answer.reach) for answer in approvals)],
    )


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


def _require_once(approval: Approval, remember: RememberChoice) -> None:
    if remember.scope != "once":
        raise Denied(
            "the person who changes the parameters becomes the requester, so another person has to approve them first",
            code="approval.not_rememberable",
            hint="change them without a standing approval",
            details={"approval": approval.id},
        )


def _require_rememberable(approval: Approval, remember: RememberChoice) -> None:
    allowed = _ALLOWED_REACHES[approval.remember]
    if remember.scope != "once" and remember.reach not in allowed:
        raise Denied(
            "a standing approval can cover this tool only" if allowed else "the rule allows no standing approval",
            code="approval.not_rememberable",
            hint="approve the tool alone, without the scope plugin"
            if allowed
            else "approve it once; the rule decides which standing approvals are possible",
            details={"approval": approval.id},
        )
    if remember.scope == "session" and not approval.context.get("session"):
        raise CallerError("this call belongs to no session", code="approval.no_session", hint="use once or always")


def _create_standing(
    unit: ApprovalTransaction, approval: Approval, answerer: Answerer, remember: RememberChoice
) -> None:
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
        )
    )
    return updated
