"""`/api-keys`: API keys. Operators see and manage those of their tenant, people see and revoke their own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, NotRequired, TypedDict

from starlette.requests import Request

from paddock.api.identity.removals import RetainedLogJson, retained_log
from paddock.core.errors import Problem
from paddock.core.schema_annotations import DateTime
from paddock.host.host import Host
from paddock.principals.api_keys import ApiKey, ApiKeyState
from paddock.principals.name_rules import name_problems
from paddock.web.request_context import call_context, is_tenant_operator
from paddock.web.routing.route import MEMBER, OPERATOR, TENANT_PARAM, ApiRoute, JsonResponse, RequestBody, path_param
from paddock.web.routing.validation import reject_problems, validated_body

_TAG = "api-keys"


class ApiKeyJson(TypedDict):
    """An API key, without its token."""

    id: str
    tenant: str
    owner: Annotated[str, "The person it acts for, such as `user:ann`."]
    label: str
    state: ApiKeyState
    roles: list[str]
    scopes: list[str]
    created_at: DateTime
    created_by: str
    expires_at: DateTime | None
    revoked_at: DateTime | None
    last_used_at: DateTime | None


class NewApiKeyJson(ApiKeyJson):
    """An API key that was just created."""

    token: Annotated[str, "Proves who is calling. It is shown only once."]


class RevokedApiKeyJson(ApiKeyJson, RetainedLogJson):
    """An API key that was revoked."""


class ApiKeysJson(TypedDict):
    tenant: str
    keys: list[ApiKeyJson]


class AddApiKeyBody(TypedDict):
    owner: Annotated[str, "The person that it acts for."]
    label: NotRequired[Annotated[str, "What it is for."]]
    roles: NotRequired[
        Annotated[list[str], "Some of the owner's roles; by default all of them except operator and approver."]
    ]
    scopes: NotRequired[Annotated[list[str], "Some of the owner's scopes; none by default."]]
    expires_at: NotRequired[Annotated[DateTime, "When it expires; never by default."]]


class ApiKeyRoutes:
    """Routes that manage API keys."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/api-keys",
                self.list_keys,
                "List API keys",
                "`keys`, oldest first: for operators those of their tenant, for all others their own.",
                query=TENANT_PARAM | {"owner": "Only those of this person."},
                tag=_TAG,
                access=MEMBER,
            ),
            ApiRoute(
                "POST",
                "/api-keys",
                self.add_key,
                "Add an API key",
                "The key with its `token`, which is shown only once. It never has more rights than its owner. Needs a"
                " signed-in person, not an API key.",
                query=TENANT_PARAM,
                request_body=RequestBody(AddApiKeyBody, {"owner": "ann", "label": "mailer", "roles": ["member"]}),
                status=201,
                error_statuses=(409,),
                tag=_TAG,
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "GET",
                "/api-keys/{id}",
                self.show_key,
                "Show an API key",
                "The key.",
                query=TENANT_PARAM,
                tag=_TAG,
                access=MEMBER,
            ),
            ApiRoute(
                "POST",
                "/api-keys/{id}/revoke",
                self.revoke_key,
                "Revoke an API key",
                "The key. It takes effect at once and cannot be undone.",
                query=TENANT_PARAM,
                tag=_TAG,
                access=MEMBER,
            ),
        ]

    async def list_keys(self, request: Request) -> JsonResponse[ApiKeysJson]:
        principal, owner = (await call_context(self._host, request)).principal, request.query_params.get("owner")
        if not is_tenant_operator(principal):
            keys = await self._host.identity.api_keys.list_owned_by(principal)
            if owner is not None:
                keys = [key for key in keys if key.owner == owner.removeprefix("user:")]
        elif owner is None:
            keys = await self._host.identity.api_keys.list_all(principal.tenant)
        else:
            person = await self._host.identity.people.find(principal.tenant, owner)
            keys = [
                key for key in await self._host.identity.api_keys.list_all(principal.tenant) if key.owner == person.name
            ]
        return JsonResponse({"tenant": principal.tenant, "keys": [_to_json(key) for key in keys]})

    async def add_key(self, request: Request) -> JsonResponse[NewApiKeyJson]:
        body, context = validated_body(request, AddApiKeyBody), await call_context(self._host, request)
        roles, scopes = body.get("roles"), body.get("scopes", [])
        problems = name_problems("role", {f"roles[{index}]": name for index, name in enumerate(roles or ())})
        problems += name_problems("scope", {f"scopes[{index}]": name for index, name in enumerate(scopes)})
        expires_at: datetime | None = None
        if "expires_at" in body:
            try:
                expires_at = _parse_time(body["expires_at"])
            except ValueError:
                problems.append(Problem("expires_at", "is not a time", "write it as in 2027-01-31T12:00:00Z"))
        reject_problems(problems)
        key, token = await self._host.identity.api_keys.create(
            context.principal,
            body["owner"],
            label=body.get("label", ""),
            roles=roles,
            scopes=scopes,
            expires_at=expires_at,
        )
        return JsonResponse({**_to_json(key), "token": token.reveal()}, 201)

    async def show_key(self, request: Request) -> JsonResponse[ApiKeyJson]:
        context = await call_context(self._host, request)
        key = await self._host.identity.api_keys.find(context.principal, path_param(request, "id"))
        return JsonResponse(_to_json(key))

    async def revoke_key(self, request: Request) -> JsonResponse[RevokedApiKeyJson]:
        context = await call_context(self._host, request)
        key, log = await self._host.identity.api_keys.revoke(context.principal, path_param(request, "id"))
        return JsonResponse({**_to_json(key), **retained_log(request, log)})


def _to_json(key: ApiKey) -> ApiKeyJson:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "owner": f"user:{key.owner}",
        "label": key.label,
        "state": key.state(datetime.now(UTC)),
        "roles": sorted(key.roles),
        "scopes": sorted(key.scopes),
        "created_at": key.created_at,
        "created_by": key.created_by,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }


def _parse_time(text: str) -> datetime:
    """Parse a time as RFC 3339 writes it; in UTC, since the store compares times as text."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("a time without its offset from UTC")
    return time.astimezone(UTC)
