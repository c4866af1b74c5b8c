"""Reads a plugin's tools, resources (by URI) and prompts (by name). Servers are queried through the gate."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict, cast

from paddock.core.call import CallContext
from paddock.core.errors import Invalid
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.schema.compile import compile_schema
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.catalogue.documents import PromptOffer
from paddock.gate.gate import Gate
from paddock.plugins.store.thread import StoreThread
from paddock.plugins.tool_pinning.documents import PromptsJson, ResourcesJson, list_prompts, list_resources
from paddock.plugins.tool_pinning.tools import ToolJson, ToolsJson, find_callable, load_tools


class ResourceContentsJson(TypedDict):
    """The contents of a resource, as the plugin's server returns them."""

    contents: Annotated[list[dict[str, Any]], "Each with `uri`, `mimeType`, and `text` or `blob`."]


class FilledPromptJson(TypedDict):
    """A prompt with its arguments filled in, as the plugin's server returns it."""

    messages: Annotated[list[dict[str, Any]], "Each with a `role` and its `content`."]


class PluginFeatures:
    """Reads the tools, resources and prompts of plugins.

    Args:
        views: The plugin store, for reads.
        gate: The gate to the plugins.
        calls: The registry through which calls are made.
    """

    def __init__(self, views: StoreThread, gate: Gate, calls: CallRegistry) -> None:
        self._views = views
        self._gate = gate
        self._calls = calls

    async def tools(self, plugin: str, *, tenant: Tenant = DEFAULT_TENANT, discover: bool = False) -> ToolsJson:
        """List a plugin's `tools`, each with description, input schema, effects and status.

        Args:
            plugin: Its name or an alias.
            tenant: The tenant: each tenant discovers a server's tools separately.
            discover: Start a server that never ran; without this nothing is `known` about it.

        Raises:
            NotFound: it is not installed; or not enabled, where it has to be started.
            PaddockError: it had to be started and failed to run.
        """
        tools = await self._views.run(lambda store: load_tools(store, plugin), tenant)
        if discover and not tools.known:
            await self._gate.ensure_started(tools.name, tenant)
            tools = await self._views.run(lambda store: load_tools(store, plugin), tenant)
        return await asyncio.to_thread(tools.to_value)

    async def find_callable(self, name: str) -> tuple[str, ToolJson]:
        """Return the plugin that a full name begins with, and the callable that the rest names; see `find_callable`."""
        return await self._views.run(lambda store: find_callable(store, name))

    async def resources(self, plugin: str, tenant: Tenant = DEFAULT_TENANT) -> ResourcesJson:
        """List a plugin's `resources`, resource `templates`, and those that are `withheld` from use.

        Nothing is `known` about a server that never ran.

        Raises:
            NotFound: it is not installed.
        """
        resources = await self._views.run(lambda store: list_resources(store, plugin), tenant)
        return resources.resources_to_json()

    async def read_resource(self, plugin: str, uri: str, context: CallContext) -> ResourceContentsJson:
        """Read one resource of a plugin, as `contents`: it must be listed by its server or match one of its templates.

        Raises:
            NotFound: the plugin is not enabled, or offers nothing there.
            PaddockError: see `CallRegistry.call`.
        """
        target = self._gate.catalogue(context.tenant).find_resource(plugin, uri)
        return await self._calls.call(target, {"uri": uri}, context)

    async def prompts(self, plugin: str, tenant: Tenant = DEFAULT_TENANT) -> PromptsJson:
        """List a plugin's `prompts` with their arguments. See `resources`."""
        prompts = await self._views.run(lambda store: list_prompts(store, plugin), tenant)
        return prompts.prompts_to_json()

    async def get_prompt(
        self, plugin: str, name: str, arguments: Mapping[str, Any], context: CallContext
    ) -> FilledPromptJson:
        """Render a prompt as `messages`: by its server, or here where the manifest holds its text.

        Raises:
            NotFound: the plugin is not enabled, or has no such prompt.
            Invalid: the arguments do not match the declared ones; carries every mistake.
            PaddockError: see `CallRegistry.call`.
        """
        found = self._gate.catalogue(context.tenant).find_prompt(plugin, name)
        params = {"name": name, "arguments": dict(arguments)}
        if isinstance(found, CallTarget):
            return await self._calls.call(found, params, context)
        return _render_prompt(plugin, found, params)


def _render_prompt(plugin: str, prompt: PromptOffer, params: dict[str, Any]) -> FilledPromptJson:
    """Render a prompt whose text is in the manifest: this needs no process."""
    problems = compile_schema(prompt.spec.input_schema or {}).errors(params)
    if problems:
        raise Invalid(
            f"the parameters of {plugin} {params['name']} are not valid",
            problems,
            code="invalid_params",
            details={"plugin": plugin},
        )
    return cast("FilledPromptJson", prompt.render(params["arguments"]))
