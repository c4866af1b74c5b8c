"""Activation and versions of plugins: activate, deactivate, pin and roll back, also under OSQR's paths."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypeAlias, TypedDict

from starlette.requests import Request

from paddock.core.errors import NeedsConsent
from paddock.core.schema_annotations import MemberConstraint
from paddock.host.calls.osqr_activation import ActivationSummaryJson, ActivePluginJson
from paddock.host.host import Host
from paddock.plugins.install.consent_screen import ConsentScreenJson
from paddock.web.request_context import call_context, request_tenant
from paddock.web.routing.body_parsers import MAX_GRANTS, parse_own_grants
from paddock.web.routing.route import (
    API_PREFIX,
    HOST,
    OPERATOR,
    TENANT_PARAM,
    ApiRoute,
    JsonResponse,
    RequestBody,
    path_param,
)
from paddock.web.routing.validation import validated_body
from paddock.web.security.authenticate import caller_of

Version: TypeAlias = Annotated[str, MemberConstraint(min_length=1, max_length=256)]


class PinnedPluginJson(TypedDict):
    success: bool
    name: str
    pinned_version: str | None
    version: Annotated[str, "The version in use."]


class RolledBackPluginJson(TypedDict):
    success: bool
    old_version: str
    version: str


class RollbackPreviewJson(TypedDict):
    """What a rollback would change."""

    name: str
    old_version: Annotated[str, "The version in use."]
    version: Annotated[str, "The version to go back to."]
    screen: ConsentScreenJson
    capabilities: Annotated[list[str], "What that version requests and is no longer granted."]


class ActivatedPluginJson(ActivationSummaryJson):
    """A plugin that was activated."""

    success: bool
    resources_available: list[str]


class DeactivatedPluginJson(TypedDict):
    success: bool
    transition_message: str


class ActivePluginsJson(TypedDict):
    plugins: list[ActivePluginJson]


class PinBody(TypedDict):
    version: NotRequired[
        Annotated[Version | None, "An installed version; the one in use by default. Null unpins the plugin."]
    ]


class RollbackBody(TypedDict):
    old_version: NotRequired[Annotated[Version, "The version in use as the person saw it; 409 if another one is."]]
    version: NotRequired[Annotated[Version, "An installed version; the previous one by default."]]
    grant: NotRequired[
        Annotated[list[str], MemberConstraint(max_items=MAX_GRANTS), "Capabilities that a person has just granted."]
    ]


class ActivateBody(TypedDict):
    user_confirmation: Annotated[bool, "Whether the person has confirmed the activation."]


OSQR_PREFIX = "/api"  # of OSQR's specification


class VersionRoutes:
    """Routes that pin and roll back versions. They apply to all tenants, so only operators of the host may."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/plugins/{name}/rollback",
                self.preview_rollback,
                "Preview a rollback",
                "The `screen` to show to a person first, and the `capabilities` that each need their consent.",
                query={"version": "An installed version; the previous one by default."},
                error_statuses=(409, 502),
                access=HOST,
            ),
            *self._changes(),
        ]

    def _changes(self) -> list[ApiRoute]:
        return [
            route
            for prefix in (API_PREFIX, OSQR_PREFIX)
            for route in (
                ApiRoute(
                    "POST",
                    "/plugins/{name}/rollback",
                    self.roll_back,
                    "Roll a plugin back",
                    "The old and the new version. 403 with the `capabilities` if the version requests some that are not"
                    " granted.",
                    request_body=RequestBody(RollbackBody, {"version": "1.2.0"}),
                    error_statuses=(409, 502),
                    prefix=prefix,
                    access=HOST,
                ),
                ApiRoute(
                    "POST",
                    "/plugins/{name}/pin",
                    self.pin_plugin,
                    "Pin a plugin to a version",
                    "The `pinned_version`, which upgrades do not change, and the `version` in use. Its processes run"
                    " that version when the response is sent.",
                    request_body=RequestBody(PinBody, {"version": "1.2.0"}),
                    error_statuses=(409,),
                    prefix=prefix,
                    access=HOST,
                ),
            )
        ]

    async def pin_plugin(self, request: Request) -> JsonResponse[PinnedPluginJson]:
        body, versions = validated_body(request, PinBody), self._host.plugins.versions
        name, by = path_param(request), caller_of(request).principal.id
        unpin = "version" in body and body["version"] is None
        plugin = await (versions.unpin(name, by) if unpin else versions.pin(name, body.get("version"), by))
        return JsonResponse(
            {
                "success": True,
                "name": plugin.name,
                "pinned_version": plugin.pinned_version,
                "version": plugin.current_version,
            }
        )

    async def preview_rollback(self, request: Request) -> JsonResponse[RollbackPreviewJson]:
        preview = await self._host.plugins.versions.preview_rollback(
            path_param(request), request.query_params.get("version")
        )
        return JsonResponse(
            {
                "name": preview.now.plugin,
                "old_version": preview.now.version,
                "version": preview.target.version,
                "screen": preview.screen.to_value(),
                "capabilities": [str(capability) for capability in preview.new],
            }
        )

    async def roll_back(self, request: Request) -> JsonResponse[RolledBackPluginJson]:
        body = validated_body(request, RollbackBody)
        old_version, new_version = await self._host.plugins.versions.rollback(
            path_param(request),
            body.get("version"),
            parse_own_grants(body, caller_of(request).principal),
            caller_of(request).principal.id,
            leaving=body.get("old_version"),
        )
        return JsonResponse({"success": True, "old_version": old_version, "version": new_version})


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
                "List active plugins",
                "Active `plugins`, each with the tools that the caller may use.",
                query=TENANT_PARAM,
                prefix=prefix,
                allow_impersonation=True,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/activate",
                self.activate_plugin,
                "Activate a plugin",
                "How it changes the assistant, and what it offers, once it runs.",
                query=TENANT_PARAM,
                request_body=RequestBody(ActivateBody, {"user_confirmation": True}),
                error_statuses=(409, 429, 502, 504),
                prefix=prefix,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/deactivate",
                self.deactivate_plugin,
                "Deactivate a plugin",
                "A message for the person. The plugin's data is kept.",
                query=TENANT_PARAM,
                prefix=prefix,
                access=OPERATOR,
            ),
        ]

    async def list_active(self, request: Request) -> JsonResponse[ActivePluginsJson]:
        return JsonResponse(
            {"plugins": await self._host.calls.activation.active_plugins(await call_context(self._host, request))}
        )

    async def activate_plugin(self, request: Request) -> JsonResponse[ActivatedPluginJson]:
        context, name = await call_context(self._host, request), path_param(request)
        if not validated_body(request, ActivateBody)["user_confirmation"]:
            raise NeedsConsent(
                f"the activation of {name} was not confirmed",
                hint="show what it will do, and send `user_confirmation` true",
                details={"plugin": name},
            )
        enabled = await self._host.plugins.lifecycle.enable(
            name, tenant=context.tenant, by=caller_of(request).principal.id
        )
        summary = await self._host.calls.activation.summary(enabled["name"], context)
        resources = await self._host.plugins.features.resources(enabled["name"], context.tenant)
        uris = [resource["uri"] for resource in resources["resources"] if "uri" in resource]
        return JsonResponse({"success": True, **summary, "resources_available": uris})

    async def deactivate_plugin(self, request: Request) -> JsonResponse[DeactivatedPluginJson]:
        tenant = await request_tenant(self._host, request)
        disabled = await self._host.plugins.lifecycle.disable(
            path_param(request), tenant, by=caller_of(request).principal.id
        )
        message = f"{disabled['name']} is off. What it kept stays, for when it is activated again."
        return JsonResponse({"success": True, "transition_message": message})
