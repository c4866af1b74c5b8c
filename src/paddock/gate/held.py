"""A call that waits for a person: what whoever made it is told, what the person is shown, and what is kept to go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.core.call import CallContext, Principal
from paddock.core.errors import NeedsApproval
from paddock.core.ids import AgentPath, OperatorId, ProjectId, RequestId, SessionId, StepId, Tenant, WorkflowId
from paddock.core.printable import printable
from paddock.gate.catalogue import Target
from paddock.manifest.effects import IN_WORDS, Effect
from paddock.plugins.mending import for_tenant
from paddock.policy.approvals.approval import Approval

_KEPT: dict[str, Any] = {
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


def waiting(approval: Approval, target: Target, **more: str) -> NeedsApproval:
    """What whoever made a call is told while it waits for a person; `more` is for them alone."""
    command = f"paddock approvals approve {approval.id}{for_tenant(approval.binding.subject.tenant)}"
    four_eyes = approval.binding.four_eyes
    return NeedsApproval(
        f"{target.title} waits for a person: {approval.told}",
        hint=f"another person has to say yes: {command}" if four_eyes else command,
        details={
            "call_id": approval.call,
            "plugin": approval.binding.subject.plugin,
            "approval": approval.id,
            "kind": approval.kind.value,
            "four_eyes": four_eyes,
            "remember": approval.remember,
            "expires_at": approval.binding.expires_at,
            "preview": preview(approval, target) | {"reason": approval.told},
            **more,
        },
    )


def preview(approval: Approval, target: Target | None = None) -> dict[str, Any]:
    """What would be done, for the person who is asked."""
    subject = approval.binding.subject
    return {
        "plugin": subject.plugin,
        "callable": subject.callable,
        "does": [IN_WORDS[Effect(effect)] for effect in subject.effects],
        "says": printable(target.spec.description, 500) if target is not None else "",
        "params": dict(approval.payload),
        "requester": approval.binding.requester,
        "reason": approval.reason,
    }


def kept_context(context: CallContext) -> dict[str, Any]:
    """The surroundings of a call, for making it later. Who makes it is looked up again then."""
    kept: dict[str, Any] = {"principal": context.principal.id}
    for name in _KEPT:
        value = getattr(context, name)
        if value is not None:
            kept[name] = value
    return kept


def context_again(kept: Mapping[str, Any], principal: Principal) -> CallContext:
    """The surroundings of a call that was kept, for whoever makes it now."""
    return CallContext(principal, **{name: _KEPT[name](value) for name, value in kept.items() if name in _KEPT})
