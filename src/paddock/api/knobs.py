"""`/plugins/{name}/knobs`: show and set the knobs of a plugin, as specified by kaged."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.config.knob_values import KnobUpdate
from paddock.core.errors import NotFound
from paddock.core.printable import printable
from paddock.host.host import Host
from paddock.manifest.rules.knobs import KNOB_TYPES
from paddock.web.request_context import request_tenant
from paddock.web.routing.route import MAX_NAME_CHARS, OPERATOR, TENANT_PARAM, ApiRoute, json_response, path_param
from paddock.web.routing.schema import (
    ANY,
    BOOLEAN,
    OBJECT,
    TEXT,
    Schema,
    array_of,
    body_schema,
    describe,
    enum_of,
    object_schema,
    ref,
)
from paddock.web.routing.validation import validated_body
from paddock.web.security.authenticate import caller_of

TURN_BODY = body_schema(
    {
        "knobs": describe(OBJECT, "By name, what each is to be; null is its default again."),
        "reset": describe(
            {"type": "array", "items": TEXT, "maxItems": 200}, "Names of those to be at their defaults again."
        ),
    },
    example={"knobs": {"units": "imperial"}, "reset": ["days"]},
)

SCHEMAS: dict[str, Schema] = {
    "Knob": object_schema(
        {
            "name": TEXT,
            "type": enum_of(KNOB_TYPES),
            "label": TEXT,
            "description": TEXT,
            "binds_to": describe(TEXT, "The field of the project's configuration that it writes, as `config.FIELD`."),
            "options": describe(OBJECT, "What its type needs besides: `min`, `max`, `values`, `default`, …"),
            "accepts": describe(OBJECT, "A JSON Schema of the values that it takes."),
            "set": describe(BOOLEAN, "Whether somebody turned it; it is at its default otherwise."),
            "default": describe(
                ANY, "What the plugin is given as long as nobody turns it; null where there is nothing."
            ),
            "value": describe(ANY, "What the plugin is given now."),
        }
    ),
    "Knobs": object_schema(
        {
            "name": TEXT,
            "version": TEXT,
            "knobs": array_of(ref("Knob")),
            "left_out": describe(
                array_of(object_schema({"knob": TEXT, "value": ANY, "reason": TEXT})),
                "What was set, and does not fit this version: it is kept, and the plugin is given the default.",
            ),
        }
    ),
}


_QUERY_PARAMS = TENANT_PARAM | {
    "project": "In which project. There are none yet: knobs are turned for the whole tenant.",
    "agent": "For which agent of the project.",
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
                "Show what can be tuned of a plugin",
                "`knobs`: each with its `type`, its `options`, what it `accepts` as a JSON Schema, the field that it"
                " `binds_to`, whether somebody `set` it, and the `value` that the plugin is given. `left_out`: what was"
                " set and does not fit this version. Secrets are no knobs, and are never told.",
                query=_QUERY_PARAMS,
                response_schema=ref("Knobs"),
                error_statuses=(502,),
                access=OPERATOR,
            ),
            ApiRoute(
                "PUT",
                "/plugins/{name}/knobs",
                self.turn_knobs,
                "Turn knobs of a plugin",
                "All knobs as they are now, as GET shows them. A running plugin has taken them; where it refuses, that"
                " is a 502 with its reason, and nothing is changed. Other mistakes are told all at once, and nothing is"
                " changed either. A server that speaks MCP goes by them from its next start on.",
                query=_QUERY_PARAMS,
                body_description="`knobs`: by name, what each is to be; null is its default again. `reset`:"
                " names of those to"
                " be at their defaults again. Others stay as they are.",
                request_schema=TURN_BODY,
                response_schema=ref("Knobs"),
                error_statuses=(409, 502, 504),
                access=OPERATOR,
            ),
        ]

    async def show_knobs(self, request: Request) -> Response:
        _reject_project(request)
        return json_response(await self._host.knobs(path_param(request), await request_tenant(self._host, request)))

    async def turn_knobs(self, request: Request) -> Response:
        _reject_project(request)
        body = validated_body(request)
        knobs = await self._host.knob_service.set_knobs(
            path_param(request),
            KnobUpdate(body.get("knobs", {}), tuple(body.get("reset", ()))),
            tenant=await request_tenant(self._host, request),
            by=caller_of(request).principal.id,
        )
        return json_response(knobs)


def _reject_project(request: Request) -> None:
    """Reject `project` and `agent`: knobs apply to the whole tenant, which a caller must not overlook."""
    for param in ("project", "agent"):
        if (name := request.query_params.get(param)) is not None:
            raise NotFound(
                f"there is no {param} {printable(name[:MAX_NAME_CHARS])!r}",
                code="knobs.no_project",
                hint="leave project and agent out: knobs are turned for the whole tenant",
            )
