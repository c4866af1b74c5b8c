"""`/plugins/{name}/knobs`: what a person may tune of a plugin, as kaged's document has it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.config.knob_values import Turn
from paddock.core.errors import NotFound
from paddock.core.printable import printable
from paddock.host.host import Host
from paddock.http.acting import tenant_of
from paddock.http.auth import caller_of
from paddock.http.checking import body_of
from paddock.http.endpoint import LONGEST_NAME, OPERATOR, WHOSE, Endpoint, answer, named
from paddock.http.schemas.building import ref
from paddock.http.schemas.knobs import TURN

_WHERE = WHOSE | {
    "project": "In which project. There are none yet: knobs are turned for the whole tenant.",
    "agent": "For which agent of the project.",
}


class KnobRoutes:
    """Looking at knobs, and turning them."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/plugins/{name}/knobs",
                self.show_knobs,
                "Show what can be tuned of a plugin",
                "`knobs`: each with its `type`, its `options`, what it `accepts` as a JSON Schema, the field that it"
                " `binds_to`, whether somebody `set` it, and the `value` that the plugin is given. `left_out`: what was"
                " set and does not fit this version. Secrets are no knobs, and are never told.",
                query=_WHERE,
                gives=ref("Knobs"),
                fails=(502,),
                who=OPERATOR,
            ),
            Endpoint(
                "PUT",
                "/plugins/{name}/knobs",
                self.turn_knobs,
                "Turn knobs of a plugin",
                "All knobs as they are now, as GET shows them. A running plugin has taken them; where it refuses, that"
                " is a 502 with its reason, and nothing is changed. Other mistakes are told all at once, and nothing is"
                " changed either. A server that speaks MCP goes by them from its next start on.",
                query=_WHERE,
                body="`knobs`: by name, what each is to be; null is its default again. `reset`: names of those to be at"
                " their defaults again. Others stay as they are.",
                takes=TURN,
                gives=ref("Knobs"),
                fails=(409, 502, 504),
                who=OPERATOR,
            ),
        ]

    async def show_knobs(self, request: Request) -> Response:
        _refuse_projects(request)
        return answer(await self._host.knobs(named(request), await tenant_of(self._host, request)))

    async def turn_knobs(self, request: Request) -> Response:
        _refuse_projects(request)
        body = body_of(request)
        turned = await self._host.turning.turn(
            named(request),
            Turn(body.get("knobs", {}), tuple(body.get("reset", ()))),
            tenant=await tenant_of(self._host, request),
            by=caller_of(request).principal.id,
        )
        return answer(turned)


def _refuse_projects(request: Request) -> None:
    """Nobody may take what counts for a whole tenant for something of one project's."""
    for what in ("project", "agent"):
        if (name := request.query_params.get(what)) is not None:
            raise NotFound(
                f"there is no {what} {printable(name[:LONGEST_NAME])!r}",
                code="knobs.no_project",
                hint="leave project and agent out: knobs are turned for the whole tenant",
            )
