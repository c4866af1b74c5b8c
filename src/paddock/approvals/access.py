"""Who may answer which request. An agent never may, whatever roles somebody gave it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.approvals.model import OPEN_STATES, Approval, ApprovalRequestKind, ApprovalState
from paddock.approvals.standing import StandingApproval
from paddock.core.call import OPERATOR, Principal
from paddock.core.errors import Conflict, Denied

_PERSON_KINDS = frozenset({"person", "local"})


@dataclass(frozen=True, slots=True)
class Answerer:
    """Who answers; and `through` whom, as in `local:root`, where the operator passes their answer on."""

    by: Principal
    through: str | None = None


def require_may_answer(approval: Approval, answerer: Answerer) -> None:
    """Refuse somebody whose answer must not count.

    Raises:
        Denied: they may not answer this request at all.
        Conflict: they answered it before.
    """
    by = answerer.by
    if by.kind not in _PERSON_KINDS:
        raise _denied(approval, f"{by.id} is not a person, and only people answer", "ask a person to answer it")
    if approval.kind in (ApprovalRequestKind.CONFIRMATION, ApprovalRequestKind.CONSENT):
        if by.id != approval.for_person:
            raise _denied(approval, f"only {approval.for_person or 'the person the call is for'} can answer this")
    else:
        _require_approver(approval, answerer)
    if any(answer.by == by.id for answer in approval.answers):
        raise Conflict(f"{by.id} has answered {approval.id} already", code="approval.answered_before")


def _require_approver(approval: Approval, answerer: Answerer) -> None:
    by = answerer.by
    if answerer.through is not None:
        # Naming somebody does not prove that they sit there.
        words = f"{answerer.through} cannot answer this as {by.id}"
        raise _denied(approval, words, "they answer it themselves, at the console or a terminal")
    if not by.interactive:
        raise _denied(approval, "a key cannot answer this", "sign in at the console or a terminal")
    if approval.binding.four_eyes and by.id in approval.requesters:
        raise _denied(
            approval,
            f"{by.id} asked for it, and another person has to answer",
            'ask somebody else who may approve, or say @four_eyes("no") in the rule that asks (guide: Approvals in'
            " depth); deny takes it back",
        )
    held = {by.id, *(f"role:{role}" for role in by.roles), *(f"group:{group}" for group in by.groups)}
    if OPERATOR not in by.roles and held.isdisjoint(approval.binding.approvers):
        wanted = " or ".join(approval.binding.approvers)
        raise _denied(approval, f"{by.id} may not approve this", f"it takes {wanted}")


def require_open(approval: Approval) -> None:
    """Refuse to go on with a request that has ended.

    Raises:
        Conflict: it has, and how.
    """
    if approval.state in OPEN_STATES:
        return
    words = {
        ApprovalState.CONSUMED: "was approved and used",
        ApprovalState.DENIED: "was denied",
        ApprovalState.EXPIRED: "has expired",
        ApprovalState.VOIDED: "is void",
        ApprovalState.WITHDRAWN: "was withdrawn",
    }[approval.state]
    why = f": {approval.ended_why}" if approval.ended_why else ""
    raise Conflict(
        f"the request {approval.id} {words}{why}",
        code=f"approval.{approval.state}",
        hint="make the call again to ask once more",
        details={"approval": approval.id, "state": approval.state.value},
    )


def _denied(approval: Approval, message: str, hint: str = "") -> Denied:
    return Denied(message, code="approval.not_yours", hint=hint, details={"approval": approval.id})


def can_see(approval: Approval, by: Principal) -> bool:
    """Whether somebody may know of a request. A key knows what it asked for, and not what its owner is asked."""
    if OPERATOR in by.roles or by.id in (approval.binding.requester, approval.for_person):
        return True
    if approval.kind in (ApprovalRequestKind.CONFIRMATION, ApprovalRequestKind.CONSENT):
        return False
    held = {by.id, *(f"role:{role}" for role in by.roles), *(f"group:{group}" for group in by.groups)}
    return not held.isdisjoint(approval.binding.approvers)


def can_see_standing(standing: StandingApproval, by: Principal) -> bool:
    """Whether somebody may know of a yes that lasts, and end it: its holder, and whoever operates the tenant."""
    return OPERATOR in by.roles or standing.holder == by.id
