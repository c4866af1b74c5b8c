"""`/plugins/{name}/tools`, `…/resources`, `…/prompts` and `…/definitions`: the features that a plugin offers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from paddock.api.plugin_schemas import ACCEPT_BODY, PROMPT_BODY
from paddock.gate.invocation import CallCancelled
from paddock.host.host import Host
from paddock.web.disconnect import client_connection
from paddock.web.request_context import call_context, is_tenant_operator, request_tenant
from paddock.web.routing.route import OPERATOR, TENANT_PARAM, ApiRoute, json_response, path_param
from paddock.web.routing.schema import ref
from paddock.web.routing.validation import ParameterSpec, validated_body
from paddock.web.security.authenticate import caller_of
from paddock.web.security.cookies import require_same_origin

_URI_PARAM = ParameterSpec(
    "Its address: one that is listed, or that fits a template.", {"type": "string", "minLength": 1}, required=True
)
_WITHHELD_TEXT = (
    "`withheld`, with why. `known` is false for a server that never ran. Whoever is no operator is not told of what the"
    " rules keep from them."
)


class FeatureRoutes:
    """Routes that list tools, resources and prompts, and read them."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/plugins/{name}/tools",
                self.list_tools,
                "List what a plugin can be asked to do",
                "`tools`: each with the name to `call` it by, its `description`, its `parameters` in words, both"
                " schemas, its `effects` and its `standing`; as its manifest declares it, or as its server said when it"
                " last ran. `known` is false for a server that never ran.",
                query=TENANT_PARAM,
                response_schema=ref("Tools"),
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/tools/meet",
                self.meet_tools,
                "Start a server that never ran, to hear what it offers",
                "As `GET /plugins/{name}/tools`; one that has said what it offers is not started.",
                query=TENANT_PARAM,
                response_schema=ref("Tools"),
                error_statuses=(409, 429, 502, 504),
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/plugins/{name}/resources",
                self.list_resources,
                "List the documents of a plugin",
                f"`resources` and `templates`, as its server describes them and somebody accepted it; {_WITHHELD_TEXT}",
                query=TENANT_PARAM,
                response_schema=ref("Resources"),
            ),
            ApiRoute(
                "GET",
                "/plugins/{name}/resources/read",
                self.read_resource,
                "Read a document of a plugin",
                "`contents`, as its server gives them: each with `uri`, `mimeType`, and `text` or `blob`.",
                query=TENANT_PARAM | {"uri": _URI_PARAM},
                response_schema=ref("ResourceContents"),
                error_statuses=(409, 429, 502, 504),
                allow_impersonation=True,
            ),
            ApiRoute(
                "GET",
                "/plugins/{name}/prompts",
                self.list_prompts,
                "List the prompts of a plugin",
                f"`prompts` with their `arguments`; {_WITHHELD_TEXT}",
                query=TENANT_PARAM,
                response_schema=ref("Prompts"),
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/prompts/{prompt:path}",
                self.get_prompt,
                "Fill a prompt in",
                "`messages`, each with a `role` and its `content`.",
                query=TENANT_PARAM,
                body_description="`arguments`: a text for each argument.",
                request_schema=PROMPT_BODY,
                response_schema=ref("FilledPrompt"),
                error_statuses=(409, 429, 502, 504),
                allow_impersonation=True,
            ),
        ]

    async def list_tools(self, request: Request) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        if is_tenant_operator(context.principal):
            return json_response(await self._host.plugins.features.tools(name, tenant=context.tenant))
        permitted = await self._host.calls.permitted_plugins.callable_names(name, context)
        listed = await self._host.plugins.features.tools(name, tenant=context.tenant)
        return json_response(listed | {"tools": [tool for tool in listed["tools"] if tool["name"] in permitted]})

    async def meet_tools(self, request: Request) -> Response:
        tenant = (await call_context(self._host, request)).tenant
        return await _until_disconnect(
            request, self._host.plugins.features.tools(path_param(request), tenant=tenant, discover=True)
        )

    async def list_resources(self, request: Request) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        allowed = is_tenant_operator(context.principal) or await self._host.calls.permitted_plugins.may_read_documents(
            name, context
        )
        listed = await self._host.plugins.features.resources(name, context.tenant)
        return json_response(listed if allowed else listed | {"resources": [], "templates": [], "withheld": []})

    async def list_prompts(self, request: Request) -> Response:
        context, name, permitted_plugins = (
            await call_context(self._host, request),
            path_param(request),
            self._host.calls.permitted_plugins,
        )
        if is_tenant_operator(context.principal):
            return json_response(await self._host.plugins.features.prompts(name, context.tenant))
        await permitted_plugins.plugin(name, context)  # raises NotFound if the tenant does not have it
        listed = await self._host.plugins.features.prompts(name, context.tenant)
        permitted = [
            prompt
            for prompt in listed["prompts"]
            if await permitted_plugins.may_get_prompt(name, prompt["name"], context)
        ]
        return json_response(listed | {"prompts": permitted})

    async def read_resource(self, request: Request) -> Response:
        require_same_origin(request)
        uri = request.query_params["uri"]
        reading = self._host.plugins.features.read_resource(
            path_param(request), uri, await call_context(self._host, request)
        )
        return await _until_disconnect(request, reading)

    async def get_prompt(self, request: Request) -> Response:
        arguments = validated_body(request).get("arguments", {})
        reading = self._host.plugins.features.get_prompt(
            path_param(request),
            path_param(request, "prompt"),
            arguments,
            context=await call_context(self._host, request),
        )
        return await _until_disconnect(request, reading)


async def _until_disconnect(request: Request, reading: Coroutine[Any, Any, dict[str, Any]]) -> Response:
    """Await a request to a server and render its result; it is cancelled when the client disconnects."""
    task = asyncio.ensure_future(reading)
    try:
        with client_connection(request.scope).on_disconnect(task.cancel):
            await asyncio.wait({task})
        if task.cancelled():
            raise CallCancelled("nobody waits for it any more")
        return json_response(task.result())
    finally:
        task.cancel()  # no effect if it is done


class DefinitionRoutes:
    """Routes that show pinned tool definitions and accept changed ones."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/plugins/{name}/definitions",
                self.show_definitions,
                "Show what a plugin's server says of itself",
                "Every tool, prompt and resource, and its instructions: each with `standing`, `hash`, and for one that"
                " waits `waiting_hash` and the `difference` from what was accepted, line by line. `tools` is what"
                " `GET /plugins/{name}/tools` gives.",
                query=TENANT_PARAM,
                response_schema=ref("Definitions"),
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/definitions/waiting",
                self.list_waiting,
                "List definitions that wait for acceptance",
                "`waiting`: of all plugins, each as `GET /plugins/{name}/definitions` shows it without `difference`.",
                query=TENANT_PARAM,
                response_schema=ref("WaitingDefinitions"),
                tag="plugins",
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/definitions/accept",
                self.accept_definition,
                "Accept what a server says now of one thing it offers",
                "The definition, which is used from now on. 409 where the server has changed it since it was shown.",
                query=TENANT_PARAM,
                access=OPERATOR,
                body_description="`kind` and `name` of the definition; `hash`: the `waiting_hash` that you were shown.",
                request_schema=ACCEPT_BODY,
                response_schema=ref("AcceptedDefinition"),
                error_statuses=(409,),
            ),
        ]

    async def show_definitions(self, request: Request) -> Response:
        name, tenant = path_param(request), await request_tenant(self._host, request)
        definitions, listed = (
            await self._host.plugins.definitions.list_definitions(name, tenant),
            await self._host.plugins.features.tools(name, tenant=tenant),
        )
        return json_response({"name": listed["name"], "definitions": definitions, "tools": listed["tools"]})

    async def list_waiting(self, request: Request) -> Response:
        tenant = await request_tenant(self._host, request)
        return json_response({"waiting": await self._host.plugins.definitions.list_waiting(tenant)})

    async def accept_definition(self, request: Request) -> Response:
        body = validated_body(request)
        principal_id = caller_of(request).principal.id
        tenant = await request_tenant(self._host, request)
        accepted = await self._host.plugins.definitions.accept(
            path_param(request), body["kind"], body["name"], body["hash"], principal_id, tenant
        )
        return json_response(accepted)
