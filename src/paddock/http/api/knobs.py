"""`/plugins/{name}/knobs`: what a person may tune of a plugin, as kaged's document has it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.host.host import Host
from paddock.http.acting import tenant_of
from paddock.http.endpoint import OPERATOR, WHOSE, Endpoint, answer, named
from paddock.http.schemas.building import ref


class KnobRoutes:
    """Looking at knobs. They are turned in a project's file, where their values are kept."""

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
                " `binds_to`, and the `value` that the plugin is given. Secrets are no knobs, and are never told.",
                query=WHOSE,
                gives=ref("Knobs"),
                fails=(502,),
                who=OPERATOR,
            )
        ]

    async def show_knobs(self, request: Request) -> Response:
        return answer(await self._host.knobs(named(request), await tenant_of(self._host, request)))
