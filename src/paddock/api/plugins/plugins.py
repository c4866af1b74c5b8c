"""`/plugins`: list and show installed plugins, enable and disable them, and read their logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, NotRequired, TypedDict

from starlette.requests import Request
from starlette.responses import Response

from paddock.api.cancellable_response import respond_until_disconnect
from paddock.core.ids import Tenant
from paddock.core.schema_annotations import MemberConstraint
from paddock.host.calls.caller_view import OfferedPluginJson, PluginSummaryJson
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.host.plugins.inventory import InstalledPluginJson, PluginJson
from paddock.host.plugins.lifecycle import DisabledPluginJson, EnabledPluginJson, GrantStateJson
from paddock.host.plugins.logs.log_files import LogLineJson, one_of_lines
from paddock.plugins.tool_pinning.tool_trust import TrustedWord
from paddock.web.request_context import call_context, is_tenant_operator, request_tenant
from paddock.web.routing.body_parsers import MAX_GRANTS, parse_own_grants
from paddock.web.routing.route import (
    EVENT_STREAM,
    HOST,
    OPERATOR,
    TENANT_PARAM,
    ApiRoute,
    ExtraResponse,
    JsonResponse,
    RequestBody,
    bool_param,
    bool_param_spec,
    int_param,
    int_param_spec,
    path_param,
)
from paddock.web.routing.validation import validated_body
from paddock.web.security.authenticate import caller_of
from paddock.web.sse import ServerSentEvent, event_stream

MAX_LOG_LINES = 10_000
_DEFAULT_LOG_LINES = 50


class PluginsJson(TypedDict):
    plugins: list[InstalledPluginJson] | list[PluginSummaryJson]


class LogLinesJson(TypedDict):
    name: str
    lines: list[LogLineJson]


class EnableBody(TypedDict):
    start: NotRequired[
        Annotated[
            bool,
            "True by default. False: only record that it is enabled. It starts at its first call; a daemon starts it"
            " by itself unless it is lazy.",
        ]
    ]
    disable_unless_started: NotRequired[
        Annotated[
            bool,
            "Disable it again if it was disabled before and does not start, or if the client leaves before it runs. It"
            " stays enabled if its grant was changed meanwhile. False by default.",
        ]
    ]
    grant: NotRequired[
        Annotated[
            list[str],
            MemberConstraint(max_items=MAX_GRANTS),
            "Capabilities that a person has just granted. Not for API keys.",
        ]
    ]
    trust_reads: NotRequired[
        Annotated[
            bool,
            "Take its word for the tools that say that they only read, as `POST /plugins/{name}/trust` does. A server"
            " that never ran is started to list them. Not for API keys.",
        ]
    ]


class GrantBody(TypedDict):
    grant: Annotated[
        list[str],
        MemberConstraint(max_items=MAX_GRANTS),
        "Capabilities that a person has just granted, as the plugin requests them.",
    ]
    digest: Annotated[
        str,
        MemberConstraint(min_length=1, max_length=256),
        "The `digest` that the person was shown with them; 409 if another version is in use.",
    ]


class EnabledResponseJson(EnabledPluginJson):
    """A plugin that was enabled."""

    trusted_reads: Annotated[list[str], "With `trust_reads`: the tools for which this is new; none if it does not run."]


class PluginRoutes:
    """Routes for installed plugins."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/plugins",
                self.list_plugins,
                "List installed plugins",
                "Every plugin with the `state` of its installation and the `runtime` state of its process. Callers who"
                " are not operators see the plugins that they may call, without these states.",
                query=TENANT_PARAM,
            ),
            ApiRoute(
                "GET",
                "/plugins/{name}",
                self.show_plugin,
                "Show one plugin",
                "Versions, trust, capabilities, callables, and the `runtime` state of its process. Callers who are not"
                " operators see what it is, and the `callables` that they may call.",
                query=TENANT_PARAM,
                error_statuses=(502,),
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/enable",
                self.enable_plugin,
                "Enable a plugin and start it",
                "The state of its process once it runs or has failed, and `warnings`. 403 with the `capabilities` if"
                " the plugin requests more than the tenant granted.",
                query=TENANT_PARAM
                | {
                    "anew": bool_param_spec(
                        "1: in a new process; a running one is stopped first, after its calls in flight."
                    )
                },
                request_body=RequestBody(EnableBody, {"grant": ["net:api.example.com:443"]}),
                error_statuses=(409, 429, 502, 504),
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/plugins/{name}/grant",
                self.show_grant,
                "Show what a tenant grants to a plugin",
                "The capabilities that the plugin requests, those that are missing, and the consent screen.",
                query=TENANT_PARAM,
                error_statuses=(502,),
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/grant",
                self.grant,
                "Grant a plugin what it requests",
                "What the tenant grants to it then. It is not enabled by this; but one that is enabled starts once"
                " nothing is missing, and is checked first as for `enable`. Not for API keys; 400 if the plugin does"
                " not request one of the capabilities.",
                query=TENANT_PARAM,
                request_body=RequestBody(GrantBody, {"grant": ["net:api.example.com:443"], "digest": "sha256:…"}),
                error_statuses=(409, 502),
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/disable",
                self.disable_plugin,
                "Disable a plugin and stop it",
                "The `state` of its installation, once its process has ended.",
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/plugins/{name}/logs",
                self.read_logs,
                "Read the log of a plugin",
                "The last lines, newest last; with `follow`, server-sent events.",
                query=TENANT_PARAM
                | {
                    "lines": int_param_spec(
                        f"Maximum number of lines; {_DEFAULT_LOG_LINES} by default.", _DEFAULT_LOG_LINES, MAX_LOG_LINES
                    ),
                    "follow": bool_param_spec("1: stream new lines as server-sent events."),
                },
                extra_responses=(
                    ExtraResponse(
                        200, EVENT_STREAM, "With `follow`: the last lines and every new one, as events `line`."
                    ),
                ),
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/plugins/{name}/notifications",
                self.follow_notifications,
                "Follow a plugin's notifications",
                "Server-sent events, one per notification.",
                query=TENANT_PARAM,
                media_type=EVENT_STREAM,
                access=OPERATOR,
            ),
        ]

    async def list_plugins(self, request: Request) -> JsonResponse[PluginsJson]:
        context = await call_context(self._host, request)
        if is_tenant_operator(context.principal):
            return JsonResponse({"plugins": await self._host.plugins.inventory.list_all(context.tenant)})
        return JsonResponse({"plugins": await self._host.calls.permitted_plugins.plugins(context)})

    async def show_plugin(self, request: Request) -> JsonResponse[PluginJson | OfferedPluginJson]:
        context = await call_context(self._host, request)
        if is_tenant_operator(context.principal):
            plugin = await self._host.plugins.inventory.show(path_param(request), context.tenant)
            if not HOST.allows(caller_of(request)):
                plugin["source"] = _without_path(plugin["source"])
            return JsonResponse(plugin)
        return JsonResponse(await self._host.calls.permitted_plugins.plugin(path_param(request), context))

    async def enable_plugin(self, request: Request) -> JsonResponse[EnabledResponseJson]:
        if validated_body(request, EnableBody).get("disable_unless_started", False):
            return await respond_until_disconnect(request, self._enable(request))
        return JsonResponse(await self._enable(request))

    async def _enable(self, request: Request) -> EnabledResponseJson:
        body, principal = validated_body(request, EnableBody), caller_of(request).principal
        tenant, trusting = await request_tenant(self._host, request), body.get("trust_reads", False)
        if trusting:
            require_interactive_person(principal)
        enabled = await self._host.plugins.lifecycle.enable(
            path_param(request),
            tenant=tenant,
            acknowledged=parse_own_grants(body, principal),
            anew=bool_param(request, "anew"),
            start=body.get("start", True),
            disable_unless_started=body.get("disable_unless_started", False),
            by=principal.id,
        )
        trusted: list[str] = []
        if trusting and enabled["enabled"] and not enabled["reason"]:
            await self._host.plugins.features.tools(enabled["name"], tenant=tenant, discover=True)
            change = await self._host.plugins.definitions.trust(
                enabled["name"], TrustedWord.READS, None, principal.id, tenant
            )
            trusted = change["tools"]
        return {**enabled, "trusted_reads": trusted}

    async def show_grant(self, request: Request) -> JsonResponse[GrantStateJson]:
        tenant = await request_tenant(self._host, request)
        return _grant_response(request, await self._host.plugins.lifecycle.grant_state(path_param(request), tenant))

    async def grant(self, request: Request) -> JsonResponse[GrantStateJson]:
        body, principal = validated_body(request, GrantBody), require_interactive_person(caller_of(request).principal)
        tenant, capabilities = await request_tenant(self._host, request), parse_own_grants(body, principal)
        return _grant_response(
            request,
            await self._host.plugins.lifecycle.grant(
                path_param(request), capabilities, digest=body["digest"], tenant=tenant, by=principal.id
            ),
        )

    async def disable_plugin(self, request: Request) -> JsonResponse[DisabledPluginJson]:
        tenant = await request_tenant(self._host, request)
        return JsonResponse(
            await self._host.plugins.lifecycle.disable(path_param(request), tenant, by=caller_of(request).principal.id)
        )

    async def read_logs(self, request: Request) -> JsonResponse[LogLinesJson] | Response:
        name, tenant = path_param(request), await request_tenant(self._host, request)
        count = int_param(request, "lines", _DEFAULT_LOG_LINES)
        lines = await self._host.plugins.logs.read_last(
            name, tenant=tenant, lines=count
        )  # raises NotFound before a stream starts
        if bool_param(request, "follow"):
            return event_stream(self._log_lines(name, tenant, count), self._closing)
        return JsonResponse({"name": name, "lines": lines})

    async def _log_lines(self, name: str, tenant: Tenant, count: int) -> AsyncGenerator[ServerSentEvent, None]:
        # Subscribe before reading the stored lines, so that none is missed in between; duplicates are skipped.
        async with aclosing(await self._host.plugins.logs.follow(name, tenant)) as following:
            stored = await self._host.plugins.logs.read_last(name, tenant=tenant, lines=count)
            following.skip_known(one_of_lines(stored))
            for line in stored:
                yield ServerSentEvent(line, "line")
            del stored
            async for line in following:
                yield ServerSentEvent(line, "line")

    async def follow_notifications(self, request: Request) -> Response:
        name, tenant = path_param(request), await request_tenant(self._host, request)
        await self._host.plugins.inventory.show(name, tenant)  # raises NotFound before the stream starts
        return event_stream(self._notifications(name, tenant), self._closing)

    async def _notifications(self, name: str, tenant: Tenant) -> AsyncGenerator[ServerSentEvent, None]:
        async with aclosing(await self._host.plugins.processes.follow_notifications(name, tenant)) as following:
            yield ServerSentEvent({"plugin": name}, "following")  # nothing is missed from here on
            async for notification in following:
                yield ServerSentEvent(notification, "notification")


def _grant_response(request: Request, state: GrantStateJson) -> JsonResponse[GrantStateJson]:
    """Return a grant state without paths of this machine for callers who are not operators of the host."""
    if not HOST.allows(caller_of(request)):
        facts = state["screen"]["facts"]
        facts["source"] = _without_path(facts["source"])
    return JsonResponse(state)


def _without_path(source: str) -> str:
    """Return where a plugin came from without a path: other tenants must not learn paths of this machine."""
    return source.partition(" /")[0]
