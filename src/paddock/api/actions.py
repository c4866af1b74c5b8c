"""`/plugins/{name}/actions`: list the actions that a caller may perform, and perform them."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.error_formats import http_status
from paddock.gate.permitted_targets import PermittedTargetJson
from paddock.host.calls.shu_actions import ActionDoneJson, ActionFailedJson, ActionPendingJson, action_outcome
from paddock.host.host import Host
from paddock.web.disconnect import client_connection
from paddock.web.request_context import call_context, call_location
from paddock.web.routing.errors import retry_after_header
from paddock.web.routing.route import JSON, TENANT_PARAM, ApiRoute, ExtraResponse, JsonResponse, RequestBody, path_param
from paddock.web.routing.validation import validated_body

ACTION_ERROR_STATUSES = (400, 403, 404, 409, 429, 500, 502, 503, 504)  # of an action that was started and failed


class ActionsJson(TypedDict):
    name: str
    actions: list[PermittedTargetJson]


class PerformActionBody(TypedDict):
    args: NotRequired[Annotated[dict[str, Any], "The parameters of the action."]]
    approval_token: NotRequired[Annotated[str, "Resumes the same action after its approval."]]


class ActionRoutes:
    """Routes that list and perform actions."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/plugins/{name}/actions",
                self.list_actions,
                "List the actions of a plugin",
                "`actions` that the caller, or the principal in `Paddock-As`, may perform by policy and scopes.",
                query=TENANT_PARAM,
                allow_impersonation=True,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/actions/{action}",
                self.perform_action,
                "Perform an action",
                "`status`: `ok`, with the `result`. `action_id` is the id of the call, as in `/calls/{id}`, whose URL"
                " is in `Location`. A failed action has `status: error` with the HTTP status of the `error`.",
                extra_responses=(
                    ExtraResponse(
                        202,
                        JSON,
                        "`status: pending_approval`: a person has to approve first, and sees the `preview`. The action"
                        " continues once approved; the `approval_token` lets the same caller resume it, once.",
                        ActionPendingJson,
                    ),
                    *(
                        ExtraResponse(status, JSON, "`status: error`: the action failed.", ActionFailedJson)
                        for status in ACTION_ERROR_STATUSES
                    ),
                ),
                error_statuses=ACTION_ERROR_STATUSES,
                query=TENANT_PARAM,
                allow_impersonation=True,
                request_body=RequestBody(PerformActionBody, {"args": {"text": "Buy milk"}}),
            ),
        ]

    async def list_actions(self, request: Request) -> JsonResponse[ActionsJson]:
        name = path_param(request)
        context = await call_context(self._host, request)
        return JsonResponse({"name": name, "actions": await self._host.calls.actions.list_permitted(name, context)})

    async def perform_action(self, request: Request) -> JsonResponse[ActionDoneJson] | Response:
        body = validated_body(request, PerformActionBody)
        call = await self._host.calls.actions.start(
            path_param(request),
            path_param(request, "action"),
            body.get("args", {}),
            await call_context(self._host, request),
            token=body.get("approval_token"),
        )
        with client_connection(request.scope).on_disconnect(call.on_disconnect):
            outcome = await action_outcome(call)
        location = {"location": call_location(call)}
        if call.error is not None:
            return JsonResponse(outcome, http_status(call.error), location | retry_after_header(call.error))
        if outcome["status"] == "ok":
            return JsonResponse(outcome, headers=location)
        return JsonResponse(outcome, 202, location)
