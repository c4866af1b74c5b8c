"""Using an approval, once and for exactly what was approved; and the ends that it comes to otherwise."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime

from paddock.approvals import store
from paddock.approvals.access import require_open
from paddock.approvals.model import OPEN_STATES, TRANSITIONS, Approval, ApprovalState, ApprovedAction, Binding
from paddock.approvals.store import ApprovalTransaction
from paddock.core.errors import Conflict
from paddock.core.events.approvals import ApprovalConsumed, ApprovalEnded
from paddock.queue import queue

_FIELD_TEXT = {
    "tenant": "the tenant",
    "plugin": "the plugin",
    "callable": "the callable",
    "digest": "the plugin's files",
    "definition": "what the callable says of itself",
    "effects": "its effects",
    "policies": "the rules that asked",
    "payload_hash": "the parameters",
    "requester": "who asks",
}


class ApprovalMismatch(Conflict):
    """What was approved is not what is about to be done."""

    code = "approval.changed"

    def __init__(self, approval: Approval, what: list[str]) -> None:
        self.approval = approval
        self.why = f"{' and '.join(what)} changed since it was asked for"
        super().__init__(
            f"{approval.id} is void: {self.why}",
            hint="make the call again to ask once more",
            details={"approval": approval.id, "changed": what},
        )


def consume_approval(
    unit: ApprovalTransaction,
    approval_id: str,
    *,
    subject: ApprovedAction,
    payload_hash: str,
    requester: str,
    asked: bool = True,
) -> Approval:
    """Use an approval. See `Approvals.consume`."""
    approval = store.find_request(unit.tx, unit.tenant, approval_id)
    require_open(approval)
    if approval.state is not ApprovalState.APPROVED:
        raise Conflict(f"{approval_id} is not approved yet", code="approval.pending", hint="wait for an answer")
    require_unexpired(approval, unit.now)
    if not asked:  # then no rule asks that could differ from those that did
        subject = replace(subject, policies=approval.binding.subject.policies)
    meant = replace(approval.binding, subject=subject, payload_hash=payload_hash, requester=requester)
    if meant.hash() != approval.binding_hash:
        raise ApprovalMismatch(approval, describe_changes(approval.binding, meant))
    store.set_state(unit.tx, approval, ApprovalState.CONSUMED, at=unit.now)
    unit.publish(approval.call).publish(
        ApprovalConsumed(
            approval=approval.id,
            name=subject.plugin,
            method=subject.callable,
            binding=approval.binding_hash,
            approved_by=tuple(answer.by for answer in approval.answers if answer.approved),
        )
    )
    return approval


def end_request(unit: ApprovalTransaction, approval: Approval, state: ApprovalState, why: str) -> None:
    """End a request without its call. Harmless when it is over."""
    if state not in TRANSITIONS[approval.state]:
        return
    store.set_state(unit.tx, approval, state, at=unit.now, why=why)
    subject = approval.binding.subject
    unit.publish(approval.call).publish(
        ApprovalEnded(
            approval=approval.id, name=subject.plugin, method=subject.callable, state=state.value, ended_why=why
        )
    )


def require_unexpired(approval: Approval, now: str) -> None:
    """Refuse to go on with a request whose time is over.

    Raises:
        Conflict: it is.
    """
    if approval.binding.expires_at <= now:
        raise Conflict(
            f"the request {approval.id} has expired",
            code="approval.expired",
            hint="make the call again to ask once more",
            details={"approval": approval.id},
        )


def describe_changes(before: Binding, after: Binding) -> list[str]:
    """What differs between two bindings, in words; where only the kept row does not fit its own hash, that."""
    pairs = ((before.subject, after.subject), (before, after))
    differing = [
        field.name
        for one, two in pairs
        for field in fields(one)
        if field.name != "subject" and getattr(one, field.name) != getattr(two, field.name)
    ]
    return [_FIELD_TEXT.get(name, name) for name in differing] or ["the kept request"]


EXPIRE_JOB = store.EXPIRE_JOB


def schedule_expiry(unit: ApprovalTransaction, approval: Approval) -> None:
    """Have a request ended when its time is over; in the unit of work in which it is made."""
    due = datetime.fromisoformat(approval.binding.expires_at)
    queue.enqueue(unit.tx, unit.tenant, EXPIRE_JOB, approval.id, due=due, now=unit.clock.now())


def expire_request(unit: ApprovalTransaction, approval_id: str) -> Approval | None:
    """End a request whose time is over, and give it; None where it had ended, or its time is not over.

    Raises:
        NotFound: there is none.
    """
    approval = store.find_request(unit.tx, unit.tenant, approval_id)
    if approval.state not in OPEN_STATES or approval.binding.expires_at > unit.now:
        return None
    end_request(unit, approval, ApprovalState.EXPIRED, "nobody answered in time")
    return store.find_request(unit.tx, unit.tenant, approval_id)
