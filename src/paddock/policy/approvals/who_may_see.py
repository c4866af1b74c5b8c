"""Who may look at which request: those it is from, those it is for, and those who may answer it. Pure."""

from __future__ import annotations

from paddock.core.call import OPERATOR, Principal
from paddock.policy.approvals.approval import Approval, Kind
from paddock.policy.approvals.standing import Standing


def is_shown(approval: Approval, by: Principal) -> bool:
    """Whether somebody may know of a request. A key knows what it asked for, and not what its owner is asked."""
    if OPERATOR in by.roles or by.id in (approval.binding.requester, approval.for_person):
        return True
    if approval.kind in (Kind.CONFIRMATION, Kind.CONSENT):
        return False
    held = {by.id, *(f"role:{role}" for role in by.roles), *(f"group:{group}" for group in by.groups)}
    return not held.isdisjoint(approval.binding.approvers)


def is_shown_standing(standing: Standing, by: Principal) -> bool:
    """Whether somebody may know of a yes that lasts, and end it: its holder, and whoever operates the tenant."""
    return OPERATOR in by.roles or standing.holder == by.id
