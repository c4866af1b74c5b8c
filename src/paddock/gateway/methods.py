"""The requests of MCP, answered: each is found, given to the host once, and its result written as bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

import orjson

from paddock.core.call import CallContext
from paddock.core.errors import NeedsApproval, NotFound, PaddockError
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.gate.catalogue import Target
from paddock.gate.effects.keys import checked_key
from paddock.gate.live_call import LiveCall
from paddock.gateway.asking_people import AskingPeople
from paddock.gateway.exchange import Exchange, Watcher
from paddock.gateway.library import Library
from paddock.gateway.news import News
from paddock.gateway.revisions import HANDSHAKE, OLDEST, STATELESS, Revision, knows
from paddock.gateway.shelves import Shelf, Shelves, cursor_of, tool_list
from paddock.gateway.tool_results import complete, tool_failure, tool_pending, tool_result
from paddock.gateway.watched_documents import WatchedDocuments
from paddock.gateway.writing import fault_from
from paddock.host.host import Host
from paddock.rpc.faults import INVALID_PARAMS, METHOD_NOT_FOUND, RpcFault

KEY: Final = "dev.paddock/idempotency-key"
TOKEN: Final = "dev.paddock/approval-token"  # noqa: S105  # the name of a field
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_UNKNOWN: Final = frozenset({"callable.not_found", "plugin.not_enabled", "tool.gone"})
MISSING_CAPABILITY: Final = -32021
"""A server wants something of its client that this one cannot do. No words for a model: the client has to change."""
_NO_FIELDS: Final[Mapping[str, Any]] = {}


class Methods:
    """Answers the requests of all clients.

    Args:
        host: What they want something of.
        shelves: What there is for whom.
        people: Whom calls wait for.
        news: Of what there is.
        instructions: What models are told of all of it.
        page_size: How much of a list stands on a page.
    """

    def __init__(
        self, host: Host, shelves: Shelves, people: AskingPeople, news: News, *, instructions: str, page_size: int
    ) -> None:
        self._host = host
        self._shelves = shelves
        self._library = Library(host)
        self._watching = WatchedDocuments(host)
        self._people = people
        self._news = news
        self._instructions = instructions
        self._page_size = page_size
        self._served: dict[str, Callable[[Exchange, dict[str, Any]], Awaitable[bytes]]] = {
            "tools/call": self._call_tool,
            "tools/list": self._list_tools,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "prompts/list": self._list_prompts,
            "prompts/get": self._prompt,
            "completion/complete": self._complete,
            "subscriptions/listen": self._listen,
            "ping": self._ping,
            "server/discover": self._discover,
        }

    async def serve(self, exchange: Exchange, method: str, params: dict[str, Any]) -> bytes:
        """The result of a request, as JSON.

        Raises:
            RpcFault: it cannot be served.
        """
        served = self._served.get(method)
        if served is None or not knows(exchange.revision, method):
            raise RpcFault(METHOD_NOT_FOUND, f"{printable(method, 80)} is not a method of {exchange.revision.name}")
        try:
            return await served(exchange, params)
        except PaddockError as error:
            raise fault_from(error) from error

    def close(self) -> None:
        """Follow nothing any more."""
        self._watching.close()

    def greeting(self, revision: Revision) -> dict[str, Any]:
        """What a server says of itself first."""
        told: dict[str, Any] = {"capabilities": self.capabilities(revision)}
        if self._instructions:
            told["instructions"] = self._instructions
        return told

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """What we can do for a client."""
        changing = {"listChanged": True}
        watched = changing if revision.stateless else {**changing, "subscribe": True}
        told: dict[str, Any] = {"tools": changing, "resources": watched, "prompts": changing, "logging": {}}
        return told if revision.name == OLDEST else told | {"completions": {}}

    # --- tools --------------------------------------------------------------------------------------------------------

    async def _list_tools(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        cursor, revision = cursor_of(params), exchange.revision
        shelf = await self._shelves.of(exchange.context)
        return await shelf.page("tools", cursor, revision, self._page_size, lambda: tool_list(shelf, revision))

    async def _call_tool(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        name, arguments = params.get("name"), params.get("arguments")
        context, revision = exchange.context, exchange.revision
        if not isinstance(name, str):
            raise RpcFault(INVALID_PARAMS, "`name` is not text")
        target = self._shelves.counter(context.tenant).tools.get(name)
        if target is None:
            await self._shelves.of(context)  # a server may have it that never ran until now
            target = self._shelves.counter(context.tenant).tools.get(name)
        if target is None:
            raise RpcFault(INVALID_PARAMS, f"Unknown tool: {printable(name, 80)}")
        if arguments is None:
            arguments = {}
        elif not isinstance(arguments, dict):
            raise RpcFault(INVALID_PARAMS, "`arguments` is not an object")
        meta = meta_of(params)
        if KEY in meta:
            context = replace(context, idempotency_key=checked_key(_text(meta, KEY)))
        given = cast("dict[str, Any]", arguments)
        token = _text(meta, TOKEN) if TOKEN in meta else self._people.token(exchange, name, given)
        try:
            if token is not None:
                result = await self._claimed(exchange, name, target, given, context, token)
            else:
                result = await self._host.exposing.call(
                    target,
                    given,
                    context,
                    on_event=exchange.hears(meta.get("progressToken")),
                    ask=exchange.asker(target.key.plugin),
                )
        except NeedsApproval as held:
            return orjson.dumps(await self._held(exchange, name, target, given, held), default=str)
        except NotFound as error:
            if error.error_code not in _UNKNOWN:
                return orjson.dumps(tool_failure(error, revision), default=str)
            raise  # it was there a moment ago
        except PaddockError as error:
            if revision.stateless and error.details.get("rpc_code") == MISSING_CAPABILITY:
                raise RpcFault(MISSING_CAPABILITY, error.message, error.details.get("data")) from error
            return orjson.dumps(tool_failure(error, revision), default=str)
        return orjson.dumps(tool_result(target, result, revision), default=str)

    async def _held(
        self, exchange: Exchange, name: str, target: Target, given: dict[str, Any], held: NeedsApproval
    ) -> dict[str, Any]:
        """What is told of a call that waits for a person; its result where they are there to answer."""
        revision = exchange.revision
        try:
            live = await self._people.confirmed(exchange, held)
            if live is not None:
                return tool_result(target, await _until_over(live), revision)
        except NeedsApproval as again:
            held = again
        except PaddockError as error:
            return tool_failure(error, revision)
        self._people.remember(exchange, name, given, held)
        return tool_pending(held, self._people.link(held.details["approval"]), revision)

    async def _claimed(
        self, exchange: Exchange, name: str, target: Target, given: dict[str, Any], context: CallContext, token: str
    ) -> Any:
        """The result of a call that waited for a person, for whoever comes back for it."""
        try:
            live = await self._host.exposing.claimed(token, target, given, context)
            result = await _until_over(live)
        except NeedsApproval:
            raise
        except PaddockError:
            self._people.forget(exchange, name, given)
            raise
        self._people.forget(exchange, name, given)
        return result

    # --- documents and prompts ----------------------------------------------------------------------------------------

    async def _list_resources(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        return await self._page(exchange, params, "resources", self._library.resources)

    async def _list_templates(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        return await self._page(exchange, params, "resourceTemplates", self._library.templates)

    async def _list_prompts(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        return await self._page(exchange, params, "prompts", self._library.prompts)

    async def _page(
        self,
        exchange: Exchange,
        params: dict[str, Any],
        kind: str,
        listed: Callable[[Shelf, Tenant], Awaitable[dict[str, dict[str, Any]]]],
    ) -> bytes:
        cursor, context = cursor_of(params), exchange.context
        shelf = await self._shelves.of(context)
        made = partial(listed, shelf, context.tenant)
        return await shelf.page(kind, cursor, exchange.revision, self._page_size, made)

    async def _read(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RpcFault(INVALID_PARAMS, "`uri` is not text")
        found = dict(await self._library.read(exchange, await self._shelves.of(exchange.context), uri))
        if exchange.revision.stateless:
            found |= {"ttlMs": 0, "cacheScope": "private"}
        return orjson.dumps(complete(found, exchange.revision), default=str)

    async def _subscribe(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        uri, plugin, own, watcher = await self._watched_by(exchange, params)
        await self._watching.watch(exchange, watcher, uri, plugin, own)
        return b"{}"

    async def _unsubscribe(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        _, plugin, own, watcher = await self._watched_by(exchange, params)
        await self._watching.unwatch(exchange, watcher, plugin, own)
        return b"{}"

    async def _watched_by(self, exchange: Exchange, params: dict[str, Any]) -> tuple[str, str, str, Watcher]:
        uri, watcher = params.get("uri"), exchange.watcher
        if not isinstance(uri, str) or watcher is None:
            raise RpcFault(INVALID_PARAMS, "`uri` is not text")
        return uri, *self._library.whose(exchange, await self._shelves.of(exchange.context), uri), watcher

    async def _prompt(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        shelf = await self._shelves.of(exchange.context)
        found = await self._library.prompt(exchange, shelf, params.get("name"), params.get("arguments"))
        return orjson.dumps(complete(dict(found), exchange.revision), default=str)

    async def _complete(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        found = await self._library.complete(exchange, await self._shelves.of(exchange.context), params)
        return orjson.dumps(complete({"completion": found}, exchange.revision), default=str)

    # --- everything else ----------------------------------------------------------------------------------------------

    async def _ping(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        del exchange, params
        return b"{}"

    async def _listen(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        """Be told of changes, for as long as the client listens."""
        meta = {SUBSCRIPTION: exchange.number}
        wanted = self._news.wanted(params.get("notifications"))
        exchange.notify("notifications/subscriptions/acknowledged", {"notifications": wanted, "_meta": meta})
        async for method in self._news.follow(exchange.context.tenant, wanted):
            exchange.notify(method, {"_meta": meta})
        return orjson.dumps(complete({"_meta": meta}, exchange.revision))

    async def _discover(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        del params
        told: dict[str, Any] = {
            "supportedVersions": [*STATELESS, *reversed(tuple(HANDSHAKE))],
            **self.greeting(exchange.revision),
            "ttlMs": 0,
            "cacheScope": "private",
        }
        return orjson.dumps(complete(told, exchange.revision))


async def _until_over(live: LiveCall) -> Any:
    """The result of a call that goes on by itself, unless whoever waits for it goes."""
    try:
        return await live.wait()
    except asyncio.CancelledError:
        live.hung_up()
        raise


def meta_of(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a client says beside its parameters."""
    meta: Any = params.get("_meta")
    return cast("dict[str, Any]", meta) if isinstance(meta, dict) else _NO_FIELDS


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise RpcFault(INVALID_PARAMS, f"`{name}` is not text")
    return value
