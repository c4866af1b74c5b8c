"""Activation and versions of plugins: activate, deactivate, pin and roll back, also under OSQR's paths."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import NeedsConsent
from paddock.host.host import Host
from paddock.web.request_context import call_context, request_tenant
from paddock.web.routing.body_parsers import parse_grants
from paddock.web.routing.route import API_PREFIX, HOST, OPERATOR, TENANT_PARAM, ApiRoute, json_response, path_param
from paddock.web.routing.schema import (
    BOOLEAN,
    DATE_TIME,
    TEXT,
    TEXTS,
    Schema,
    array_of,
    body_schema,
    describe,
    nullable,
    object_schema,
    ref,
)
from paddock.web.routing.validation import validated_body
from paddock.web.security.authenticate import caller_of

_VERSION: Schema = {"type": "string", "minLength": 1, "maxLength": 256}

PIN_BODY = body_schema(
    {"version": describe({**_VERSION, "type": ["string", "null"]}, "Null lets it move again.")},
    required=("version",),
    example={"version": "1.2.0"},
)
ROLLBACK_BODY = body_schema(
    {
        "version": describe(_VERSION, "The last one before this where it is left out."),
        "grant": describe({"type": "array", "items": TEXT, "maxItems": 200}, "What it asks for and nobody granted."),
    },
    example={"version": "1.2.0"},
)
ACTIVATE_BODY = body_schema(
    {"user_confirmation": BOOLEAN}, required=("user_confirmation",), example={"user_confirmation": True}
)

SCHEMAS: dict[str, Schema] = {
    "Pinned": object_schema(
        {"success": BOOLEAN, "pinned_version": nullable(TEXT), "version": describe(TEXT, "In use now.")}
    ),
    "RolledBack": object_schema({"success": BOOLEAN, "old_version": TEXT, "version": TEXT}),
    "Activated": object_schema(
        {
            "success": BOOLEAN,
            "behavioral_summary": describe(TEXT, "How it behaves, in the words of its consent screen."),
            "tools_available": TEXTS,
            "resources_available": TEXTS,
        }
    ),
    "Deactivated": object_schema({"success": BOOLEAN, "transition_message": TEXT}),
    "ActivePlugins": object_schema(
        {
            "plugins": array_of(
                object_schema({"id": TEXT, "name": TEXT, "activated_at": nullable(DATE_TIME), "tools": TEXTS})
            )
        }
    ),
}


OSQR_PREFIX = "/api"  # of OSQR's specification


class VersionRoutes:
    """Routes that pin and roll back versions. They apply to all tenants, so only operators of the host may."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            route
            for prefix in (API_PREFIX, OSQR_PREFIX)
            for route in (
                ApiRoute(
                    "POST",
                    "/plugins/{name}/pin",
                    self.pin_plugin,
                    "Hold a plugin at a version",
                    "`pinned_version`, which no upgrade moves, and the `version` in use. Its processes are those of"
                    " that version when this is answered.",
                    body_description="`version`: one that is installed; null lets it move again.",
                    request_schema=PIN_BODY,
                    response_schema=ref("Pinned"),
                    error_statuses=(409,),
                    prefix=prefix,
                    access=HOST,
                ),
                ApiRoute(
                    "POST",
                    "/plugins/{name}/rollback",
                    self.roll_back,
                    "Go back to an earlier version",
                    "From which version, and to which. 403 with the `capabilities` where that asks for what is not"
                    " granted any more.",
                    body_description="`version`: the last one before this where it is left out; `grant`: what it asks"
                    " for and somebody said yes to.",
                    request_schema=ROLLBACK_BODY,
                    response_schema=ref("RolledBack"),
                    error_statuses=(409, 502),
                    prefix=prefix,
                    access=HOST,
                ),
            )
        ]

    async def pin_plugin(self, request: Request) -> Response:
        version = validated_body(request)["version"]
        plugin = await self._host.plugins.versions.pin(path_param(request), version, caller_of(request).principal.id)
        return json_response(
            {"success": True, "pinned_version": plugin.pinned_version, "version": plugin.current_version}
        )

    async def roll_back(self, request: Request) -> Response:
        body = validated_body(request)
        old_version, new_version = await self._host.plugins.versions.rollback(
            path_param(request), body.get("version"), parse_grants(body), caller_of(request).principal.id
        )
        return json_response({"success": True, "old_version": old_version, "version": new_version})


class ActivationRoutes:
    """Routes that enable and disable a plugin for a tenant, in the shapes of OSQR's specification."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [*self._endpoints_at(API_PREFIX), *self._endpoints_at(OSQR_PREFIX)]

    def _endpoints_at(self, prefix: str) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/plugins/active",
                self.list_active,
                "List the plugins that are on",
                "`plugins`, each with those of its `tools` that the caller may call.",
                query=TENANT_PARAM,
                response_schema=ref("ActivePlugins"),
                prefix=prefix,
                allow_impersonation=True,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/activate",
                self.activate_plugin,
                "Switch a plugin on",
                "How it changes the assistant, in words, and what it offers once it runs.",
                query=TENANT_PARAM,
                body_description="`user_confirmation`: true, or nothing happens.",
                request_schema=ACTIVATE_BODY,
                response_schema=ref("Activated"),
                error_statuses=(409, 429, 502, 504),
                prefix=prefix,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/deactivate",
                self.deactivate_plugin,
                "Switch a plugin off",
                "A word to the person. What the plugin kept stays.",
                query=TENANT_PARAM,
                response_schema=ref("Deactivated"),
                prefix=prefix,
                access=OPERATOR,
            ),
        ]

    async def list_active(self, request: Request) -> Response:
        return json_response(
            {"plugins": await self._host.calls.activation.active_plugins(await call_context(self._host, request))}
        )

    async def activate_plugin(self, request: Request) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        if not validated_body(request)["user_confirmation"]:
            raise NeedsConsent(
                f"nobody confirmed that {name} is to be activated",
                hint="show what it will do, and send `user_confirmation` true",
                details={"plugin": name},
            )
        enabled = await self._host.plugins.lifecycle.enable(
            name, tenant=context.tenant, by=caller_of(request).principal.id
        )
        summary = await self._host.calls.activation.summary(enabled["name"], context)
        resources = await self._host.plugins.features.resources(enabled["name"], context.tenant)
        uris = [resource["uri"] for resource in resources["resources"] if "uri" in resource]
        return json_response({"success": True, **summary, "resources_available": uris})

    async def deactivate_plugin(self, request: Request) -> Response:
        tenant = await request_tenant(self._host, request)
        disabled = await self._host.plugins.lifecycle.disable(
            path_param(request), tenant, by=caller_of(request).principal.id
        )
        message = f"{disabled['name']} is off. What it kept stays, for when it is activated again."
        return json_response({"success": True, "transition_message": message})
