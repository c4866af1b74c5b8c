"""`/groups`: groups of people, for policy rules. For operators of the tenant; changes need a signed-in person."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from starlette.requests import Request

from paddock.api.identity.removals import RemovalJson, retained_log
from paddock.core.schema_annotations import DateTime
from paddock.host.host import Host
from paddock.principals.groups import PersonGroup
from paddock.principals.name_rules import name_problems
from paddock.web.request_context import call_context, request_tenant
from paddock.web.routing.route import OPERATOR, TENANT_PARAM, ApiRoute, JsonResponse, RequestBody, path_param
from paddock.web.routing.validation import reject_problems, validated_body


class PersonGroupJson(TypedDict):
    """A group of people."""

    name: str
    tenant: str
    title: Annotated[str, "Its display name."]
    members: Annotated[list[str], "The names of its members."]
    created_at: DateTime


class PersonGroupsJson(TypedDict):
    tenant: str
    groups: list[PersonGroupJson]


class AddGroupBody(TypedDict):
    name: Annotated[str, "1 to 63 small letters, digits and . _ -"]
    title: NotRequired[Annotated[str, "Its display name; its name by default."]]


class GroupRoutes:
    """Routes that manage groups."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/groups",
                self.list_groups,
                "List groups",
                "`groups` with their members, by name.",
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/groups",
                self.add_group,
                "Add a group",
                "The group. Needs a signed-in person, not an API key.",
                query=TENANT_PARAM,
                request_body=RequestBody(AddGroupBody, {"name": "night-shift"}),
                status=201,
                error_statuses=(409,),
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "GET",
                "/groups/{name}",
                self.show_group,
                "Show a group",
                "The group.",
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "DELETE",
                "/groups/{name}",
                self.remove_group,
                "Remove a group",
                "Its name. Its members are kept; approval requests that only it could answer become void. Needs a"
                " signed-in person, not an API key.",
                query=TENANT_PARAM,
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "PUT",
                "/groups/{name}/members/{person}",
                self.add_member,
                "Add a person to a group",
                "The group. Needs a signed-in person, not an API key.",
                query=TENANT_PARAM,
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "DELETE",
                "/groups/{name}/members/{person}",
                self.remove_member,
                "Remove a person from a group",
                "The group. Needs a signed-in person, not an API key.",
                query=TENANT_PARAM,
                access=OPERATOR,
                needs_person=True,
            ),
        ]

    async def list_groups(self, request: Request) -> JsonResponse[PersonGroupsJson]:
        tenant = await request_tenant(self._host, request)
        groups = await self._host.identity.groups.list_all(tenant)
        return JsonResponse({"tenant": tenant, "groups": [_to_json(group) for group in groups]})

    async def add_group(self, request: Request) -> JsonResponse[PersonGroupJson]:
        body, context = validated_body(request, AddGroupBody), await call_context(self._host, request)
        reject_problems(name_problems("group", {"name": body["name"]}))
        group = await self._host.identity.groups.add(context.principal, body["name"], body.get("title", ""))
        return JsonResponse(_to_json(group), 201)

    async def show_group(self, request: Request) -> JsonResponse[PersonGroupJson]:
        tenant = await request_tenant(self._host, request)
        return JsonResponse(_to_json(await self._host.identity.groups.find(tenant, path_param(request))))

    async def remove_group(self, request: Request) -> JsonResponse[RemovalJson]:
        context = await call_context(self._host, request)
        group, log = await self._host.identity.groups.remove(context.principal, path_param(request))
        return JsonResponse({"name": group.name, "tenant": group.tenant, "removed": True, **retained_log(request, log)})

    async def add_member(self, request: Request) -> JsonResponse[PersonGroupJson]:
        context, person = await call_context(self._host, request), path_param(request, "person")
        return JsonResponse(
            _to_json(await self._host.identity.groups.add_member(context.principal, path_param(request), person))
        )

    async def remove_member(self, request: Request) -> JsonResponse[PersonGroupJson]:
        context, person = await call_context(self._host, request), path_param(request, "person")
        return JsonResponse(
            _to_json(await self._host.identity.groups.remove_member(context.principal, path_param(request), person))
        )


def _to_json(group: PersonGroup) -> PersonGroupJson:
    return {
        "name": group.name,
        "tenant": group.tenant,
        "title": group.title,
        "members": list(group.members),
        "created_at": group.created_at,
    }
