"""Lists a plugin's actions and performs them through the gate, in the response format of Shu.

ok                the action was done; `result` is its result
pending_approval  a person has to approve first; `preview` is what they are shown; nothing has happened yet
error             it was not done, or failed

`action_id` is the call's id, by which the call can be inspected, followed, cancelled and explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, TypedDict, cast

from paddock.core.action import Action
from paddock.core.call import CallContext
from paddock.core.error_formats import ErrorJson, error_to_json
from paddock.core.errors import NeedsApproval, NotFound, PaddockError
from paddock.core.schema_annotations import DateTime
from paddock.gate.calls.handle import CallHandle
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.calls.resume import ApprovalTokens
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.effects.approval_preview import ApprovalPreviewJson, pending_approval_json
from paddock.gate.gate import Gate
from paddock.gate.permitted_targets import PermittedTargetJson, is_action, permitted_targets
from paddock.manifest.model import CallableForm


class ActionDoneJson(TypedDict):
    """An action that was performed."""

    status: Literal["ok"]
    action_id: str
    result: Any
    diagnostics: NotRequired[Any]


class ActionPendingJson(TypedDict):
    """An action that waits for approval by a person."""

    status: Literal["pending_approval"]
    action_id: str
    preview: ApprovalPreviewJson
    approval: Annotated[str, "The id of the approval request."]
    expires_at: DateTime
    approval_token: NotRequired[Annotated[str, "Lets the caller resume the approved action, once."]]


class ActionFailedJson(TypedDict):
    """An action that was not performed, or failed."""

    status: Literal["error"]
    action_id: str
    error: ErrorJson


ActionOutcomeJson: TypeAlias = ActionDoneJson | ActionPendingJson | ActionFailedJson


class ShuActions:
    """The actions of plugins.

    Args:
        gate: Resolves, authorizes and performs actions.
        calls: The registry of calls in flight.
        approval_tokens: Redeems tokens of calls that waited for approval.
    """

    def __init__(self, gate: Gate, calls: CallRegistry, approval_tokens: ApprovalTokens) -> None:
        self._gate = gate
        self._calls = calls
        self._approval_tokens = approval_tokens

    async def list_permitted(self, plugin: str, context: CallContext) -> list[PermittedTargetJson]:
        """List the actions of a plugin that the caller may perform; all others are left out.

        Raises:
            NotFound: the plugin is not enabled.
        """
        targets = [target for target in self._catalogue(context).targets_of(plugin) if is_action(target)]
        return [permitted.to_json() for permitted in await permitted_targets(context, targets, self._gate.authorizer)]

    async def start(
        self, plugin: str, action: str, args: Mapping[str, Any], context: CallContext, *, token: str | None = None
    ) -> CallHandle:
        """Start an action; or, with its `approval_token`, resume one that waited for approval.

        Raises:
            NotFound: the plugin is not enabled, or has no such action.
            Busy: see `CallRegistry.start_target`.
            PaddockError: see `ApprovalTokens.redeem`.
        """
        target = self._find(plugin, action, context)
        if token is not None:
            return await self._approval_tokens.redeem(token, target, args, context)
        return self._calls.start_target(target, args, context, answers=False)

    async def perform(
        self, plugin: str, action: str, args: Mapping[str, Any], context: CallContext, *, token: str | None = None
    ) -> ActionOutcomeJson:
        """Perform an action and return its outcome. Raises as `start` does; any later failure is an `error` outcome."""
        return await action_outcome(await self.start(plugin, action, args, context, token=token))

    def _find(self, plugin: str, action: str, context: CallContext) -> CallTarget:
        target = self._catalogue(context).find_callable(plugin, action)
        if not is_action(target):
            raise NotFound(
                f"{target.title} only reads, so it is not an action",
                code="action.not_found",
                action=Action.of("call.make", callable=f"{target.key.plugin}.{target.spec.name}"),
                details={"plugin": target.key.plugin},
            )
        return target

    def _catalogue(self, context: CallContext) -> Catalogue:
        return self._gate.catalogue(context.tenant)


async def action_outcome(call: CallHandle) -> ActionOutcomeJson:
    """Wait until an action ended or waits for approval, and describe its outcome in Shu's format."""
    try:
        result = await call.wait()
    except NeedsApproval as error:
        approval = pending_approval_json(error)
        pending: ActionPendingJson = {
            "status": "pending_approval",
            "action_id": call.id,
            "preview": approval["preview"],
            "approval": approval["approval"],
            "expires_at": approval["expires_at"],
        }
        if "token" in approval:
            pending["approval_token"] = approval["token"]
        return pending
    except PaddockError as error:
        return {"status": "error", "action_id": call.id, "error": error_to_json(error)}
    done: ActionDoneJson = {"status": "ok", "action_id": call.id, "result": result}
    if call.form is CallableForm.ACTION and isinstance(result, dict):
        response = cast("dict[str, Any]", result)
        done["result"] = response.get("result")
        if "diagnostics" in response:
            done["diagnostics"] = response["diagnostics"]
    return done
