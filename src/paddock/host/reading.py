"""Reading what plugins have: tools, documents by their address, prompts by name. Servers are asked through the gate."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from paddock.core.call import CallContext
from paddock.core.errors import Invalid
from paddock.core.ids import Tenant
from paddock.core.schema import compile_schema
from paddock.gate.catalogue import Target
from paddock.gate.documents import OfferedPrompt
from paddock.gate.gate import Gate
from paddock.plugins.definitions.documents import prompts_of, resources_of
from paddock.plugins.definitions.tools import tools_of
from paddock.plugins.store_thread import StoreThread


class Reading:
    """The documents and prompts of plugins.

    Args:
        views: The rows, for looking.
        gate: The one door to the plugins themselves.
    """

    def __init__(self, views: StoreThread, gate: Gate) -> None:
        self._views = views
        self._gate = gate

    async def tools(self, plugin: str, tenant: Tenant, *, meet: bool) -> dict[str, Any]:
        listed = await self._views.run(lambda store: tools_of(store, plugin), tenant)
        if meet and not listed.known:
            await self._gate.meet(listed.name, tenant)
            listed = await self._views.run(lambda store: tools_of(store, plugin), tenant)
        return await asyncio.to_thread(listed.to_value)

    async def resources(self, plugin: str, tenant: Tenant) -> dict[str, Any]:
        listed = await self._views.run(lambda store: resources_of(store, plugin), tenant)
        return listed.to_value()

    async def prompts(self, plugin: str, tenant: Tenant) -> dict[str, Any]:
        listed = await self._views.run(lambda store: prompts_of(store, plugin), tenant)
        return listed.to_value()

    async def read_resource(self, plugin: str, uri: str, context: CallContext) -> dict[str, Any]:
        target = self._gate.catalogue(context.tenant).resource(plugin, uri)
        return await self._gate.call(target, {"uri": uri}, context)

    async def get_prompt(
        self, plugin: str, name: str, arguments: Mapping[str, Any], context: CallContext
    ) -> dict[str, Any]:
        found = self._gate.catalogue(context.tenant).prompt(plugin, name)
        asked = {"name": name, "arguments": dict(arguments)}
        if isinstance(found, Target):
            return await self._gate.call(found, asked, context)
        return _filled(plugin, found, asked)


def _filled(plugin: str, prompt: OfferedPrompt, asked: dict[str, Any]) -> dict[str, Any]:
    """A prompt whose text the manifest gives: no process is needed for it."""
    problems = compile_schema(prompt.spec.input_schema or {}).errors(asked)
    if problems:
        raise Invalid(
            f"the parameters of {plugin} {asked['name']} are not valid",
            problems,
            code="invalid_params",
            details={"plugin": plugin},
        )
    return prompt.filled(asked["arguments"])
