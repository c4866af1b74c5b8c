"""`/tenants`: tenants of this host. Only for the operator on the local socket."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.schema_annotations import DateTime
from paddock.host.host import Host
from paddock.principals.name_rules import name_problems
from paddock.principals.tenants import TenantRecord
from paddock.web.routing.route import LOCAL, ApiRoute, JsonResponse, RequestBody, path_param
from paddock.web.routing.validation import reject_problems, validated_body
from paddock.web.security.authenticate import caller_of


class TenantJson(TypedDict):
    """A tenant."""

    name: str
    title: Annotated[str, "Its display name."]
    created_at: Annotated[DateTime | None, "Null for the default tenant, which always exists."]


class TenantsJson(TypedDict):
    tenants: list[TenantJson]


class AddTenantBody(TypedDict):
    name: Annotated[str, "1 to 63 small letters, digits and hyphens."]
    title: NotRequired[Annotated[str, "Its display name; its name by default."]]


class TenantRoutes:
    """Routes that manage tenants."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/tenants",
                self.list_tenants,
                "List tenants",
                "`tenants`, the default one first.",
                access=LOCAL,
            ),
            ApiRoute(
                "POST",
                "/tenants",
                self.add_tenant,
                "Add a tenant",
                "The tenant.",
                request_body=RequestBody(AddTenantBody, {"name": "acme", "title": "Acme Labs"}),
                status=201,
                error_statuses=(409,),
                access=LOCAL,
            ),
            ApiRoute("GET", "/tenants/{name}", self.show_tenant, "Show a tenant", "The tenant.", access=LOCAL),
            ApiRoute(
                "DELETE",
                "/tenants/{name}",
                self.remove_tenant,
                "Remove an empty tenant",
                "No content. 409 if it still has people, groups, grants, plugin data or ledger entries.",
                status=204,
                media_type="",
                error_statuses=(409,),
                access=LOCAL,
            ),
        ]

    async def list_tenants(self, request: Request) -> JsonResponse[TenantsJson]:
        del request
        return JsonResponse({"tenants": [_to_json(row) for row in await self._host.identity.tenants.list_all()]})

    async def add_tenant(self, request: Request) -> JsonResponse[TenantJson]:
        body = validated_body(request, AddTenantBody)
        reject_problems(name_problems("tenant", {"name": body["name"]}))
        tenant = await self._host.identity.tenants.add(
            caller_of(request).principal, body["name"], body.get("title", "")
        )
        return JsonResponse(_to_json(tenant), 201)

    async def show_tenant(self, request: Request) -> JsonResponse[TenantJson]:
        return JsonResponse(_to_json(await self._host.identity.tenants.find(path_param(request))))

    async def remove_tenant(self, request: Request) -> Response:
        await self._host.identity.tenants.remove(caller_of(request).principal, path_param(request))
        return Response(status_code=204)


def _to_json(row: TenantRecord) -> TenantJson:
    return {"name": row.name, "title": row.title, "created_at": row.created_at}
