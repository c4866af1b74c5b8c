"""Resources and prompts under client-facing URIs and names.

A resource keeps the URI that its plugin gave it. If two plugins use the same URI, it is ambiguous:
`paddock://PLUGIN/URI` names one of them, and works for every other resource too. That scheme is reserved: a plugin's
own URI that starts with it is prefixed like the ambiguous ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, cast

from paddock.core.errors import NotFound, PaddockError
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.host.host import Host
from paddock.mcp_server.catalogue import CallerCatalogue, PromptTarget
from paddock.mcp_server.exchange import McpExchange
from paddock.plugins.tool_pinning.normalize import printable_name
from paddock.rpc.errors import INVALID_PARAMS, RpcError

PLUGIN_URI_PREFIX: Final = "paddock://"
MAX_COMPLETIONS: Final = 100  # limit of the protocol


CallDocument: TypeAlias = Callable[[McpExchange, str, CallTarget, dict[str, Any]], Awaitable[Any]]
"""Reads a document or a prompt. The text is the client's name of it."""


class McpResources:
    """Lists and reads resources and prompts.

    Args:
        host: Lists them.
        call: Reads them through the gate.
    """

    def __init__(self, host: Host, call: CallDocument) -> None:
        self._host = host
        self._call = call

    # --- documents ----------------------------------------------------------------------------------------------------

    async def list_resources(self, catalogue: CallerCatalogue, tenant: Tenant) -> dict[str, dict[str, Any]]:
        """Return every resource that a caller may read, by client-facing URI."""
        resources: dict[str, dict[str, Any]] = {}
        for plugin, resource in await self._list_from_plugins(catalogue, tenant, "resources"):
            uri = resource["uri"]
            client_uri = (
                _plugin_uri(plugin, uri)
                if uri.startswith(PLUGIN_URI_PREFIX) or printable_name(uri) in catalogue.tenant_catalogue.ambiguous_uris
                else uri
            )
            resources[client_uri] = {**resource, "uri": client_uri}
        return resources

    async def list_templates(self, catalogue: CallerCatalogue, tenant: Tenant) -> dict[str, dict[str, Any]]:
        """Return the resource templates, by client-facing URI template."""
        templates: dict[str, dict[str, Any]] = {}
        listed = await self._list_from_plugins(catalogue, tenant, "templates")
        all_templates = [definition["uriTemplate"] for _, definition in listed]
        for plugin, definition in listed:
            template = definition["uriTemplate"]
            client_template = (
                _plugin_uri(plugin, template)
                if template.startswith(PLUGIN_URI_PREFIX) or all_templates.count(template) > 1
                else template
            )
            templates[client_template] = {**definition, "uriTemplate": client_template}
        return templates

    async def _list_from_plugins(
        self, catalogue: CallerCatalogue, tenant: Tenant, kind: Literal["resources", "templates"]
    ) -> list[tuple[str, dict[str, Any]]]:
        items: list[tuple[str, dict[str, Any]]] = []
        uri_field = "uri" if kind == "resources" else "uriTemplate"
        for plugin in sorted(catalogue.readers):
            try:
                listed = (await self._host.plugins.features.resources(plugin, tenant))[kind]
            except NotFound:
                continue  # the plugin is being removed
            items += [(plugin, one) for one in listed if isinstance(one.get(uri_field), str)]
        return items

    async def read_resource(self, exchange: McpExchange, catalogue: CallerCatalogue, uri: str) -> dict[str, Any]:
        """Read one resource.

        Raises:
            RpcError: no plugin has it, or several do.
            PaddockError: see `PluginFeatures.read_resource`.
        """
        plugin, own_uri = self.resolve_uri(exchange, catalogue, uri)
        target = catalogue.tenant_catalogue.catalogue.find_resource(plugin, own_uri)
        result = await self._call(exchange, f"resource:{uri}", target, {"uri": own_uri})
        if own_uri == uri:
            return result
        contents = cast("list[Any]", result["contents"])
        return {**result, "contents": [_with_plugin_uri(content, plugin) for content in contents]}

    def resolve_uri(self, exchange: McpExchange, catalogue: CallerCatalogue, uri: str) -> tuple[str, str]:
        """Return the plugin that has a resource, and the plugin's own URI of it.

        Raises:
            RpcError: no plugin has it, or several do.
        """
        if uri.startswith(PLUGIN_URI_PREFIX):
            plugin, _, own_uri = uri.removeprefix(PLUGIN_URI_PREFIX).partition("/")
            if plugin in catalogue.readers:
                return plugin, own_uri
        installed = catalogue.tenant_catalogue.catalogue
        owners = [plugin for plugin in sorted(catalogue.readers) if _has_resource(installed, plugin, uri)]
        if not owners:
            raise RpcError(exchange.revision.not_found_code, "Resource not found", {"uri": printable(uri, 2_000)})
        if len(owners) > 1:
            alternatives = " or ".join(_plugin_uri(plugin, uri) for plugin in owners)
            raise RpcError(
                INVALID_PARAMS, f"{' and '.join(owners)} both have it: read {printable(alternatives, 2_000)}"
            )
        return owners[0], uri

    # --- prompts ------------------------------------------------------------------------------------------------------

    async def list_prompts(self, catalogue: CallerCatalogue, tenant: Tenant) -> dict[str, dict[str, Any]]:
        """Return every prompt that a caller may use, by client-facing name."""
        names = {(one.plugin, one.name): name for name, one in catalogue.prompts.items()}
        prompts: dict[str, dict[str, Any]] = {}
        for plugin in sorted({one.plugin for one in catalogue.prompts.values()}):
            try:
                listed = (await self._host.plugins.features.prompts(plugin, tenant))["prompts"]
            except NotFound:
                continue
            for prompt in listed:
                name = names.get((plugin, prompt.get("name", "")))
                if name is not None:
                    prompts[name] = {**prompt, "name": name}
        return prompts

    async def get_prompt(
        self, exchange: McpExchange, catalogue: CallerCatalogue, name: Any, arguments: Any
    ) -> dict[str, Any]:
        """Return a prompt with its arguments filled in.

        Raises:
            RpcError: it does not exist.
            PaddockError: see `PluginFeatures.get_prompt`.
        """
        prompt = self._find_prompt(catalogue, name)
        prompt_arguments = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
        if prompt.target is None:
            filled = await self._host.plugins.features.get_prompt(
                prompt.plugin, prompt.name, prompt_arguments, exchange.context
            )
            return {**filled}
        params = {"name": prompt.name, "arguments": prompt_arguments}
        return await self._call(exchange, f"prompt:{name}", prompt.target, params)

    def _find_prompt(self, catalogue: CallerCatalogue, name: Any) -> PromptTarget:
        prompt = catalogue.prompts.get(name) if isinstance(name, str) else None
        if prompt is None:
            raise RpcError(INVALID_PARAMS, f"Unknown prompt: {printable(str(name), 80)}")
        return prompt

    # --- what arguments may be ----------------------------------------------------------------------------------------

    async def complete_argument(
        self, exchange: McpExchange, catalogue: CallerCatalogue, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return completions for an argument of a prompt or template.

        Empty if its server offers none, or if a person would have to approve the call first.

        Raises:
            RpcError: there is no such prompt or template.
        """
        plugin, ref = await self._resolve_reference(exchange, catalogue, params.get("ref"))
        argument = params.get("argument")
        if not isinstance(argument, dict):
            raise RpcError(INVALID_PARAMS, "`argument` is not an object")
        entry = catalogue.tenant_catalogue.catalogue.entry(plugin)
        if not entry.dynamic:
            return {"values": []}
        target = catalogue.tenant_catalogue.catalogue.completion_target(plugin)
        permitted = await self._host.calls.callable_access.permitted(exchange.context, (target,))
        if not permitted or permitted[0].needs_approval:
            return {"values": []}
        call_params: dict[str, Any] = {"ref": ref, "argument": argument}
        if isinstance(params.get("context"), dict):
            call_params["context"] = params["context"]
        try:
            result = await self._host.calls.callable_access.call(target, call_params, exchange.context)
        except PaddockError:
            return {"values": []}  # most servers do not support completion
        completion = cast("dict[str, Any]", result["completion"])
        return {**completion, "values": completion.get("values", [])[:MAX_COMPLETIONS]}

    async def _resolve_reference(
        self, exchange: McpExchange, catalogue: CallerCatalogue, ref: Any
    ) -> tuple[str, dict[str, Any]]:
        """Return the plugin that a reference points to, and the reference in the plugin's own terms."""
        fields = cast("dict[str, Any]", ref) if isinstance(ref, dict) else {}
        match fields.get("type"):
            case "ref/prompt":
                prompt = self._find_prompt(catalogue, fields.get("name"))
                return prompt.plugin, {"type": "ref/prompt", "name": prompt.name}
            case "ref/resource" if isinstance(fields.get("uri"), str):
                uri = cast("str", fields["uri"])
                for plugin, template in await self._list_from_plugins(catalogue, exchange.context.tenant, "templates"):
                    if uri in (template["uriTemplate"], _plugin_uri(plugin, template["uriTemplate"])):
                        return plugin, {"type": "ref/resource", "uri": template["uriTemplate"]}
                plugin, own_uri = self.resolve_uri(exchange, catalogue, uri)
                return plugin, {"type": "ref/resource", "uri": own_uri}
            case _:
                raise RpcError(INVALID_PARAMS, "`ref` is to neither a prompt nor a resource")


def _plugin_uri(plugin: str, uri: str) -> str:
    return f"{PLUGIN_URI_PREFIX}{plugin}/{uri}"


def _with_plugin_uri(content: Any, plugin: str) -> Any:
    """Return a content item with its client-facing URI."""
    if not isinstance(content, dict):
        return content
    fields = cast("dict[str, Any]", content)
    uri = fields.get("uri")
    return {**fields, "uri": _plugin_uri(plugin, uri)} if isinstance(uri, str) else fields


def _has_resource(catalogue: Catalogue, plugin: str, uri: str) -> bool:
    try:
        catalogue.find_resource(plugin, uri)
    except PaddockError:
        return False
    return True
