"""`/plugins/{name}/tools`, `…/resources`, `…/prompts` and `…/definitions`: the features that a plugin offers."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from starlette.requests import Request

from paddock.api.cancellable_response import respond_until_disconnect
from paddock.core.errors import Invalid, Problem
from paddock.core.schema_annotations import MemberConstraint
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.host.plugins.discovery import PluginDefinitionJson, TrustChangeJson
from paddock.host.plugins.features import FilledPromptJson, ResourceContentsJson
from paddock.plugins.tool_pinning.accept import DefinitionReviewJson
from paddock.plugins.tool_pinning.documents import PromptsJson, ResourcesJson
from paddock.plugins.tool_pinning.normalize import MAX_DEFINITIONS
from paddock.plugins.tool_pinning.tool_trust import TrustedWord
from paddock.plugins.tool_pinning.tools import ToolJson, ToolsJson
from paddock.web.request_context import call_context, is_tenant_operator, request_tenant
from paddock.web.routing.route import OPERATOR, TENANT_PARAM, ApiRoute, JsonResponse, RequestBody, path_param
from paddock.web.routing.validation import ParameterSpec, validated_body
from paddock.web.security.authenticate import caller_of
from paddock.web.security.cookies import require_same_origin

_URI_PARAM = ParameterSpec(
    "Its URI: a listed one, or one that matches a template.", {"type": "string", "minLength": 1}, required=True
)
_WITHHELD_TEXT = "those `withheld`, with the reason. Callers who are not operators do not see what policy denies them."


class DefinitionsJson(TypedDict):
    name: str
    definitions: list[DefinitionReviewJson]
    tools: list[ToolJson]


class WaitingDefinitionsJson(TypedDict):
    waiting: list[PluginDefinitionJson]


class PromptBody(TypedDict):
    arguments: NotRequired[Annotated[dict[str, Any], "A text for each argument."]]


class AcceptDefinitionBody(TypedDict):
    kind: Annotated[str, "The kind of the definition."]
    name: Annotated[str, "Its name."]
    hash: Annotated[str, "The `waiting_hash` of the definition that was reviewed."]


class TrustBody(TypedDict):
    word: Annotated[
        TrustedWord,
        "`reads`: that tools only read, as they say. `errors`: that an error which they answer means that nothing was"
        " done.",
    ]
    trusted: Annotated[bool, "Whether it is believed from now on."]
    tools: NotRequired[
        Annotated[
            list[str],
            MemberConstraint(max_items=MAX_DEFINITIONS),
            "The tools. For `reads`, all that say so by default; to withdraw, all of which it is believed.",
        ]
    ]
    shown: NotRequired[
        Annotated[dict[str, str], "The hashes of the definitions that the person saw, by tool; 409 if one differs."]
    ]


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
                "List the tools of a plugin",
                "The tools that its manifest declares, or that its server listed when it last ran.",
                query=TENANT_PARAM,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/tools/meet",
                self.meet_tools,
                "Start a server that never ran, to list its tools",
                "As `GET /plugins/{name}/tools`. A server that has listed its tools before is not started.",
                query=TENANT_PARAM,
                error_statuses=(409, 429, 502, 504),
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/plugins/{name}/resources",
                self.list_resources,
                "List the resources of a plugin",
                f"The accepted `resources` and `templates` of its server, and {_WITHHELD_TEXT}",
                query=TENANT_PARAM,
            ),
            ApiRoute(
                "GET",
                "/plugins/{name}/resources/read",
                self.read_resource,
                "Read a resource of a plugin",
                "The `contents`, as its server returns them.",
                query=TENANT_PARAM | {"uri": _URI_PARAM},
                error_statuses=(409, 429, 502, 504),
                allow_impersonation=True,
            ),
            ApiRoute(
                "GET",
                "/plugins/{name}/prompts",
                self.list_prompts,
                "List the prompts of a plugin",
                f"`prompts` with their `arguments`, and {_WITHHELD_TEXT}",
                query=TENANT_PARAM,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/prompts/{prompt:path}",
                self.get_prompt,
                "Fill a prompt in",
                "The `messages` of the prompt.",
                query=TENANT_PARAM,
                request_body=RequestBody(PromptBody, {"arguments": {"who": "Ann"}}),
                error_statuses=(409, 429, 502, 504),
                allow_impersonation=True,
            ),
        ]

    async def list_tools(self, request: Request) -> JsonResponse[ToolsJson]:
        context, name = await call_context(self._host, request), path_param(request)
        if is_tenant_operator(context.principal):
            return JsonResponse(await self._host.plugins.features.tools(name, tenant=context.tenant))
        permitted = await self._host.calls.permitted_plugins.callable_names(name, context)
        listed = await self._host.plugins.features.tools(name, tenant=context.tenant)
        listed["tools"] = [tool for tool in listed["tools"] if tool["name"] in permitted]
        marks = listed["read_marks"]
        marks["trusted"] = [tool for tool in marks["trusted"] if tool in permitted]
        marks["untrusted"] = {tool: shown for tool, shown in marks["untrusted"].items() if tool in permitted}
        return JsonResponse(listed)

    async def meet_tools(self, request: Request) -> JsonResponse[ToolsJson]:
        tenant = (await call_context(self._host, request)).tenant
        return await respond_until_disconnect(
            request, self._host.plugins.features.tools(path_param(request), tenant=tenant, discover=True)
        )

    async def list_resources(self, request: Request) -> JsonResponse[ResourcesJson]:
        context, name = await call_context(self._host, request), path_param(request)
        allowed = is_tenant_operator(context.principal) or await self._host.calls.permitted_plugins.may_read_documents(
            name, context
        )
        listed = await self._host.plugins.features.resources(name, context.tenant)
        if not allowed:
            listed["resources"], listed["templates"], listed["withheld"] = [], [], []
        return JsonResponse(listed)

    async def list_prompts(self, request: Request) -> JsonResponse[PromptsJson]:
        context, name, permitted_plugins = (
            await call_context(self._host, request),
            path_param(request),
            self._host.calls.permitted_plugins,
        )
        if is_tenant_operator(context.principal):
            return JsonResponse(await self._host.plugins.features.prompts(name, context.tenant))
        await permitted_plugins.plugin(name, context)  # raises NotFound if the tenant does not have it
        listed = await self._host.plugins.features.prompts(name, context.tenant)
        permitted = [
            prompt
            for prompt in listed["prompts"]
            if await permitted_plugins.may_get_prompt(name, prompt["name"], context)
        ]
        listed["prompts"] = permitted
        return JsonResponse(listed)

    async def read_resource(self, request: Request) -> JsonResponse[ResourceContentsJson]:
        require_same_origin(request)
        uri = request.query_params["uri"]
        reading = self._host.plugins.features.read_resource(
            path_param(request), uri, await call_context(self._host, request)
        )
        return await respond_until_disconnect(request, reading)

    async def get_prompt(self, request: Request) -> JsonResponse[FilledPromptJson]:
        arguments = validated_body(request, PromptBody).get("arguments", {})
        reading = self._host.plugins.features.get_prompt(
            path_param(request),
            path_param(request, "prompt"),
            arguments,
            context=await call_context(self._host, request),
        )
        return await respond_until_disconnect(request, reading)


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
                "Show the definitions of a plugin's server",
                "Every tool, prompt and resource, and its instructions, each with its difference from the accepted"
                " definition. `tools` as in `GET /plugins/{name}/tools`.",
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/definitions/waiting",
                self.list_waiting,
                "List definitions that wait for acceptance",
                "`waiting`: of all plugins, each as `GET /plugins/{name}/definitions` shows it without `difference`.",
                query=TENANT_PARAM,
                tag="plugins",
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/definitions/accept",
                self.accept_definition,
                "Accept a changed definition",
                "The definition, which is in use from now on. 409 if the server has changed it since it was shown.",
                query=TENANT_PARAM,
                access=OPERATOR,
                request_body=RequestBody(
                    AcceptDefinitionBody, {"kind": "tool", "name": "search", "hash": "sha256:1f2e…"}
                ),
                error_statuses=(409,),
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/trust",
                self.change_trust,
                "Take a plugin's word for its tools",
                "The tools for which this is new. It holds for the version in use and for the tools as they are defined"
                " now. Needs a signed-in person, not an API key.",
                query=TENANT_PARAM,
                access=OPERATOR,
                request_body=RequestBody(TrustBody, {"word": "reads", "trusted": True}),
                error_statuses=(409,),
                needs_person=True,
            ),
        ]

    async def change_trust(self, request: Request) -> JsonResponse[TrustChangeJson]:
        body, name = validated_body(request, TrustBody), path_param(request)
        person = require_interactive_person(caller_of(request).principal).id
        tenant, word, tools = await request_tenant(self._host, request), TrustedWord(body["word"]), body.get("tools")
        definitions = self._host.plugins.definitions
        if not body["trusted"]:
            return JsonResponse(await definitions.distrust(name, word, tools, person, tenant))
        if word is TrustedWord.ERRORS and tools is None:
            raise Invalid(
                "the body is not valid",
                [Problem("tools", "is missing", "name the tools whose errors mean that nothing was done", "required")],
                code="invalid_params",
            )
        return JsonResponse(await definitions.trust(name, word, tools, person, tenant, shown=body.get("shown")))

    async def show_definitions(self, request: Request) -> JsonResponse[DefinitionsJson]:
        name, tenant = path_param(request), await request_tenant(self._host, request)
        definitions, listed = (
            await self._host.plugins.definitions.list_definitions(name, tenant),
            await self._host.plugins.features.tools(name, tenant=tenant),
        )
        return JsonResponse({"name": listed["name"], "definitions": definitions, "tools": listed["tools"]})

    async def list_waiting(self, request: Request) -> JsonResponse[WaitingDefinitionsJson]:
        tenant = await request_tenant(self._host, request)
        return JsonResponse({"waiting": await self._host.plugins.definitions.list_waiting(tenant)})

    async def accept_definition(self, request: Request) -> JsonResponse[PluginDefinitionJson]:
        body = validated_body(request, AcceptDefinitionBody)
        principal_id = caller_of(request).principal.id
        tenant = await request_tenant(self._host, request)
        accepted = await self._host.plugins.definitions.accept(
            path_param(request), body["kind"], body["name"], body["hash"], principal_id, tenant
        )
        return JsonResponse(accepted)
