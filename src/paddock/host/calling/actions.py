"""Actions: what a plugin can change, listed for whoever asks and performed through the one door, in Shu's words.

    ok                the action was done; `result` is what came of it
    pending_approval  a person is asked first; `preview` is what they are shown, and nothing has happened yet
    error             it was not done, or failed

`action_id` is the call's id: where the call is looked at, followed, cancelled and explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from paddock.core.call import CallContext
from paddock.core.error_mapping import error_to_json
from paddock.core.errors import NeedsApproval, NotFound, PaddockError
from paddock.gate.calls.handle import CallHandle
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.calls.resume import ApprovalTokens
from paddock.gate.catalogue.catalogue import CallTarget, Catalogue
from paddock.gate.gate import Gate
from paddock.gate.permitted import is_action, permitted_targets
from paddock.manifest.model import CallableForm


class Actions:
    """The actions of plugins.

    Args:
        gate: Where they are known, decided about and performed.
        calls: Where those under way are found.
        claims: Where those are found that waited for a person.
    """

    def __init__(self, gate: Gate, calls: CallRegistry, claims: ApprovalTokens) -> None:
        self._gate = gate
        self._calls = calls
        self._claims = claims

    async def list_permitted(self, plugin: str, context: CallContext) -> list[dict[str, Any]]:
        """The actions of a plugin that whoever acts in this context may perform; those that they may not are left out.

        Raises:
            NotFound: the plugin is not enabled.
        """
        targets = [target for target in self._catalogue(context).targets_of(plugin) if is_action(target)]
        return [one.to_json() for one in await permitted_targets(context, targets, self._gate.authorizer)]

    async def start(
        self, plugin: str, action: str, args: Mapping[str, Any], context: CallContext, *, token: str | None = None
    ) -> CallHandle:
        """Start an action; or come back for one that waited for a person, with its `approval_token`.

        Raises:
            NotFound: the plugin is not enabled, or has no such action.
            Busy: see `Calls.begin_at`.
            PaddockError: see `Claims.claim`.
        """
        target = self._find(plugin, action, context)
        if token is not None:
            return await self._claims.redeem(token, target, args, context)
        return self._calls.start_target(target, args, context, answers=False)

    async def perform(
        self, plugin: str, action: str, args: Mapping[str, Any], context: CallContext, *, token: str | None = None
    ) -> dict[str, Any]:
        """Perform an action, and say what came of it. Raises as `begin` does; whatever comes later is an `error`."""
        return await action_outcome(await self.start(plugin, action, args, context, token=token))

    def _find(self, plugin: str, action: str, context: CallContext) -> CallTarget:
        target = self._catalogue(context).find_callable(plugin, action)
        if not is_action(target):
            raise NotFound(
                f"{target.title} only reads, and is no action",
                code="action.not_found",
                hint=f"paddock call {target.key.plugin}.{target.spec.name}",
                details={"plugin": target.key.plugin},
            )
        return target

    def _catalogue(self, context: CallContext) -> Catalogue:
        return self._gate.catalogue(context.tenant)


async def action_outcome(live: CallHandle) -> dict[str, Any]:
    """What came of an action, in Shu's words; it is over then, or waits for a person."""
    try:
        result = await live.wait()
    except NeedsApproval as held:
        told = {"approval": held.details["approval"], "expires_at": held.details["expires_at"]}
        token = {"approval_token": held.details["token"]} if "token" in held.details else {}
        shown = {"status": "pending_approval", "action_id": live.id, "preview": held.details["preview"]}
        return {**shown, **told, **token}
    except PaddockError as error:
        return {"status": "error", "action_id": live.id, "error": error_to_json(error)}
    if live.form is CallableForm.ACTION and isinstance(result, dict):
        told = cast("dict[str, Any]", result)
        more = {"diagnostics": told["diagnostics"]} if "diagnostics" in told else {}
        return {"status": "ok", "action_id": live.id, "result": told.get("result"), **more}
    return {"status": "ok", "action_id": live.id, "result": result}
