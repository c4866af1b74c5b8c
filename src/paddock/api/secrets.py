"""`/secrets`: the secrets of a tenant, for its operators; changes need a signed-in person. No value is ever returned.

Only the operator on the local socket sets secrets of people, and rotates the key that all secrets are sealed under.
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec.structs import asdict
from starlette.requests import Request

from paddock.api.identity.removals import RetainedLogJson, retained_log
from paddock.core.call import Principal
from paddock.core.errors import Denied, NotFound
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.core.schema_annotations import DateTime, MemberConstraint, NonNegativeInt
from paddock.core.secret import Secret
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.secrets.rotation import RotationResult
from paddock.secrets.rows import MAX_SECRET_CHARS, SecretInfo
from paddock.web.request_context import call_context, request_tenant
from paddock.web.routing.route import (
    LOCAL,
    MAX_NAME_CHARS,
    OPERATOR,
    TENANT_PARAM,
    ApiRoute,
    JsonResponse,
    RequestBody,
    path_param,
)
from paddock.web.routing.validation import validated_body
from paddock.web.security.authenticate import caller_of

_TAG = "secrets"
_OWNER_PARAM = {"owner": "The person who owns it; the whole tenant by default."}
_NEEDS_PERSON = " Needs a signed-in person, not an API key."


class SecretJson(TypedDict):
    """A secret, without its value."""

    name: str
    tenant: str
    scope: Annotated[Literal["user", "system"], "Whether it is a person's, or the whole tenant's."]
    owner: Annotated[str | None, "Such as `user:ann`; null if it is the whole tenant's."]
    version: Annotated[NonNegativeInt, "How often it was set."]
    set_at: DateTime
    set_by: str


class ChangedSecretJson(SecretJson, RetainedLogJson):
    """A secret that was set."""


class RemovedSecretJson(SecretJson, RetainedLogJson):
    """A secret that was erased."""

    removed: bool


class SecretsJson(TypedDict):
    tenant: str
    secrets: list[SecretJson]


class UnrotatedSecretJson(TypedDict):
    """A secret that is still sealed under its old key."""

    tenant: str
    owner: Annotated[str, "Empty if it is the whole tenant's."]
    name: str
    key_id: str
    reason: Literal["damaged", "key_missing"]


class KeptKeyJson(TypedDict):
    """An old key that was not destroyed."""

    key_id: str
    reason: str


class SecretRotationJson(TypedDict):
    rotated: Annotated[NonNegativeInt, "The number of secrets that were sealed under another key."]
    key_id: Annotated[str | None, "The key that is used now; null if there is no secret yet."]
    resumed: Annotated[bool, "Whether this finished a rotation that was interrupted."]
    left: list[UnrotatedSecretJson]
    kept_keys: list[KeptKeyJson]
    key_setting: Annotated[str, "The setting `secrets.key`: where the next rotation puts the key."]


class SetSecretBody(TypedDict):
    value: Annotated[
        str,
        MemberConstraint(min_length=1, max_length=MAX_SECRET_CHARS, write_only=True),
        "The value. It is stored encrypted, and neither returned nor logged.",
    ]


class RotateSecretsBody(TypedDict):
    to: NotRequired[
        Annotated[
            Literal["file", "keyring", "credential", "passphrase"],
            "Where to store the new key; by default as `secrets.key` says, or where the present one is.",
        ]
    ]


class SecretRoutes:
    """Routes that manage secrets."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/secrets",
                self.list_secrets,
                "List secrets",
                "`secrets`, by name: who set them and when, and not their values.",
                query=TENANT_PARAM | {"owner": "Only those of this person; with an empty name only the tenant's own."},
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/secrets/{name:path}",
                self.show_secret,
                "Show who set a secret and when",
                "The secret without its value.",
                query=TENANT_PARAM | _OWNER_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "PUT",
                "/secrets/{name:path}",
                self.set_secret,
                "Set a secret",
                f"The secret without its value.{_NEEDS_PERSON} With `owner` only on the local socket.",
                query=TENANT_PARAM | _OWNER_PARAM,
                request_body=RequestBody(SetSecretBody, {"value": "correct horse battery staple"}),
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "DELETE",
                "/secrets/{name:path}",
                self.remove_secret,
                "Erase a secret and its data key",
                f"The secret that was erased.{_NEEDS_PERSON}",
                query=TENANT_PARAM | _OWNER_PARAM,
                access=OPERATOR,
                needs_person=True,
            ),
            ApiRoute(
                "POST",
                "/secret-key/rotate",
                self.rotate_secret_key,
                "Seal the secrets of all tenants under a new key",
                "How many were rotated, and which were left. An interrupted rotation continues.",
                request_body=RequestBody(RotateSecretsBody, {"to": "file"}),
                tag=_TAG,
                access=LOCAL,
            ),
        ]

    async def list_secrets(self, request: Request) -> JsonResponse[SecretsJson]:
        tenant = await request_tenant(self._host, request)
        owner = await self._owner(request, tenant) if "owner" in request.query_params else None
        secrets = await self._host.secrets.store.list_secrets(tenant, owner)
        return JsonResponse({"tenant": tenant, "secrets": [_to_json(secret) for secret in secrets]})

    async def show_secret(self, request: Request) -> JsonResponse[SecretJson]:
        tenant = await request_tenant(self._host, request)
        owner = await self._owner(request, tenant)
        return JsonResponse(_to_json(await self._host.secrets.store.find(tenant, path_param(request), owner)))

    async def set_secret(self, request: Request) -> JsonResponse[ChangedSecretJson]:
        person, owner = await self._person_and_owner(request)
        if owner and caller_of(request).via != "socket":
            raise Denied(
                "secrets of people are set by themselves, or by the operator on the local socket",
                code="auth.not_for_you",
                hint="at the console, people set those of their own among their accounts",
                details={"who": LOCAL.name.lower()},
            )
        value = Secret(validated_body(request, SetSecretBody)["value"])
        secret, log = await self._host.secrets.store.set_secret(
            person.tenant, path_param(request), owner, value, person.id
        )
        return JsonResponse({**_to_json(secret), **retained_log(request, log)})

    async def remove_secret(self, request: Request) -> JsonResponse[RemovedSecretJson]:
        person, owner = await self._person_and_owner(request)
        secret, log = await self._host.secrets.store.erase(person.tenant, path_param(request), owner, person.id)
        return JsonResponse({**_to_json(secret), **retained_log(request, log), "removed": True})

    async def rotate_secret_key(self, request: Request) -> JsonResponse[SecretRotationJson]:
        preferred = validated_body(request, RotateSecretsBody).get("to")
        rotation = await self._host.secrets.store.rotate(caller_of(request).principal.id, preferred)
        return JsonResponse(_rotation_to_json(rotation, self._host.loaded_settings.settings.secrets.key))

    async def _person_and_owner(self, request: Request) -> tuple[Principal, str]:
        """Return the person who asks for a change, and the owner of the secret."""
        person = require_interactive_person((await call_context(self._host, request)).principal)
        return person, await self._owner(request, person.tenant)

    async def _owner(self, request: Request, tenant: Tenant) -> str:
        """Return the owner as stored: a person's id, or the caller as `local:NAME`; empty for the whole tenant.

        Raises:
            NotFound: there is no such person.
        """
        name = request.query_params.get("owner", "")[:MAX_NAME_CHARS]
        if not name:
            return ""
        if name.startswith("local:"):
            if name != caller_of(request).principal.id:
                raise NotFound(f"{printable(name, 80)} is not who asks for this", code="person.not_found")
            return name
        return (await self._host.identity.people.find(tenant, name)).id


def _to_json(secret: SecretInfo) -> SecretJson:
    return {
        "name": secret.name,
        "tenant": secret.tenant,
        "scope": secret.scope.value,
        "owner": secret.owner or None,
        "version": secret.version,
        "set_at": secret.set_at,
        "set_by": secret.set_by,
    }


def _rotation_to_json(rotation: RotationResult | None, key_setting: str) -> SecretRotationJson:
    if rotation is None:
        return {
            "rotated": 0,
            "key_id": None,
            "resumed": False,
            "left": [],
            "kept_keys": [],
            "key_setting": key_setting,
        }
    return {
        "rotated": rotation.moved,
        "key_id": rotation.key_id,
        "resumed": rotation.resumed,
        "left": [UnrotatedSecretJson(**asdict(secret)) for secret in rotation.left],
        "kept_keys": [{"key_id": key_id, "reason": reason} for key_id, reason in rotation.kept.items()],
        "key_setting": key_setting,
    }
