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
from paddock.gate.calls.handle import CallHandle
from paddock.gate.catalogue.catalogue import CallTarget
from paddock.gate.idempotency.states import validate_idempotency_key
from paddock.host.host import Host
from paddock.mcp_server.catalog import CallerCatalog, CatalogCache, list_tool_definitions, read_cursor
from paddock.mcp_server.elicitation import ApprovalElicitation
from paddock.mcp_server.exchange import McpExchange, Subscriber
from paddock.mcp_server.list_changes import ListChangeNotifier
from paddock.mcp_server.resource_subscriptions import ResourceSubscriptions
from paddock.mcp_server.resources import McpResources
from paddock.mcp_server.results import complete_result, fault_from_error, tool_failure, tool_pending, tool_result
from paddock.mcp_server.revisions import (
    HANDSHAKE_REVISIONS,
    OLDEST_REVISION,
    STATELESS_REVISIONS,
    ProtocolRevision,
    has_method,
)
from paddock.rpc.errors import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError

IDEMPOTENCY_META_KEY: Final = "dev.paddock/idempotency-key"
APPROVAL_TOKEN_META_KEY: Final = "dev.paddock/approval-token"  # noqa: S105  # the name of a field
SUBSCRIPTION_META_KEY: Final = "io.modelcontextprotocol/subscriptionId"
_NOT_FOUND_CODES: Final = frozenset({"callable.not_found", "plugin.not_enabled", "tool.gone"})
MISSING_CAPABILITY: Final = -32021
"""A server wants something of its client that this one cannot do. No words for a model: the client has to change."""
_NO_FIELDS: Final[Mapping[str, Any]] = {}


class McpMethods:
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
        self,
        host: Host,
        shelves: CatalogCache,
        people: ApprovalElicitation,
        news: ListChangeNotifier,
        *,
        instructions: str,
        page_size: int,
    ) -> None:
        self._host = host
        self._catalogs = shelves
        self._resources = McpResources(host)
        self._subscriptions = ResourceSubscriptions(host)
        self._elicitation = people
        self._list_changes = news
        self._instructions = instructions
        self._page_size = page_size
        self._handlers: dict[str, Callable[[McpExchange, dict[str, Any]], Awaitable[bytes]]] = {
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

    async def dispatch(self, exchange: McpExchange, method: str, params: dict[str, Any]) -> bytes:
        """The result of a request, as JSON.

        Raises:
            RpcFault: it cannot be served.
        """
        served = self._handlers.get(method)
        if served is None or not has_method(exchange.revision, method):
            raise RpcError(METHOD_NOT_FOUND, f"{printable(method, 80)} is not a method of {exchange.revision.name}")
        try:
            return await served(exchange, params)
        except PaddockError as error:
            raise fault_from_error(error) from error

    def close(self) -> None:
        """Follow nothing any more."""
        self._subscriptions.close()

    def initialize_result(self, revision: ProtocolRevision) -> dict[str, Any]:
        """What a server says of itself first."""
        told: dict[str, Any] = {"capabilities": self.capabilities(revision)}
        if self._instructions:
            told["instructions"] = self._instructions
        return told

    def capabilities(self, revision: ProtocolRevision) -> dict[str, Any]:
        """What we can do for a client."""
        changing = {"listChanged": True}
        watched = changing if revision.stateless else {**changing, "subscribe": True}
        told: dict[str, Any] = {"tools": changing, "resources": watched, "prompts": changing, "logging": {}}
        return told if revision.name == OLDEST_REVISION else told | {"completions": {}}

    # --- tools --------------------------------------------------------------------------------------------------------

    async def _list_tools(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        cursor, revision = read_cursor(params), exchange.revision
        shelf = await self._catalogs.for_caller(exchange.context)
        return await shelf.page(
            "tools", cursor, revision, self._page_size, lambda: list_tool_definitions(shelf, revision)
        )

    async def _call_tool(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        name, arguments = params.get("name"), params.get("arguments")
        context, revision = exchange.context, exchange.revision
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "`name` is not text")
        target = self._catalogs.for_tenant(context.tenant).tools.get(name)
        if target is None:
            await self._catalogs.for_caller(context)  # a server may have it that never ran until now
            target = self._catalogs.for_tenant(context.tenant).tools.get(name)
        if target is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {printable(name, 80)}")
        if arguments is None:
            arguments = {}
        elif not isinstance(arguments, dict):
            raise RpcError(INVALID_PARAMS, "`arguments` is not an object")
        meta = read_meta(params)
        if IDEMPOTENCY_META_KEY in meta:
            context = replace(
                context, idempotency_key=validate_idempotency_key(_text_field(meta, IDEMPOTENCY_META_KEY))
            )
        given = cast("dict[str, Any]", arguments)
        token = (
            _text_field(meta, APPROVAL_TOKEN_META_KEY)
            if APPROVAL_TOKEN_META_KEY in meta
            else self._elicitation.pending_token(exchange, name, given)
        )
        try:
            if token is not None:
                result = await self._claim_result(exchange, name, target, given, context, token)
            else:
                result = await self._host.callable_access.call(
                    target,
                    given,
                    context,
                    on_event=exchange.event_handler(meta.get("progressToken")),
                    ask=exchange.question_handler(target.key.plugin),
                )
        except NeedsApproval as held:
            return orjson.dumps(await self._pending_result(exchange, name, target, given, held), default=str)
        except NotFound as error:
            if error.error_code not in _NOT_FOUND_CODES:
                return orjson.dumps(tool_failure(error, revision), default=str)
            raise  # it was there a moment ago
        except PaddockError as error:
            if revision.stateless and error.details.get("rpc_code") == MISSING_CAPABILITY:
                raise RpcError(MISSING_CAPABILITY, error.message, error.details.get("data")) from error
            return orjson.dumps(tool_failure(error, revision), default=str)
        return orjson.dumps(tool_result(target, result, revision), default=str)

    async def _pending_result(
        self, exchange: McpExchange, name: str, target: CallTarget, given: dict[str, Any], held: NeedsApproval
    ) -> dict[str, Any]:
        """What is told of a call that waits for a person; its result where they are there to answer."""
        revision = exchange.revision
        try:
            live = await self._elicitation.elicit_approval(exchange, held)
            if live is not None:
                return tool_result(target, await _wait_or_cancel(live), revision)
        except NeedsApproval as again:
            held = again
        except PaddockError as error:
            return tool_failure(error, revision)
        self._elicitation.remember_pending(exchange, name, given, held)
        return tool_pending(held, self._elicitation.approval_url(held.details["approval"]), revision)

    async def _claim_result(
        self,
        exchange: McpExchange,
        name: str,
        target: CallTarget,
        given: dict[str, Any],
        context: CallContext,
        token: str,
    ) -> Any:
        """The result of a call that waited for a person, for whoever comes back for it."""
        try:
            live = await self._host.callable_access.claim_approved_call(token, target, given, context)
            result = await _wait_or_cancel(live)
        except NeedsApproval:
            raise
        except PaddockError:
            self._elicitation.forget_pending(exchange, name, given)
            raise
        self._elicitation.forget_pending(exchange, name, given)
        return result

    # --- documents and prompts ----------------------------------------------------------------------------------------

    async def _list_resources(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        return await self._list_page(exchange, params, "resources", self._resources.list_resources)

    async def _list_templates(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        return await self._list_page(exchange, params, "resourceTemplates", self._resources.list_templates)

    async def _list_prompts(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        return await self._list_page(exchange, params, "prompts", self._resources.list_prompts)

    async def _list_page(
        self,
        exchange: McpExchange,
        params: dict[str, Any],
        kind: str,
        listed: Callable[[CallerCatalog, Tenant], Awaitable[dict[str, dict[str, Any]]]],
    ) -> bytes:
        cursor, context = read_cursor(params), exchange.context
        shelf = await self._catalogs.for_caller(context)
        made = partial(listed, shelf, context.tenant)
        return await shelf.page(kind, cursor, exchange.revision, self._page_size, made)

    async def _read(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(INVALID_PARAMS, "`uri` is not text")
        found = dict(
            await self._resources.read_resource(exchange, await self._catalogs.for_caller(exchange.context), uri)
        )
        if exchange.revision.stateless:
            found |= {"ttlMs": 0, "cacheScope": "private"}
        return orjson.dumps(complete_result(found, exchange.revision), default=str)

    async def _subscribe(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        uri, plugin, own, watcher = await self._subscription_target(exchange, params)
        await self._subscriptions.subscribe(exchange, watcher, uri, plugin, own)
        return b"{}"

    async def _unsubscribe(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        _, plugin, own, watcher = await self._subscription_target(exchange, params)
        await self._subscriptions.unsubscribe(exchange, watcher, plugin, own)
        return b"{}"

    async def _subscription_target(
        self, exchange: McpExchange, params: dict[str, Any]
    ) -> tuple[str, str, str, Subscriber]:
        uri, watcher = params.get("uri"), exchange.subscriber
        if not isinstance(uri, str) or watcher is None:
            raise RpcError(INVALID_PARAMS, "`uri` is not text")
        return (
            uri,
            *self._resources.resolve_uri(exchange, await self._catalogs.for_caller(exchange.context), uri),
            watcher,
        )

    async def _prompt(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        shelf = await self._catalogs.for_caller(exchange.context)
        found = await self._resources.get_prompt(exchange, shelf, params.get("name"), params.get("arguments"))
        return orjson.dumps(complete_result(dict(found), exchange.revision), default=str)

    async def _complete(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        found = await self._resources.complete_argument(
            exchange, await self._catalogs.for_caller(exchange.context), params
        )
        return orjson.dumps(complete_result({"completion": found}, exchange.revision), default=str)

    # --- everything else ----------------------------------------------------------------------------------------------

    async def _ping(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        del exchange, params
        return b"{}"

    async def _listen(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        """Be told of changes, for as long as the client listens."""
        meta = {SUBSCRIPTION_META_KEY: exchange.request_id}
        wanted = self._list_changes.requested_notifications(params.get("notifications"))
        exchange.notify("notifications/subscriptions/acknowledged", {"notifications": wanted, "_meta": meta})
        async for method in self._list_changes.follow(exchange.context.tenant, wanted):
            exchange.notify(method, {"_meta": meta})
        return orjson.dumps(complete_result({"_meta": meta}, exchange.revision))

    async def _discover(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        del params
        told: dict[str, Any] = {
            "supportedVersions": [*STATELESS_REVISIONS, *reversed(tuple(HANDSHAKE_REVISIONS))],
            **self.initialize_result(exchange.revision),
            "ttlMs": 0,
            "cacheScope": "private",
        }
        return orjson.dumps(complete_result(told, exchange.revision))


async def _wait_or_cancel(live: CallHandle) -> Any:
    """The result of a call that goes on by itself, unless whoever waits for it goes."""
    try:
        return await live.wait()
    except asyncio.CancelledError:
        live.on_disconnect()
        raise


def read_meta(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a client says beside its parameters."""
    meta: Any = params.get("_meta")
    return cast("dict[str, Any]", meta) if isinstance(meta, dict) else _NO_FIELDS


def _text_field(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"`{name}` is not text")
    return value
