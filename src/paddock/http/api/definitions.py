"""`/plugins/{name}/definitions`: what a server says of itself, and a person's yes to it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.host.host import Host
from paddock.http.acting import tenant_of
from paddock.http.auth import caller_of
from paddock.http.checking import body_of
from paddock.http.endpoint import OPERATOR, WHOSE, Endpoint, answer, named
from paddock.http.schemas.building import ref
from paddock.http.schemas.plugins import ACCEPT


class DefinitionRoutes:
    """Looking at what servers say, and accepting it."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/plugins/{name}/definitions",
                self.show_definitions,
                "Show what a plugin's server says of itself",
                "Every tool, prompt and resource, and its instructions: each with `standing`, `hash`, and for one that"
                " waits `waiting_hash` and the `difference` from what was accepted, line by line. `tools` is what"
                " `GET /plugins/{name}/tools` gives.",
                query=WHOSE,
                gives=ref("Definitions"),
                who=OPERATOR,
            ),
            Endpoint(
                "POST",
                "/plugins/{name}/definitions/accept",
                self.accept_definition,
                "Accept what a server says now of one thing it offers",
                "The definition, which is used from now on. 409 where the server has changed it since it was shown.",
                query=WHOSE,
                who=OPERATOR,
                body="`kind` and `name` of the definition; `hash`: the `waiting_hash` of what you were shown.",
                takes=ACCEPT,
                gives=ref("AcceptedDefinition"),
                fails=(409,),
            ),
        ]

    async def show_definitions(self, request: Request) -> Response:
        name, tenant = named(request), await tenant_of(self._host, request)
        shown, listed = await self._host.definitions.shown(name, tenant), await self._host.tools(name, tenant=tenant)
        return answer({"name": name, "definitions": shown, "tools": listed["tools"]})

    async def accept_definition(self, request: Request) -> Response:
        body = body_of(request)
        by = caller_of(request).principal.id
        tenant = await tenant_of(self._host, request)
        accepted = await self._host.definitions.accept(
            named(request), body["kind"], body["name"], body["hash"], by, tenant
        )
        return answer(accepted)
