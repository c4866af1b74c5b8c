"""Using an approval, once and for exactly what was approved; and the ends that it comes to otherwise."""

from __future__ import annotations

from dataclasses import fields, replace

from paddock.core.errors import Conflict
from paddock.core.events_approvals import ApprovalConsumed, ApprovalEnded
from paddock.policy.approvals import rows
from paddock.policy.approvals.approval import TRANSITIONS, Approval, State
from paddock.policy.approvals.binding import Binding, Subject
from paddock.policy.approvals.unit import Unit
from paddock.policy.approvals.who_may_answer import require_open

_IN_WORDS = {
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


class Changed(Conflict):
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


def consume(
    unit: Unit, approval_id: str, *, subject: Subject, payload_hash: str, requester: str, asked: bool = True
) -> Approval:
    """Use an approval. See `Approvals.consume`."""
    approval = rows.find(unit.tx, unit.tenant, approval_id)
    require_open(approval)
    if approval.state is not State.APPROVED:
        raise Conflict(f"{approval_id} is not approved yet", code="approval.pending", hint="wait for an answer")
    require_unexpired(approval, unit.now)
    if not asked:  # then no rule asks that could differ from those that did
        subject = replace(subject, policies=approval.binding.subject.policies)
    meant = replace(approval.binding, subject=subject, payload_hash=payload_hash, requester=requester)
    if meant.hash() != approval.binding_hash:
        raise Changed(approval, changes(approval.binding, meant))
    rows.move(unit.tx, approval, State.CONSUMED, at=unit.now)
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


def end(unit: Unit, approval: Approval, state: State, why: str) -> None:
    """End a request without its call. Harmless when it is over."""
    if state not in TRANSITIONS[approval.state]:
        return
    rows.move(unit.tx, approval, state, at=unit.now, why=why)
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


def changes(before: Binding, after: Binding) -> list[str]:
    """What differs between two bindings, in words; where only the kept row does not fit its own hash, that."""
    pairs = ((before.subject, after.subject), (before, after))
    differing = [
        field.name
        for one, two in pairs
        for field in fields(one)
        if field.name != "subject" and getattr(one, field.name) != getattr(two, field.name)
    ]
    return [_IN_WORDS.get(name, name) for name in differing] or ["the kept request"]
