"""Documents and prompts, under the addresses and names that clients use.

A document keeps the address that its plugin gave it. Where two plugins have the same one, neither is meant by it:
`paddock://PLUGIN/ADDRESS` says which, and is understood for every other document too. No plugin has such an address for
its own: what it calls so itself stands behind its name like the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from paddock.core.errors import NotFound, PaddockError
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.host.host import Host
from paddock.mcp_server.catalog import CallerCatalog, PromptTarget
from paddock.mcp_server.exchange import McpExchange
from paddock.plugins.tool_pinning.normalize import printable_name
from paddock.rpc.errors import INVALID_PARAMS, RpcError

PLUGIN_URI_PREFIX: Final = "paddock://"
MAX_COMPLETIONS: Final = 100  # in a completion, as the protocol has it


class McpResources:
    """Everything to read.

    Args:
        host: Knows it, and has it read through the one door.
    """

    def __init__(self, host: Host) -> None:
        self._host = host

    # --- documents ----------------------------------------------------------------------------------------------------

    async def list_resources(self, shelf: CallerCatalog, tenant: Tenant) -> dict[str, dict[str, Any]]:
        """Every document that a caller may read, by the address that it has here."""
        found: dict[str, dict[str, Any]] = {}
        for plugin, one in await self._list_from_plugins(shelf, tenant, "resources"):
            uri = one["uri"]
            shown = (
                _plugin_uri(plugin, uri)
                if uri.startswith(PLUGIN_URI_PREFIX) or printable_name(uri) in shelf.tenant_catalog.ambiguous_uris
                else uri
            )
            found[shown] = {**one, "uri": shown}
        return found

    async def list_templates(self, shelf: CallerCatalog, tenant: Tenant) -> dict[str, dict[str, Any]]:
        """The templates of documents that have no address of their own."""
        found: dict[str, dict[str, Any]] = {}
        listed = await self._list_from_plugins(shelf, tenant, "templates")
        every = [one["uriTemplate"] for _, one in listed]
        for plugin, one in listed:
            template = one["uriTemplate"]
            shown = (
                _plugin_uri(plugin, template)
                if template.startswith(PLUGIN_URI_PREFIX) or every.count(template) > 1
                else template
            )
            found[shown] = {**one, "uriTemplate": shown}
        return found

    async def _list_from_plugins(
        self, shelf: CallerCatalog, tenant: Tenant, kind: str
    ) -> list[tuple[str, dict[str, Any]]]:
        found: list[tuple[str, dict[str, Any]]] = []
        address = "uri" if kind == "resources" else "uriTemplate"
        for plugin in sorted(shelf.readers):
            try:
                listed = (await self._host.resources(plugin, tenant))[kind]
            except NotFound:
                continue  # it is being removed
            fields = (cast("dict[str, Any]", one) for one in listed if isinstance(one, dict))
            found += [(plugin, one) for one in fields if isinstance(one.get(address), str)]
        return found

    async def read_resource(self, exchange: McpExchange, shelf: CallerCatalog, uri: str) -> dict[str, Any]:
        """One document.

        Raises:
            RpcFault: nobody has it, or several do.
            PaddockError: see `Host.read_resource`.
        """
        plugin, own = self.resolve_uri(exchange, shelf, uri)
        target = shelf.tenant_catalog.catalogue.find_resource(plugin, own)
        asker = exchange.question_handler(plugin)
        found = await self._host.callable_access.call(target, {"uri": own}, exchange.context, ask=asker)
        if own == uri:
            return found
        contents = cast("list[Any]", found["contents"])
        return {**found, "contents": [_with_plugin_uri(one, plugin) for one in contents]}

    def resolve_uri(self, exchange: McpExchange, shelf: CallerCatalog, uri: str) -> tuple[str, str]:
        """The plugin that has a document, and its address there.

        Raises:
            RpcFault: nobody has it, or several do.
        """
        if uri.startswith(PLUGIN_URI_PREFIX):
            plugin, _, own = uri.removeprefix(PLUGIN_URI_PREFIX).partition("/")
            if plugin in shelf.readers:
                return plugin, own
        catalogue = shelf.tenant_catalog.catalogue
        owners = [plugin for plugin in sorted(shelf.readers) if _has_resource(catalogue, plugin, uri)]
        if not owners:
            raise RpcError(exchange.revision.not_found_code, "Resource not found", {"uri": printable(uri, 2_000)})
        if len(owners) > 1:
            which = " or ".join(_plugin_uri(plugin, uri) for plugin in owners)
            raise RpcError(INVALID_PARAMS, f"{' and '.join(owners)} both have it: read {printable(which, 2_000)}")
        return owners[0], uri

    # --- prompts ------------------------------------------------------------------------------------------------------

    async def list_prompts(self, shelf: CallerCatalog, tenant: Tenant) -> dict[str, dict[str, Any]]:
        """Every prompt that a caller may have, by the name that it has here."""
        names = {(one.plugin, one.name): name for name, one in shelf.prompts.items()}
        found: dict[str, dict[str, Any]] = {}
        for plugin in sorted({one.plugin for one in shelf.prompts.values()}):
            try:
                listed = (await self._host.prompts(plugin, tenant))["prompts"]
            except NotFound:
                continue
            for one in listed:
                name = names.get((plugin, one.get("name", "")))
                if name is not None:
                    found[name] = {**one, "name": name}
        return found

    async def get_prompt(
        self, exchange: McpExchange, shelf: CallerCatalog, name: Any, arguments: Any
    ) -> dict[str, Any]:
        """A prompt with its arguments filled in.

        Raises:
            RpcFault: there is none.
            PaddockError: see `Host.get_prompt`.
        """
        found = self._find_prompt(shelf, name)
        given = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
        if found.target is None:
            return await self._host.get_prompt(found.plugin, found.name, given, context=exchange.context)
        asked = {"name": found.name, "arguments": given}
        asker = exchange.question_handler(found.plugin)
        return await self._host.callable_access.call(found.target, asked, exchange.context, ask=asker)

    def _find_prompt(self, shelf: CallerCatalog, name: Any) -> PromptTarget:
        found = shelf.prompts.get(name) if isinstance(name, str) else None
        if found is None:
            raise RpcError(INVALID_PARAMS, f"Unknown prompt: {printable(str(name), 80)}")
        return found

    # --- what arguments may be ----------------------------------------------------------------------------------------

    async def complete_argument(
        self, exchange: McpExchange, shelf: CallerCatalog, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What an argument of a prompt or template may be. Nothing where its server cannot guess, or where a person
        would have to be asked first.

        Raises:
            RpcFault: there is no such prompt or template.
        """
        plugin, ref = await self._resolve_reference(exchange, shelf, params.get("ref"))
        argument = params.get("argument")
        if not isinstance(argument, dict):
            raise RpcError(INVALID_PARAMS, "`argument` is not an object")
        entry = shelf.tenant_catalog.catalogue.entry(plugin)
        if not entry.dynamic:
            return {"values": []}
        target = shelf.tenant_catalog.catalogue.completion_target(plugin)
        offered = await self._host.callable_access.permitted(exchange.context, (target,))
        if not offered or offered[0].needs_approval:
            return {"values": []}
        asked: dict[str, Any] = {"ref": ref, "argument": argument}
        if isinstance(params.get("context"), dict):
            asked["context"] = params["context"]
        try:
            found = await self._host.callable_access.call(target, asked, exchange.context)
        except PaddockError:
            return {"values": []}  # most servers do not know the question
        completion = cast("dict[str, Any]", found["completion"])
        return {**completion, "values": completion.get("values", [])[:MAX_COMPLETIONS]}

    async def _resolve_reference(
        self, exchange: McpExchange, shelf: CallerCatalog, ref: Any
    ) -> tuple[str, dict[str, Any]]:
        """The plugin that a reference is to, and the reference as it knows it."""
        told = cast("dict[str, Any]", ref) if isinstance(ref, dict) else {}
        match told.get("type"):
            case "ref/prompt":
                found = self._find_prompt(shelf, told.get("name"))
                return found.plugin, {"type": "ref/prompt", "name": found.name}
            case "ref/resource" if isinstance(told.get("uri"), str):
                uri = cast("str", told["uri"])
                for plugin, one in await self._list_from_plugins(shelf, exchange.context.tenant, "templates"):
                    if uri in (one["uriTemplate"], _plugin_uri(plugin, one["uriTemplate"])):
                        return plugin, {"type": "ref/resource", "uri": one["uriTemplate"]}
                plugin, own = self.resolve_uri(exchange, shelf, uri)
                return plugin, {"type": "ref/resource", "uri": own}
            case _:
                raise RpcError(INVALID_PARAMS, "`ref` is to neither a prompt nor a resource")


def _plugin_uri(plugin: str, address: str) -> str:
    return f"{PLUGIN_URI_PREFIX}{plugin}/{address}"


def _with_plugin_uri(content: Any, plugin: str) -> Any:
    """A piece of a document, with the address that the client knows it by."""
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
