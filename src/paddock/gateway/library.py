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
from paddock.gate.catalogue import Catalogue
from paddock.gateway.exchange import Exchange
from paddock.gateway.shelves import PromptOf, Shelf
from paddock.host.host import Host
from paddock.plugins.definitions.examining import shown_name
from paddock.rpc.faults import INVALID_PARAMS, RpcFault

WHOSE: Final = "paddock://"
MOST_VALUES: Final = 100  # in a completion, as the protocol has it


class Library:
    """Everything to read.

    Args:
        host: Knows it, and has it read through the one door.
    """

    def __init__(self, host: Host) -> None:
        self._host = host

    # --- documents ----------------------------------------------------------------------------------------------------

    async def resources(self, shelf: Shelf, tenant: Tenant) -> dict[str, dict[str, Any]]:
        """Every document that a caller may read, by the address that it has here."""
        found: dict[str, dict[str, Any]] = {}
        for plugin, one in await self._listed(shelf, tenant, "resources"):
            uri = one["uri"]
            shown = _of(plugin, uri) if uri.startswith(WHOSE) or shown_name(uri) in shelf.counter.shared else uri
            found[shown] = {**one, "uri": shown}
        return found

    async def templates(self, shelf: Shelf, tenant: Tenant) -> dict[str, dict[str, Any]]:
        """The templates of documents that have no address of their own."""
        found: dict[str, dict[str, Any]] = {}
        listed = await self._listed(shelf, tenant, "templates")
        every = [one["uriTemplate"] for _, one in listed]
        for plugin, one in listed:
            template = one["uriTemplate"]
            shown = _of(plugin, template) if template.startswith(WHOSE) or every.count(template) > 1 else template
            found[shown] = {**one, "uriTemplate": shown}
        return found

    async def _listed(self, shelf: Shelf, tenant: Tenant, kind: str) -> list[tuple[str, dict[str, Any]]]:
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

    async def read(self, exchange: Exchange, shelf: Shelf, uri: str) -> dict[str, Any]:
        """One document.

        Raises:
            RpcFault: nobody has it, or several do.
            PaddockError: see `Host.read_resource`.
        """
        plugin, own = self.whose(exchange, shelf, uri)
        target = shelf.counter.catalogue.resource(plugin, own)
        asker = exchange.asker(plugin)
        found = await self._host.exposing.call(target, {"uri": own}, exchange.context, ask=asker)
        if own == uri:
            return found
        contents = cast("list[Any]", found["contents"])
        return {**found, "contents": [_moved(one, plugin) for one in contents]}

    def whose(self, exchange: Exchange, shelf: Shelf, uri: str) -> tuple[str, str]:
        """The plugin that has a document, and its address there.

        Raises:
            RpcFault: nobody has it, or several do.
        """
        if uri.startswith(WHOSE):
            plugin, _, own = uri.removeprefix(WHOSE).partition("/")
            if plugin in shelf.readers:
                return plugin, own
        catalogue = shelf.counter.catalogue
        owners = [plugin for plugin in sorted(shelf.readers) if _has(catalogue, plugin, uri)]
        if not owners:
            raise RpcFault(exchange.revision.not_found, "Resource not found", {"uri": printable(uri, 2_000)})
        if len(owners) > 1:
            which = " or ".join(_of(plugin, uri) for plugin in owners)
            raise RpcFault(INVALID_PARAMS, f"{' and '.join(owners)} both have it: read {printable(which, 2_000)}")
        return owners[0], uri

    # --- prompts ------------------------------------------------------------------------------------------------------

    async def prompts(self, shelf: Shelf, tenant: Tenant) -> dict[str, dict[str, Any]]:
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

    async def prompt(self, exchange: Exchange, shelf: Shelf, name: Any, arguments: Any) -> dict[str, Any]:
        """A prompt with its arguments filled in.

        Raises:
            RpcFault: there is none.
            PaddockError: see `Host.get_prompt`.
        """
        found = self._found(shelf, name)
        given = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
        if found.target is None:
            return await self._host.get_prompt(found.plugin, found.name, given, context=exchange.context)
        asked = {"name": found.name, "arguments": given}
        asker = exchange.asker(found.plugin)
        return await self._host.exposing.call(found.target, asked, exchange.context, ask=asker)

    def _found(self, shelf: Shelf, name: Any) -> PromptOf:
        found = shelf.prompts.get(name) if isinstance(name, str) else None
        if found is None:
            raise RpcFault(INVALID_PARAMS, f"Unknown prompt: {printable(str(name), 80)}")
        return found

    # --- what arguments may be ----------------------------------------------------------------------------------------

    async def complete(self, exchange: Exchange, shelf: Shelf, params: Mapping[str, Any]) -> dict[str, Any]:
        """What an argument of a prompt or template may be. Nothing where its server cannot guess, or where a person
        would have to be asked first.

        Raises:
            RpcFault: there is no such prompt or template.
        """
        plugin, ref = await self._referred(exchange, shelf, params.get("ref"))
        argument = params.get("argument")
        if not isinstance(argument, dict):
            raise RpcFault(INVALID_PARAMS, "`argument` is not an object")
        entry = shelf.counter.catalogue.entry(plugin)
        if not entry.lists_itself:
            return {"values": []}
        target = shelf.counter.catalogue.completion(plugin)
        offered = await self._host.exposing.offered(exchange.context, (target,))
        if not offered or offered[0].asks:
            return {"values": []}
        asked: dict[str, Any] = {"ref": ref, "argument": argument}
        if isinstance(params.get("context"), dict):
            asked["context"] = params["context"]
        try:
            found = await self._host.exposing.call(target, asked, exchange.context)
        except PaddockError:
            return {"values": []}  # most servers do not know the question
        completion = cast("dict[str, Any]", found["completion"])
        return {**completion, "values": completion.get("values", [])[:MOST_VALUES]}

    async def _referred(self, exchange: Exchange, shelf: Shelf, ref: Any) -> tuple[str, dict[str, Any]]:
        """The plugin that a reference is to, and the reference as it knows it."""
        told = cast("dict[str, Any]", ref) if isinstance(ref, dict) else {}
        match told.get("type"):
            case "ref/prompt":
                found = self._found(shelf, told.get("name"))
                return found.plugin, {"type": "ref/prompt", "name": found.name}
            case "ref/resource" if isinstance(told.get("uri"), str):
                uri = cast("str", told["uri"])
                for plugin, one in await self._listed(shelf, exchange.context.tenant, "templates"):
                    if uri in (one["uriTemplate"], _of(plugin, one["uriTemplate"])):
                        return plugin, {"type": "ref/resource", "uri": one["uriTemplate"]}
                plugin, own = self.whose(exchange, shelf, uri)
                return plugin, {"type": "ref/resource", "uri": own}
            case _:
                raise RpcFault(INVALID_PARAMS, "`ref` is to neither a prompt nor a resource")


def _of(plugin: str, address: str) -> str:
    return f"{WHOSE}{plugin}/{address}"


def _moved(content: Any, plugin: str) -> Any:
    """A piece of a document, with the address that the client knows it by."""
    if not isinstance(content, dict):
        return content
    fields = cast("dict[str, Any]", content)
    uri = fields.get("uri")
    return {**fields, "uri": _of(plugin, uri)} if isinstance(uri, str) else fields


def _has(catalogue: Catalogue, plugin: str, uri: str) -> bool:
    try:
        catalogue.resource(plugin, uri)
    except PaddockError:
        return False
    return True
