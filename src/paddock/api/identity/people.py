"""`/people`: the people of a tenant, for its operators; changes need a signed-in person.

Only the operator on the local socket links people to the subjects of an identity provider.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, NotRequired, TypedDict

from starlette.requests import Request

from paddock.api.identity.removals import RemovalJson, retained_log
from paddock.core.errors import OperatorError, Problem
from paddock.core.schema_annotations import DateTime, MemberConstraint
from paddock.host.host import Host
from paddock.host.identity.people import PersonChange
from paddock.manifest.names import full_name
from paddock.principals.identities import ExternalIdentity
from paddock.principals.name_rules import MAX_DISPLAY_NAME_CHARS, NameKind, name_problems
from paddock.principals.people import Person
from paddock.web.request_context import call_context, request_tenant
from paddock.web.routing.route import (
    EMPTY_BODY,
    LOCAL,
    OPERATOR,
    TENANT_PARAM,
    ApiRoute,
    JsonResponse,
    RequestBody,
    path_param,
)
from paddock.web.routing.validation import reject_problems, validated_body

_NEEDS_PERSON = " Needs a signed-in person, not an API key."


class PersonJson(TypedDict):
    """A person."""

    id: Annotated[str, "The principal, such as `user:ann`."]
    name: str
    tenant: str
    display_name: str
    state: Literal["enabled", "disabled"]
    roles: list[str]
    scopes: list[str]
    groups: list[str]
    created_at: DateTime


class PersonDetailsJson(PersonJson):
    """A person, with what belongs to them."""

    keys: Annotated[list[str], "The ids of their API keys that can be used."]
    consents: Annotated[list[str], "The callables that they have consented to."]


class ChangedPersonJson(PersonJson):
    """A person after a change."""

    second_approver: Annotated[
        bool, "Whether the tenant now has several approvers: from now on they cannot approve what they asked for."
    ]


class PeopleJson(TypedDict):
    tenant: str
    people: list[PersonJson]


class ExternalIdentityJson(TypedDict):
    """An identity at a provider."""

    issuer: str
    subject: str


class PersonIdentitiesJson(TypedDict):
    id: Annotated[str, "The principal, such as `user:ann`."]
    identities: list[ExternalIdentityJson]


class AddPersonBody(TypedDict):
    name: Annotated[str, "Up to 128 small letters, digits and . _ @ + -"]
    display_name: NotRequired[
        Annotated[
            str,
            MemberConstraint(max_length=MAX_DISPLAY_NAME_CHARS),
            "The name for people to read; the name by default.",
        ]
    ]
    roles: NotRequired[Annotated[list[str], "The person's roles; `member` by default."]]
    scopes: NotRequired[Annotated[list[str], "The person's scopes; none by default."]]


class RenamePersonBody(TypedDict):
    display_name: Annotated[
        str, MemberConstraint(max_length=MAX_DISPLAY_NAME_CHARS), "The name for people to read; empty for the name."
    ]


class ChangeRolesBody(TypedDict):
    add: NotRequired[Annotated[list[str], "Roles to grant."]]
    remove: NotRequired[Annotated[list[str], "Roles to revoke. Their API keys lose them at once."]]


class ChangeScopesBody(TypedDict):
    add: NotRequired[Annotated[list[str], "Scopes to grant."]]
    remove: NotRequired[Annotated[list[str], "Scopes to revoke. Their API keys lose them at once."]]


class LinkIdentityBody(TypedDict):
    subject: Annotated[str, "The person's subject at the provider: its claim `sub`."]
    issuer: NotRequired[Annotated[str, "The identity provider; that of `oidc.issuer` by default."]]


class PeopleRoutes:
    """Routes that manage people."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [*self._people_endpoints(), *self._identity_endpoints()]

    def _people_endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/people",
                self.list_people,
                "List people",
                "`people`, by name.",
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/people",
                self.add_person,
                "Add a person",
                f"The person.{_NEEDS_PERSON}",
                query=TENANT_PARAM,
                request_body=RequestBody(
                    AddPersonBody, {"name": "ann", "display_name": "Ann Lee", "roles": ["member", "approver"]}
                ),
                status=201,
                error_statuses=(409,),
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "GET",
                "/people/{name}",
                self.show_person,
                "Show a person",
                "The person with their groups, API keys and consents.",
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "DELETE",
                "/people/{name}",
                self.remove_person,
                "Remove a person",
                "Their name. Their API keys, sessions, secrets, memberships, consents, approvals and pending calls are"
                f" removed too; ledger entries are kept.{_NEEDS_PERSON}",
                query=TENANT_PARAM,
                error_statuses=(409,),
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "POST",
                "/people/{name}/roles",
                self.change_roles,
                "Grant and revoke roles of a person",
                f"The person.{_NEEDS_PERSON}",
                query=TENANT_PARAM,
                request_body=RequestBody(ChangeRolesBody, {"add": ["approver"]}),
                error_statuses=(409,),
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "POST",
                "/people/{name}/scopes",
                self.change_scopes,
                "Grant and revoke scopes of a person",
                f"The person.{_NEEDS_PERSON}",
                query=TENANT_PARAM,
                request_body=RequestBody(ChangeScopesBody, {"add": ["email:send"]}),
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "POST",
                "/people/{name}/rename",
                self.rename_person,
                "Change the display name of a person",
                f"The person. The name that rules and keys refer to stays.{_NEEDS_PERSON}",
                query=TENANT_PARAM,
                request_body=RequestBody(RenamePersonBody, {"display_name": "Ann Lee-Hill"}),
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "POST",
                "/people/{name}/enable",
                self.enable_person,
                "Enable a person",
                f"The person.{_NEEDS_PERSON}",
                query=TENANT_PARAM,
                request_body=EMPTY_BODY,
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "POST",
                "/people/{name}/disable",
                self.disable_person,
                "Disable a person and their API keys",
                f"The person. No data is removed.{_NEEDS_PERSON}",
                query=TENANT_PARAM,
                request_body=EMPTY_BODY,
                error_statuses=(409,),
                access=OPERATOR,
                needs_person=True,
            ),
        ]

    def _identity_endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/people/{name}/identities",
                self.list_identities,
                "List the identities of a person at identity providers",
                "`identities`, by issuer.",
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/people/{name}/identities",
                self.link_identity,
                "Link a person to an identity",
                "`identities` of the person. The first sign-in under the person's name does this by itself.",
                query=TENANT_PARAM,
                request_body=RequestBody(LinkIdentityBody, {"subject": "00u1abcd"}),
                error_statuses=(409,),
                access=LOCAL,
            ),
            ApiRoute(
                "DELETE",
                "/people/{name}/identities",
                self.unlink_identity,
                "Unlink a person from an identity provider",
                "`identities` that are left. The next sign-in under the person's name links them again.",
                query=TENANT_PARAM | {"issuer": "The identity provider; that of `oidc.issuer` by default."},
                access=LOCAL,
            ),
        ]

    async def list_people(self, request: Request) -> JsonResponse[PeopleJson]:
        tenant = await request_tenant(self._host, request)
        people, _groups = await self._host.identity.people.list_all(tenant)
        return JsonResponse({"tenant": tenant, "people": [_person_to_json(person) for person in people]})

    async def add_person(self, request: Request) -> JsonResponse[ChangedPersonJson]:
        body, context = validated_body(request, AddPersonBody), await call_context(self._host, request)
        roles, scopes = body.get("roles", ["member"]), body.get("scopes", [])
        reject_problems(
            [
                *_list_problems("role", "roles", roles),
                *_list_problems("scope", "scopes", scopes),
                *name_problems("person", {"name": body["name"]}),
            ]
        )
        change = await self._host.identity.people.add(
            context.principal, body["name"], display_name=body.get("display_name", ""), roles=roles, scopes=scopes
        )
        return JsonResponse(_change_to_json(change), 201)

    async def show_person(self, request: Request) -> JsonResponse[PersonDetailsJson]:
        tenant, now = await request_tenant(self._host, request), datetime.now(UTC)
        person = await self._host.identity.people.find(tenant, path_param(request))
        keys = await self._host.identity.api_keys.list_all(tenant)
        consents = await self._host.identity.consents.list_all(tenant, person.id)
        return JsonResponse(
            {
                **_person_to_json(person),
                "keys": [key.id for key in keys if key.owner == person.name and key.state(now) == "live"],
                "consents": sorted(full_name(consent.plugin, consent.callable) for consent in consents),
            }
        )

    async def remove_person(self, request: Request) -> JsonResponse[RemovalJson]:
        context = await call_context(self._host, request)
        person, log = await self._host.identity.people.remove(context.principal, path_param(request))
        return JsonResponse(
            {"name": person.name, "tenant": person.tenant, "removed": True, **retained_log(request, log)}
        )

    async def change_roles(self, request: Request) -> JsonResponse[ChangedPersonJson]:
        body, context = validated_body(request, ChangeRolesBody), await call_context(self._host, request)
        reject_problems(_list_problems("role", "add", body.get("add", [])))
        return JsonResponse(
            _change_to_json(
                await self._host.identity.people.change_rights(
                    context.principal,
                    path_param(request),
                    "roles",
                    give=body.get("add", []),
                    take=body.get("remove", []),
                )
            )
        )

    async def change_scopes(self, request: Request) -> JsonResponse[ChangedPersonJson]:
        body, context = validated_body(request, ChangeScopesBody), await call_context(self._host, request)
        reject_problems(_list_problems("scope", "add", body.get("add", [])))
        return JsonResponse(
            _change_to_json(
                await self._host.identity.people.change_rights(
                    context.principal,
                    path_param(request),
                    "scopes",
                    give=body.get("add", []),
                    take=body.get("remove", []),
                )
            )
        )

    async def rename_person(self, request: Request) -> JsonResponse[ChangedPersonJson]:
        body, context = validated_body(request, RenamePersonBody), await call_context(self._host, request)
        change = await self._host.identity.people.rename(context.principal, path_param(request), body["display_name"])
        return JsonResponse(_change_to_json(change))

    async def enable_person(self, request: Request) -> JsonResponse[ChangedPersonJson]:
        return await self._set_enabled(request, on=True)

    async def disable_person(self, request: Request) -> JsonResponse[ChangedPersonJson]:
        return await self._set_enabled(request, on=False)

    async def _set_enabled(self, request: Request, *, on: bool) -> JsonResponse[ChangedPersonJson]:
        context = await call_context(self._host, request)
        change = await self._host.identity.people.set_enabled(context.principal, path_param(request), on=on)
        return JsonResponse(_change_to_json(change))

    async def list_identities(self, request: Request) -> JsonResponse[PersonIdentitiesJson]:
        tenant = await request_tenant(self._host, request)
        return JsonResponse(
            _identities_to_json(*await self._host.identity.people.list_identities(tenant, path_param(request)))
        )

    async def link_identity(self, request: Request) -> JsonResponse[PersonIdentitiesJson]:
        body, context = validated_body(request, LinkIdentityBody), await call_context(self._host, request)
        identity = ExternalIdentity(self._resolve_issuer(body.get("issuer")), body["subject"])
        return JsonResponse(
            _identities_to_json(
                *await self._host.identity.people.link_identity(context.principal, path_param(request), identity)
            )
        )

    async def unlink_identity(self, request: Request) -> JsonResponse[PersonIdentitiesJson]:
        context, issuer = await call_context(self._host, request), request.query_params.get("issuer")
        return JsonResponse(
            _identities_to_json(
                *await self._host.identity.people.unlink_identity(
                    context.principal, path_param(request), self._resolve_issuer(issuer)
                )
            )
        )

    def _resolve_issuer(self, named: str | None) -> str:
        """Return the issuer of the identity provider: the named one, or that of the settings."""
        issuer = named or self._host.settings.oidc.issuer
        if issuer is None:
            raise OperatorError(
                "no identity provider is set", code="oidc.no_issuer", hint="name the issuer, or set oidc.issuer"
            )
        return issuer


def _list_problems(kind: NameKind, path: str, names: list[str]) -> list[Problem]:
    return name_problems(kind, {f"{path}[{index}]": name for index, name in enumerate(names)})


def _person_to_json(person: Person) -> PersonJson:
    return {
        "id": person.id,
        "name": person.name,
        "tenant": person.tenant,
        "display_name": person.display_name,
        "state": "disabled" if person.disabled else "enabled",
        "roles": sorted(person.rights.roles),
        "scopes": sorted(person.rights.scopes),
        "groups": sorted(person.rights.groups),
        "created_at": person.created_at,
    }


def _change_to_json(change: PersonChange) -> ChangedPersonJson:
    return {**_person_to_json(change.person), "second_approver": change.second}


def _identities_to_json(person: Person, identities: list[ExternalIdentity]) -> PersonIdentitiesJson:
    return {
        "id": person.id,
        "identities": [{"issuer": identity.issuer, "subject": identity.subject} for identity in identities],
    }
