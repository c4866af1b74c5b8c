"""Calls that wait for approval: the error for the caller, the preview for the approver, and the stored context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, NotRequired, TypedDict, cast

from paddock.approvals.model import Approval, ApprovalRequestKind
from paddock.core.action import Action
from paddock.core.call import CallContext, PolicySnapshot, Principal
from paddock.core.errors import NeedsApproval
from paddock.core.ids import AgentPath, OperatorId, ProjectId, RequestId, SessionId, StepId, Tenant, WorkflowId
from paddock.core.member_types import DateTime
from paddock.core.printable import printable
from paddock.gate.catalogue.catalogue import CallTarget
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.manifest.effects import EFFECT_TEXT, Effect
from paddock.principals.principal_name import resolve_principal
from paddock.store.database import Database

_STORED_FIELDS: dict[str, Any] = {
    "request": RequestId,
    "tenant": Tenant,
    "operator": OperatorId,
    "project": ProjectId,
    "agent_path": AgentPath,
    "session": SessionId,
    "workflow": WorkflowId,
    "step": StepId,
    "idempotency_key": str,
}


class ApprovalPreviewJson(TypedDict):
    """The call that would be made."""

    plugin: str
    callable: str
    does: Annotated[list[str], "Its effects, in plain words."]
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
    four_eyes: bool
    remember: str
    expires_at: DateTime
    preview: ApprovalPreviewJson
    token: NotRequired[Annotated[str, "Lets the caller resume the approved call, once."]]


def pending_approval_json(error: NeedsApproval) -> PendingApprovalJson:
    """Return the details of an `approval_required_error`."""
    return cast("PendingApprovalJson", dict(error.details))


def approval_required_error(approval: Approval, target: CallTarget, **extra_details: str) -> NeedsApproval:
    """Build the error for the caller of a call that waits for approval; `extra_details` are for that caller alone."""
    four_eyes = approval.binding.four_eyes
    details: PendingApprovalJson = {
        "call_id": approval.call,
        "plugin": approval.binding.subject.plugin,
        "approval": approval.id,
        "kind": approval.kind,
        "four_eyes": four_eyes,
        "remember": approval.remember,
        "expires_at": approval.binding.expires_at,
        "preview": {**approval_preview(approval, target), "reason": approval.caller_reason},
    }
    return NeedsApproval(
        f"{target.title} waits for a person: {approval.caller_reason}",
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
        "does": [EFFECT_TEXT[Effect(effect)] for effect in subject.effects],
        "says": printable(target.spec.description, 500) if target is not None else "",
        "params": dict(approval.payload),
        "requester": approval.binding.requester,
        "reason": approval.reason,
    }


def dump_context(context: CallContext) -> dict[str, Any]:
    """Convert the context of a call to JSON data, to run it later. The principal is looked up again then."""
    stored: dict[str, Any] = {"principal": context.principal.id}
    for name in _STORED_FIELDS:
        value = getattr(context, name)
        if value is not None:
            stored[name] = value
    return stored


def load_context(stored: Mapping[str, Any], principal: Principal) -> CallContext:
    """Build the context of a stored call for the current principal. No caller waits for such a call."""
    fields = {name: _STORED_FIELDS[name](value) for name, value in stored.items() if name in _STORED_FIELDS}
    return CallContext(principal, background=True, **fields)


async def restore_context(
    effect: IdempotencyRecord, database: Database, now: datetime, *, fence: int | None = None
) -> CallContext:
    """Restore the context of a recorded call. The principal is looked up again, since it may no longer exist.

    Args:
        effect: The record of the call.
        database: Holds the principals.
        now: The time at which the principal has to be valid.
        fence: The fence of a further run of the call; None for another call that is made on its behalf.
    """
    stored: dict[str, Any] = {"request": effect.call, "tenant": effect.effect_key.tenant, **(effect.context or {})}
    name = str(stored.get("principal") or "")
    principal = await database.read(lambda tx: resolve_principal(tx, name, effect.effect_key.tenant, now))
    context = replace(load_context(stored, principal), policy=_load_policy(stored.get("policy")))
    if fence is None:
        return context
    return replace(context, idempotency_key=effect.effect_key.key, fence=fence, call=effect.call)


def _load_policy(stored: Mapping[str, Any] | None) -> PolicySnapshot | None:
    if stored is None:
        return None
    return PolicySnapshot(stored["decision"], tuple(stored["policies"]), stored["version"], stored["approval"])
