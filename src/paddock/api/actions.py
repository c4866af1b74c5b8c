"""`/plugins/{name}/actions`: list the actions that a caller may perform, and perform them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.api.call_schemas import PERFORM_BODY
from paddock.core.error_mapping import http_status
from paddock.host.calls.actions import action_outcome
from paddock.host.host import Host
from paddock.web.disconnect import client_connection
from paddock.web.request_context import call_context, call_location
from paddock.web.routing.errors import retry_after_header
from paddock.web.routing.route import JSON, TENANT_PARAM, ApiRoute, ExtraResponse, json_response, path_param
from paddock.web.routing.schema import ref
from paddock.web.routing.validation import validated_body

ACTION_ERROR_STATUSES = (400, 403, 404, 409, 429, 500, 502, 503, 504)  # of an action that was started and failed


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
                "List what a plugin can change",
                "`actions`: those that the rules do not deny the caller, or whom `Paddock-As` names, and whose scopes"
                " they have. `requires_approval` is true where the plugin or a rule wants a person asked first.",
                query=TENANT_PARAM,
                response_schema=ref("Actions"),
                allow_impersonation=True,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/actions/{action}",
                self.perform_action,
                "Perform an action",
                "`status`: `ok` with its `result`. `action_id` is the call's id, as in `/calls/{id}`. What fails has"
                " `status: error` and the `error`, with the HTTP status of that. `Location` is where to look at the"
                " call.",
                response_schema=ref("ActionDone"),
                extra_responses=(
                    ExtraResponse(
                        202,
                        JSON,
                        "`status: pending_approval`: a person is asked first, and is shown the `preview`. It goes on"
                        " once they said yes; with its `approval_token` the same caller comes back for it, once.",
                        ref("ActionPending"),
                    ),
                    *(
                        ExtraResponse(status, JSON, "`status: error`: it failed.", ref("ActionFailed"))
                        for status in ACTION_ERROR_STATUSES
                    ),
                ),
                error_statuses=ACTION_ERROR_STATUSES,
                query=TENANT_PARAM,
                allow_impersonation=True,
                body_description="`args`: the parameters; `approval_token`: of the same action that waited"
                " for a person.",
                request_schema=PERFORM_BODY,
            ),
        ]

    async def list_actions(self, request: Request) -> Response:
        name = path_param(request)
        context = await call_context(self._host, request)
        return json_response({"name": name, "actions": await self._host.calls.actions.list_permitted(name, context)})

    async def perform_action(self, request: Request) -> Response:
        body = validated_body(request)
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
            return json_response(outcome, http_status(call.error), location | retry_after_header(call.error))
        return json_response(outcome, {"ok": 200, "pending_approval": 202}[outcome["status"]], location)
