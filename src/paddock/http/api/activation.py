"""Switching plugins on and off in OSQR's shapes, and which are on."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import NeedsConsent
from paddock.host.host import Host
from paddock.http.acting import context_of, tenant_of
from paddock.http.api.versions import OSQR_PREFIX
from paddock.http.auth import caller_of
from paddock.http.checking import body_of
from paddock.http.endpoint import OPERATOR, PREFIX, WHOSE, Endpoint, answer, named
from paddock.http.schemas.building import ref
from paddock.http.schemas.versions import ACTIVATE


class ActivationRoutes:
    """A plugin is on for all of a tenant, or off: `enable` and `disable`, told as that document does."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[Endpoint]:
        return [*self._rows(PREFIX), *self._rows(OSQR_PREFIX)]

    def _rows(self, prefix: str) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/plugins/active",
                self.list_active,
                "List the plugins that are on",
                "`plugins`, each with those of its `tools` that the caller may call.",
                query=WHOSE,
                gives=ref("ActivePlugins"),
                prefix=prefix,
                for_others=True,
            ),
            Endpoint(
                "POST",
                "/plugins/{name}/activate",
                self.activate_plugin,
                "Switch a plugin on",
                "How it changes the assistant, in words, and what it offers once it runs.",
                query=WHOSE,
                body="`user_confirmation`: true, or nothing happens.",
                takes=ACTIVATE,
                gives=ref("Activated"),
                fails=(409, 429, 502, 504),
                prefix=prefix,
                who=OPERATOR,
            ),
            Endpoint(
                "POST",
                "/plugins/{name}/deactivate",
                self.deactivate_plugin,
                "Switch a plugin off",
                "A word to the person. What the plugin kept stays.",
                query=WHOSE,
                gives=ref("Deactivated"),
                prefix=prefix,
                who=OPERATOR,
            ),
        ]

    async def list_active(self, request: Request) -> Response:
        return answer({"plugins": await self._host.activation.active(await context_of(self._host, request))})

    async def activate_plugin(self, request: Request) -> Response:
        context, name = await context_of(self._host, request), named(request)
        if not body_of(request)["user_confirmation"]:
            raise NeedsConsent(
                f"nobody confirmed that {name} is to be activated",
                hint="show what it will do, and send `user_confirmation` true",
                details={"plugin": name},
            )
        enabled = await self._host.enable(name, tenant=context.tenant, by=caller_of(request).principal.id)
        told = await self._host.activation.summary(enabled["name"], context)
        offered = await self._host.resources(enabled["name"], context.tenant)
        addresses = [one["uri"] for one in offered["resources"] if "uri" in one]
        return answer({"success": True, **told, "resources_available": addresses})

    async def deactivate_plugin(self, request: Request) -> Response:
        tenant = await tenant_of(self._host, request)
        off = await self._host.disable(named(request), tenant, by=caller_of(request).principal.id)
        kept = f"{off['name']} is off. What it kept stays, for when it is activated again."
        return answer({"success": True, "transition_message": kept})
