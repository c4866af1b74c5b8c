"""Consumes an approval, once and for exactly what was approved; and the other ends of a request."""

from __future__ import annotations

from msgspec.structs import replace

from paddock.approvals import store
from paddock.approvals.access import require_open
from paddock.approvals.model import TRANSITIONS, Approval, ApprovalState, ApprovedAction, Binding
from paddock.approvals.store import ApprovalTransaction
from paddock.core.errors import Conflict
from paddock.core.events.approvals import ApprovalConsumed, ApprovalEnded

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
    """The approved action is not the one about to be performed."""

    code = "approval.changed"

    def __init__(self, approval: Approval, changes: list[str]) -> None:
        self.approval = approval
        self.why = f"{' and '.join(changes)} changed since it was asked for"
        super().__init__(
            f"{approval.id} is void: {self.why}",
            hint="repeat the call to request approval again",
            details={"approval": approval.id, "changed": changes},
        )


def consume_approval(
    unit: ApprovalTransaction,
    approval_id: str,
    *,
    subject: ApprovedAction,
    payload_hash: str,
    requester: str,
    still_asked: bool = True,
) -> Approval:
    """Consume an approval. See `Approvals.consume`."""
    approval = store.find_request(unit.tx, unit.tenant, approval_id)
    require_open(approval)
    if approval.state is not ApprovalState.APPROVED:
        raise Conflict(f"{approval_id} is not approved yet", code="approval.pending", hint="wait for an answer")
    require_unexpired(approval, unit.now)
    if not still_asked:  # no rule asks now, so there is none to compare with those that did
        subject = replace(subject, policies=approval.binding.subject.policies)
    current = replace(approval.binding, subject=subject, payload_hash=payload_hash, requester=requester)
    if current.hash() != approval.binding_hash:
        raise ApprovalMismatch(approval, describe_changes(approval.binding, current))
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


def end_request(unit: ApprovalTransaction, approval: Approval, state: ApprovalState, reason: str) -> None:
    """End a request without making its call. Does nothing if it has ended."""
    if state not in TRANSITIONS[approval.state]:
        return
    store.set_state(unit.tx, approval, state, at=unit.now, why=reason)
    publish_end(unit, approval, state, reason)


def publish_end(unit: ApprovalTransaction, approval: Approval, state: ApprovalState, reason: str) -> None:
    """Publish that a request ended without its call being made."""
    subject = approval.binding.subject
    unit.publish(approval.call).publish(
        ApprovalEnded(
            approval=approval.id, name=subject.plugin, method=subject.callable, state=state.value, ended_why=reason
        )
    )


def require_unexpired(approval: Approval, now: str) -> None:
    """Reject a request that has expired.

    Raises:
        Conflict: it has expired.
    """
    if approval.binding.expires_at <= now:
        raise Conflict(
            f"the request {approval.id} has expired",
            code="approval.expired",
            hint="repeat the call to request approval again",
            details={"approval": approval.id},
        )


def describe_changes(before: Binding, after: Binding) -> list[str]:
    """Describe the differences between two bindings; if there are none, the stored row does not match its own hash."""
    pairs = ((before.subject, after.subject), (before, after))
    differing = [
        name
        for old, new in pairs
        for name in old.__struct_fields__
        if name != "subject" and getattr(old, name) != getattr(new, name)
    ]
    return [_FIELD_TEXT.get(name, name) for name in differing] or ["the kept request"]
