"""Who may see and answer which approval request. Agents never may, whatever roles they have. Pure."""

from __future__ import annotations

from msgspec import Struct

from paddock.approvals.model import OPEN_STATES, Approval, ApprovalRequestKind, ApprovalState
from paddock.approvals.standing_approval import StandingApproval
from paddock.core.call import OPERATOR, Principal
from paddock.core.errors import Conflict, Denied

PERSON_KINDS = frozenset({"person", "local"})
PERSONAL_KINDS = frozenset({ApprovalRequestKind.CONFIRMATION, ApprovalRequestKind.CONSENT})
"""Kinds of requests that only the person answers whom the call is for."""


class Answerer(Struct, frozen=True):
    """The principal that answers; `through` is the operator who passes the answer on, as in `local:root`, if any."""

    by: Principal
    through: str | None = None


def require_may_answer(approval: Approval, answerer: Answerer) -> None:
    """Reject a principal whose answer must not count.

    Raises:
        Denied: they may not answer this request at all.
        Conflict: they have already answered it.
    """
    by = answerer.by
    if by.kind not in PERSON_KINDS:
        raise _denied(
            approval,
            f"{by.id} is not a person, and only people can answer approval requests",
            f"{' or '.join(approval.answerable_by) or 'a person'} answers it, signed in",
        )
    if approval.kind in PERSONAL_KINDS:
        if by.id != approval.for_person:
            raise _denied(approval, f"only {approval.for_person or 'the person the call is for'} can answer this")
    else:
        _require_approver(approval, answerer)
    if any(answer.by == by.id for answer in approval.answers):
        raise Conflict(f"{by.id} has answered {approval.id} already", code="approval.answered_before")


def may_answer(approval: Approval, answerer: Answerer) -> bool:
    """Return whether an answer of this principal would count."""
    try:
        require_may_answer(approval, answerer)
    except (Conflict, Denied):
        return False
    return True


def _require_approver(approval: Approval, answerer: Answerer) -> None:
    by = answerer.by
    if answerer.through is not None:
        # Naming a person does not prove that they are present.
        message = f"{answerer.through} cannot answer this as {by.id}"
        raise _denied(approval, message, "they answer it themselves, at the console or a terminal")
    if not by.interactive:
        raise _denied(approval, "a key cannot answer this", "sign in at the console or a terminal")
    if approval.binding.four_eyes and by.id in approval.requesters:
        raise _denied(
            approval,
            f"{by.id} asked for it, and another person has to answer",
            'ask another approver, or write @four_eyes("no") in the rule that asks (guide: Approvals in'
            " depth); deny takes it back",
        )
    identities = {by.id, *(f"role:{role}" for role in by.roles), *(f"group:{group}" for group in by.groups)}
    if OPERATOR not in by.roles and identities.isdisjoint(approval.binding.approvers):
        approvers = " or ".join(approval.binding.approvers)
        raise _denied(approval, f"{by.id} may not approve this", f"it takes {approvers}")


def require_open(approval: Approval) -> None:
    """Reject a request that has ended.

    Raises:
        Conflict: it has ended; says how.
    """
    if approval.state in OPEN_STATES:
        return
    outcome = {
        ApprovalState.CONSUMED: "was approved and used",
        ApprovalState.DENIED: "was denied",
        ApprovalState.EXPIRED: "has expired",
        ApprovalState.VOIDED: "is void",
        ApprovalState.WITHDRAWN: "was withdrawn",
    }[approval.state]
    reason = f": {approval.ended_why}" if approval.ended_why else ""
    raise Conflict(
        f"the request {approval.id} {outcome}{reason}",
        code=f"approval.{approval.state}",
        hint="repeat the call to request approval again",
        details={"approval": approval.id, "state": approval.state.value},
    )


def _denied(approval: Approval, message: str, hint: str = "") -> Denied:
    return Denied(message, code="approval.not_yours", hint=hint, details={"approval": approval.id})


def can_see(approval: Approval, by: Principal) -> bool:
    """Return whether a principal may see a request. A key sees its own requests, not those put to its owner."""
    if OPERATOR in by.roles or by.id in (approval.binding.requester, approval.for_person):
        return True
    if approval.kind in PERSONAL_KINDS:
        return False
    identities = {by.id, *(f"role:{role}" for role in by.roles), *(f"group:{group}" for group in by.groups)}
    return not identities.isdisjoint(approval.binding.approvers)


def can_see_standing(standing: StandingApproval, by: Principal) -> bool:
    """Return whether a principal may see and revoke a standing approval: its holder, its giver, and operators."""
    return OPERATOR in by.roles or by.id in (standing.holder, standing.given_by)
