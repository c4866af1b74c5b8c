"""Calls that wait for approval: the error for the caller and the preview for the approver."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict, cast

from paddock.approvals.model import Approval, ApprovalRequestKind
from paddock.core.action import Action
from paddock.core.errors import NeedsApproval
from paddock.core.printable import printable
from paddock.core.schema_annotations import DateTime
from paddock.gate.catalogue.call_target import CallTarget
from paddock.manifest.effects import Claim, effect_texts, waiting_text


class ApprovalPreviewJson(TypedDict):
    """The call that would be made."""

    plugin: str
    callable: str
    does: Annotated[list[str], "Its effects in plain words; where they are unknown, what it says of itself."]
    says: Annotated[str, "The plugin's description of the callable."]
    params: NotRequired[Annotated[dict[str, Any], "The parameters; not in lists."]]
    requester: str
    reason: str


class PendingApprovalJson(TypedDict):
    """The approval request that a call waits for."""

    approval: Annotated[str, "The id of the request."]
    call_id: str
    plugin: str
    kind: ApprovalRequestKind
    answerable_by: Annotated[list[str], "Who can answer it: people, as in `user:ann`, roles and groups."]
    four_eyes: bool
    remember: str
    expires_at: DateTime
    preview: ApprovalPreviewJson
    token: NotRequired[Annotated[str, "Lets the caller resume the approved call, once."]]


def pending_approval_json(error: NeedsApproval) -> PendingApprovalJson:
    """Return the details of an `approval_required_error`."""
    return cast("PendingApprovalJson", dict(error.details))


def approval_required_error(approval: Approval, target: CallTarget | None, **extra_details: str) -> NeedsApproval:
    """Build the error for the caller of a call that waits for approval; `extra_details` are for that caller alone.

    Without a target, where its plugin is not enabled now, it says less.
    """
    four_eyes = approval.binding.four_eyes
    preview = approval_preview(approval, target)
    details: PendingApprovalJson = {
        "call_id": approval.call,
        "plugin": approval.binding.subject.plugin,
        "approval": approval.id,
        "kind": approval.kind,
        "answerable_by": list(approval.answerable_by),
        "four_eyes": four_eyes,
        "remember": approval.remember_limit,
        "expires_at": approval.binding.expires_at,
        "preview": {**preview, "reason": approval.caller_reason},
    }
    subject = approval.binding.subject
    title = f"{subject.plugin} {subject.callable}" if target is None else target.title
    return NeedsApproval(
        f"{title} waits for a person: {waiting_text(preview['does'], approval.caller_reason)}",
        hint="a person other than the requester has to approve it" if four_eyes else "",
        action=Action.of("approval.approve", approval=approval.id, tenant=approval.binding.subject.tenant),
        details={**details, **extra_details},
    )


def approval_preview(approval: Approval, target: CallTarget | None = None) -> ApprovalPreviewJson:
    """Describe the call for the person who is asked to approve it."""
    subject = approval.binding.subject
    return {
        "plugin": subject.plugin,
        "callable": subject.callable,
        "does": effect_texts(subject.effects, target.claim if target is not None else Claim.NOTHING),
        "says": printable(target.spec.description, 500) if target is not None else "",
        "params": dict(approval.payload),
        "requester": approval.binding.requester,
        "reason": approval.reason,
    }
