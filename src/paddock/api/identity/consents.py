"""`/consents`: people's consents to callables.

Everybody sees and revokes their own, and operators see those of their tenant. Only the operator on the local socket
records and revokes the consents of others.
"""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict, cast

from msgspec.structs import asdict
from starlette.requests import Request

from paddock.core.call import Principal
from paddock.core.errors import OperatorError
from paddock.core.printable import printable
from paddock.core.schema_annotations import DateTime
from paddock.host.host import Host
from paddock.plugins.tool_pinning.tools import ToolJson
from paddock.principals.consents import ConsentRecord
from paddock.principals.people import unknown_person_error
from paddock.principals.principal_name import parse_principal_name
from paddock.web.request_context import call_context, is_tenant_operator
from paddock.web.routing.route import (
    LOCAL,
    MEMBER,
    TENANT_PARAM,
    ApiRoute,
    JsonResponse,
    RequestBody,
    bool_param,
    bool_param_spec,
)
from paddock.web.routing.validation import ParameterSpec, validated_body
from paddock.web.security.authenticate import caller_of

_CALLABLE_PARAM = ParameterSpec("A callable, such as `gmail.send`, or a plugin with a single callable.", required=True)


class ConsentJson(TypedDict):
    """A person's consent to one callable."""

    tenant: str
    person: Annotated[str, "The principal, such as `user:ann`."]
    plugin: str
    callable: str
    given_at: DateTime
    given_by: str
    revoked_at: DateTime | None


class ConsentsJson(TypedDict):
    tenant: str
    consents: list[ConsentJson]


class ConsentTargetJson(TypedDict):
    person: Annotated[str, "The principal that would consent."]
    plugin: str
    tool: ToolJson


class ConsentBody(TypedDict):
    name: Annotated[str, "A callable, such as `gmail.send`, or a plugin with a single callable."]
    person: NotRequired[
        Annotated[str, "The consenting person, such as `user:ann`; the caller by default, and on TCP only the caller."]
    ]


class ConsentRoutes:
    """Routes that list, record and revoke consents."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/consents",
                self.list_consents,
                "List consents",
                "`consents` of a person: of the caller, unless an operator names another; without a name an operator"
                " gets those of the whole tenant.",
                query=TENANT_PARAM
                | {
                    "person": "The consenting person, such as `user:ann`.",
                    "revoked": bool_param_spec("1: include revoked consents."),
                },
                access=MEMBER,
            ),
            ApiRoute(
                "POST",
                "/consents",
                self.give_consent,
                "Record the consent of a person",
                "The consent. It is valid until it is revoked.",
                query=TENANT_PARAM,
                request_body=RequestBody(ConsentBody, {"name": "gmail.send", "person": "user:ann"}),
                access=LOCAL,
            ),
            ApiRoute(
                "GET",
                "/consents/target",
                self.show_target,
                "Show the callable that a consent would be for",
                "The `tool` with its description and effects, as the default tenant knows it.",
                query=TENANT_PARAM
                | {"name": _CALLABLE_PARAM, "person": "The consenting person; by default the caller."},
                access=LOCAL,
            ),
            ApiRoute(
                "POST",
                "/consents/revoke",
                self.revoke_consent,
                "Revoke a consent",
                "The consent. The next call needs a new one. Needs a signed-in person, not an API key.",
                query=TENANT_PARAM,
                request_body=RequestBody(ConsentBody, {"name": "gmail.send"}),
                access=MEMBER,
            ),
        ]

    async def list_consents(self, request: Request) -> JsonResponse[ConsentsJson]:
        principal, named = (await call_context(self._host, request)).principal, request.query_params.get("person")
        if not is_tenant_operator(principal):
            person = _require_own(principal, named)
        else:
            person = None if named is None else await self._resolve_person(principal, named)
        consents = await self._host.identity.consents.list_all(
            principal.tenant, person, revoked=bool_param(request, "revoked")
        )
        return JsonResponse({"tenant": principal.tenant, "consents": [_to_json(consent) for consent in consents]})

    async def show_target(self, request: Request) -> JsonResponse[ConsentTargetJson]:
        principal = (await call_context(self._host, request)).principal
        person = await self._resolve_person(principal, request.query_params.get("person"))
        plugin, tool = await self._host.plugins.features.find_callable(request.query_params["name"])
        return JsonResponse({"person": person, "plugin": plugin, "tool": tool})

    async def give_consent(self, request: Request) -> JsonResponse[ConsentJson]:
        body, principal = validated_body(request, ConsentBody), (await call_context(self._host, request)).principal
        person = await self._resolve_person(principal, body.get("person"))
        plugin, tool = await self._host.plugins.features.find_callable(body["name"])
        return JsonResponse(_to_json(await self._host.identity.consents.give(principal, person, plugin, tool["name"])))

    async def revoke_consent(self, request: Request) -> JsonResponse[ConsentJson]:
        body, principal = validated_body(request, ConsentBody), (await call_context(self._host, request)).principal
        if caller_of(request).operator is None:
            person = _require_own(principal, body.get("person"))
        else:
            person = await self._resolve_person(principal, body.get("person"))
        return JsonResponse(
            _to_json(await self._host.identity.consents.revoke_by_name(principal, person, body["name"]))
        )

    async def _resolve_person(self, principal: Principal, named: str | None) -> str:
        """Return the id of a consenting person, who must exist and be a person.

        Raises:
            OperatorError: it is no person of the principal's tenant.
            NotFound: there is no such person.
        """
        if named is None or named == principal.id:
            return principal.id
        subject = parse_principal_name(named, principal.tenant)
        if subject.prefix == "local":
            return subject.id
        if subject.prefix != "user" or subject.tenant != principal.tenant:
            raise OperatorError(
                f"{printable(named, 80)} cannot agree to anything: only people of the tenant {principal.tenant} can",
                code="consent.not_a_person",
                hint="name a person, such as user:ann",
            )
        return (await self._host.identity.people.find(principal.tenant, subject.name)).id


def _require_own(principal: Principal, named: str | None) -> str:
    """Return the principal's own id; the consents of others do not exist for it."""
    if named not in (None, principal.id):
        raise unknown_person_error(principal.tenant, named or "")
    return principal.id


def _to_json(consent: ConsentRecord) -> ConsentJson:
    return cast("ConsentJson", asdict(consent))
