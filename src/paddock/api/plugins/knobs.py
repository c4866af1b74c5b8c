"""`/plugins/{name}/knobs`: show and set the knobs of a plugin, as specified by kaged."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from starlette.requests import Request

from paddock.config.knob_values import KnobUpdate
from paddock.core.errors import NotFound
from paddock.core.printable import printable
from paddock.core.schema_annotations import MemberConstraint
from paddock.host.host import Host
from paddock.host.plugins.configuration.knobs import KnobsJson
from paddock.web.request_context import request_tenant
from paddock.web.routing.route import (
    MAX_NAME_CHARS,
    OPERATOR,
    TENANT_PARAM,
    ApiRoute,
    JsonResponse,
    RequestBody,
    path_param,
)
from paddock.web.routing.validation import validated_body
from paddock.web.security.authenticate import caller_of


class SetKnobsBody(TypedDict):
    knobs: NotRequired[
        Annotated[dict[str, Any], "New values by knob; null resets to the default. Other knobs keep their values."]
    ]
    reset: NotRequired[Annotated[list[str], MemberConstraint(max_items=200), "Knobs to reset to their defaults."]]


_QUERY_PARAMS = TENANT_PARAM | {
    "project": "Reserved: knobs apply to the whole tenant.",
    "agent": "Reserved, as `project`.",
}


class KnobRoutes:
    """Routes that show and set knobs."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/plugins/{name}/knobs",
                self.show_knobs,
                "Show the knobs of a plugin",
                "The knobs with their current values. Secrets are not knobs and are never shown.",
                query=_QUERY_PARAMS,
                error_statuses=(502,),
                access=OPERATOR,
            ),
            ApiRoute(
                "PUT",
                "/plugins/{name}/knobs",
                self.turn_knobs,
                "Set knobs of a plugin",
                "All knobs with their new values. A running plugin has applied them; if it rejects them, the response"
                " is a 502 with its reason. Other mistakes are reported all at once. In both cases nothing is changed."
                " MCP servers get the new values at their next start.",
                query=_QUERY_PARAMS,
                request_body=RequestBody(SetKnobsBody, {"knobs": {"units": "imperial"}, "reset": ["days"]}),
                error_statuses=(409, 502, 504),
                access=OPERATOR,
            ),
        ]

    async def show_knobs(self, request: Request) -> JsonResponse[KnobsJson]:
        _reject_project(request)
        return JsonResponse(
            await self._host.plugins.knobs.describe(path_param(request), await request_tenant(self._host, request))
        )

    async def turn_knobs(self, request: Request) -> JsonResponse[KnobsJson]:
        _reject_project(request)
        body = validated_body(request, SetKnobsBody)
        knobs = await self._host.plugins.knobs.set_knobs(
            path_param(request),
            KnobUpdate(body.get("knobs", {}), tuple(body.get("reset", ()))),
            tenant=await request_tenant(self._host, request),
            by=caller_of(request).principal.id,
        )
        return JsonResponse(knobs)


def _reject_project(request: Request) -> None:
    """Reject `project` and `agent`: knobs apply to the whole tenant, which a caller must not overlook."""
    for param in ("project", "agent"):
        if (name := request.query_params.get(param)) is not None:
            raise NotFound(
                f"there is no {param} {printable(name[:MAX_NAME_CHARS])!r}",
                code="knobs.no_project",
                hint="leave project and agent out: knobs are turned for the whole tenant",
            )
