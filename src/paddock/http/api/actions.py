"""`/plugins/{name}/actions`: what a plugin can change, as whoever asks may have it done."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.outward import http_status
from paddock.host.actions import outcome_of
from paddock.host.host import Host
from paddock.http.acting import address_of, context_of
from paddock.http.checking import body_of
from paddock.http.client import client_of
from paddock.http.endpoint import JSON, WHOSE, Also, Endpoint, answer, named
from paddock.http.problems import when_to_try_again
from paddock.http.schemas.building import ref
from paddock.http.schemas.calls import PERFORM

FAILED = (400, 403, 404, 409, 429, 500, 502, 503, 504)  # what an action that was begun can come to


class ActionRoutes:
    """Listing actions and performing them."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/plugins/{name}/actions",
                self.list_actions,
                "List what a plugin can change",
                "`actions`: those that the rules do not deny the caller, or whom `Paddock-As` names, and whose scopes"
                " they have. `requires_approval` is true where the plugin or a rule wants a person asked first.",
                query=WHOSE,
                gives=ref("Actions"),
                for_others=True,
            ),
            Endpoint(
                "POST",
                "/plugins/{name}/actions/{action}",
                self.perform_action,
                "Perform an action",
                "`status`: `ok` with its `result`. `action_id` is the call's id, as in `/calls/{id}`. What fails has"
                " `status: error` and the `error`, with the HTTP status of that. `Location` is where to look at the"
                " call.",
                gives=ref("ActionDone"),
                also=(
                    Also(
                        202,
                        JSON,
                        "`status: pending_approval`: a person is asked first, and is shown the `preview`. It goes on"
                        " once they said yes; with its `approval_token` the same caller comes back for it, once.",
                        ref("ActionPending"),
                    ),
                    *(Also(status, JSON, "`status: error`: it failed.", ref("ActionFailed")) for status in FAILED),
                ),
                fails=FAILED,
                query=WHOSE,
                for_others=True,
                body="`args`: the parameters; `approval_token`: of the same action, which waited for a person.",
                takes=PERFORM,
            ),
        ]

    async def list_actions(self, request: Request) -> Response:
        name = named(request)
        context = await context_of(self._host, request)
        return answer({"name": name, "actions": await self._host.actions.listed(name, context)})

    async def perform_action(self, request: Request) -> Response:
        body = body_of(request)
        live = await self._host.actions.begin(
            named(request),
            named(request, "action"),
            body.get("args", {}),
            await context_of(self._host, request),
            token=body.get("approval_token"),
        )
        with client_of(request.scope).when_gone(live.hung_up):
            outcome = await outcome_of(live)
        where = {"location": address_of(live)}
        if live.error is not None:
            return answer(outcome, http_status(live.error), where | when_to_try_again(live.error))
        return answer(outcome, {"ok": 200, "pending_approval": 202}[outcome["status"]], where)
