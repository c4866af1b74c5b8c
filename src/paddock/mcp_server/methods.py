"""MCP request methods: each is resolved, passed to the host once, and its result encoded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, cast

import orjson
from msgspec.structs import replace

from paddock.core.call import CallContext
from paddock.core.errors import NeedsApproval, NotFound, PaddockError
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.gate.calls.handle import CallHandle
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.idempotency.key_verdict import validate_idempotency_key
from paddock.host.host import Host
from paddock.mcp_server.approval_elicitation import ApprovalElicitation
from paddock.mcp_server.catalogue import CallerCatalogue, CatalogueCache, list_tool_definitions, read_cursor
from paddock.mcp_server.exchange import McpExchange, Subscriber
from paddock.mcp_server.list_changes import ListChangeNotifier
from paddock.mcp_server.resource_subscriptions import ResourceSubscriptions
from paddock.mcp_server.resources import McpResources
from paddock.mcp_server.results import complete_result, fault_from_error, tool_failure, tool_result, with_approval
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
"""The client lacks a capability that the server requires. Not for the model to read: the client has to change."""
_NO_FIELDS: Final[Mapping[str, Any]] = {}


class McpMethods:
    """Answers the requests of all clients.

    Args:
        host: Runs calls.
        catalogues: Catalogues of tools, prompts and resources per caller.
        elicitation: Asks people to confirm calls.
        list_changes: Reports changed lists.
        instructions: The server's instructions for models.
        page_size: Items per list page.
    """

    def __init__(
        self,
        host: Host,
        catalogues: CatalogueCache,
        elicitation: ApprovalElicitation,
        list_changes: ListChangeNotifier,
        *,
        instructions: str,
        page_size: int,
    ) -> None:
        self._host = host
        self._catalogues = catalogues
        self._resources = McpResources(host, self._call_document)
        self._subscriptions = ResourceSubscriptions(host)
        self._elicitation = elicitation
        self._list_changes = list_changes
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
        """Return the result of a request as JSON.

        Raises:
            RpcError: it cannot be served.
        """
        handler = self._handlers.get(method)
        if handler is None or not has_method(exchange.revision, method):
            raise RpcError(METHOD_NOT_FOUND, f"{printable(method, 80)} is not a method of {exchange.revision.name}")
        try:
            return await handler(exchange, params)
        except NeedsApproval as pending:
            raise await self._elicitation.pending_fault(exchange, pending) from pending
        except PaddockError as error:
            raise fault_from_error(error) from error

    def close(self) -> None:
        """Stop following resource updates."""
        self._subscriptions.close()

    def initialize_result(self, revision: ProtocolRevision) -> dict[str, Any]:
        """Return capabilities and instructions for the initialize or discover result."""
        result: dict[str, Any] = {"capabilities": self.capabilities(revision)}
        if self._instructions:
            result["instructions"] = self._instructions
        return result

    def capabilities(self, revision: ProtocolRevision) -> dict[str, Any]:
        """Return the server capabilities for a revision."""
        list_changed = {"listChanged": True}
        resources = list_changed if revision.stateless else {**list_changed, "subscribe": True}
        capabilities: dict[str, Any] = {
            "tools": list_changed,
            "resources": resources,
            "prompts": list_changed,
            "logging": {},
        }
        return capabilities if revision.name == OLDEST_REVISION else capabilities | {"completions": {}}

    # --- tools --------------------------------------------------------------------------------------------------------

    async def _list_tools(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        cursor, revision = read_cursor(params), exchange.revision
        catalogue = await self._catalogues.for_caller(exchange.context)
        return await catalogue.page(
            "tools", cursor, revision, self._page_size, lambda: list_tool_definitions(catalogue, revision)
        )

    async def _call_tool(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        name, arguments = params.get("name"), params.get("arguments")
        context, revision = exchange.context, exchange.revision
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "`name` is not text")
        target = self._catalogues.for_tenant(context.tenant).tools.get(name)
        if target is None:
            await self._catalogues.for_caller(context)  # an undiscovered server may have it
            target = self._catalogues.for_tenant(context.tenant).tools.get(name)
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
        call_arguments = cast("dict[str, Any]", arguments)
        token = _text_field(meta, APPROVAL_TOKEN_META_KEY) if APPROVAL_TOKEN_META_KEY in meta else None
        on_event = exchange.event_handler(meta.get("progressToken"))
        try:
            result, approval = await self._call(
                exchange, name, target, call_arguments, context, on_event=on_event, token=token
            )
        except NeedsApproval as pending:
            return orjson.dumps(await self._elicitation.pending_result(exchange, pending), default=str)
        except NotFound as error:
            if error.error_code not in _NOT_FOUND_CODES:
                return orjson.dumps(tool_failure(error, revision), default=str)
            raise  # it was removed a moment ago
        except PaddockError as error:
            if revision.stateless and error.details.get("rpc_code") == MISSING_CAPABILITY:
                raise RpcError(MISSING_CAPABILITY, error.message, error.details.get("data")) from error
            return orjson.dumps(tool_failure(error, revision), default=str)
        output = tool_result(target, result, revision)
        return orjson.dumps(with_approval(output, approval) if approval else output, default=str)

    async def _call(
        self,
        exchange: McpExchange,
        name: str,
        target: CallTarget,
        call_arguments: dict[str, Any],
        context: CallContext,
        *,
        on_event: Callable[[Mapping[str, Any]], None] | None = None,
        token: str | None = None,
    ) -> tuple[Any, Mapping[str, Any]]:
        """Make a call, or return for the same one made earlier; the person behind the client is asked if necessary.

        `name` is the client's name of the target.

        Returns:
            The result, and how the person approved the call, as data; empty if they were not asked.

        Raises:
            NeedsApproval: the call waits for an answer that does not come through the client.
            PaddockError: it failed.
        """
        if token is None:
            token = self._elicitation.pending_token(exchange, name, call_arguments)
        try:
            try:
                if token is not None:
                    return await self._claim_result(exchange, name, target, call_arguments, context, token), _NO_FIELDS
                ask = exchange.question_handler(target.key.plugin)
                access = self._host.calls.callable_access
                return await access.call(target, call_arguments, context, on_event=on_event, ask=ask), _NO_FIELDS
            except NeedsApproval as pending:
                answered = await self._elicitation.elicit_approval(exchange, pending)
                if answered is None:
                    raise
                return await _wait_or_cancel(answered.call), answered.approval
        except NeedsApproval as pending:
            self._elicitation.remember_pending(exchange, name, call_arguments, pending)
            raise

    async def _call_document(
        self, exchange: McpExchange, name: str, target: CallTarget, call_arguments: dict[str, Any]
    ) -> Any:
        return (await self._call(exchange, name, target, call_arguments, exchange.context))[0]

    async def _claim_result(
        self,
        exchange: McpExchange,
        name: str,
        target: CallTarget,
        call_arguments: dict[str, Any],
        context: CallContext,
        token: str,
    ) -> Any:
        """Return the result of an approved call, for the caller that returns for it."""
        try:
            call = await self._host.calls.callable_access.claim_approved_call(token, target, call_arguments, context)
            result = await _wait_or_cancel(call)
        except NeedsApproval:
            raise
        except PaddockError:
            self._elicitation.forget_pending(exchange, name, call_arguments)
            raise
        self._elicitation.forget_pending(exchange, name, call_arguments)
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
        list_items: Callable[[CallerCatalogue, Tenant], Awaitable[dict[str, dict[str, Any]]]],
    ) -> bytes:
        cursor, context = read_cursor(params), exchange.context
        catalogue = await self._catalogues.for_caller(context)
        build_items = partial(list_items, catalogue, context.tenant)
        return await catalogue.page(kind, cursor, exchange.revision, self._page_size, build_items)

    async def _read(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(INVALID_PARAMS, "`uri` is not text")
        result = dict(
            await self._resources.read_resource(exchange, await self._catalogues.for_caller(exchange.context), uri)
        )
        if exchange.revision.stateless:
            result |= {"ttlMs": 0, "cacheScope": "private"}
        return orjson.dumps(complete_result(result, exchange.revision), default=str)

    async def _subscribe(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        uri, plugin, plugin_uri, subscriber = await self._subscription_target(exchange, params)
        await self._subscriptions.subscribe(exchange, subscriber, uri, plugin, plugin_uri)
        return b"{}"

    async def _unsubscribe(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        _, plugin, plugin_uri, subscriber = await self._subscription_target(exchange, params)
        await self._subscriptions.unsubscribe(exchange, subscriber, plugin, plugin_uri)
        return b"{}"

    async def _subscription_target(
        self, exchange: McpExchange, params: dict[str, Any]
    ) -> tuple[str, str, str, Subscriber]:
        uri, subscriber = params.get("uri"), exchange.subscriber
        if not isinstance(uri, str) or subscriber is None:
            raise RpcError(INVALID_PARAMS, "`uri` is not text")
        return (
            uri,
            *self._resources.resolve_uri(exchange, await self._catalogues.for_caller(exchange.context), uri),
            subscriber,
        )

    async def _prompt(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        catalogue = await self._catalogues.for_caller(exchange.context)
        prompt = await self._resources.get_prompt(exchange, catalogue, params.get("name"), params.get("arguments"))
        return orjson.dumps(complete_result(dict(prompt), exchange.revision), default=str)

    async def _complete(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        completion = await self._resources.complete_argument(
            exchange, await self._catalogues.for_caller(exchange.context), params
        )
        return orjson.dumps(complete_result({"completion": completion}, exchange.revision), default=str)

    # --- everything else ----------------------------------------------------------------------------------------------

    async def _ping(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        del exchange, params
        return b"{}"

    async def _listen(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        """Stream list changes to the client while it listens."""
        meta = {SUBSCRIPTION_META_KEY: exchange.request_id}
        requested = self._list_changes.requested_notifications(params.get("notifications"))
        exchange.notify("notifications/subscriptions/acknowledged", {"notifications": requested, "_meta": meta})
        async for method in self._list_changes.follow(exchange.context.tenant, requested):
            exchange.notify(method, {"_meta": meta})
        return orjson.dumps(complete_result({"_meta": meta}, exchange.revision))

    async def _discover(self, exchange: McpExchange, params: dict[str, Any]) -> bytes:
        del params
        result: dict[str, Any] = {
            "supportedVersions": [*STATELESS_REVISIONS, *reversed(tuple(HANDSHAKE_REVISIONS))],
            **self.initialize_result(exchange.revision),
            "ttlMs": 0,
            "cacheScope": "private",
        }
        return orjson.dumps(complete_result(result, exchange.revision))


async def _wait_or_cancel(call: CallHandle) -> Any:
    """Wait for a detached call; it is notified if the waiter is cancelled."""
    try:
        return await call.wait()
    except asyncio.CancelledError:
        call.on_disconnect()
        raise


def read_meta(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `_meta` of a request's parameters."""
    meta: Any = params.get("_meta")
    return cast("dict[str, Any]", meta) if isinstance(meta, dict) else _NO_FIELDS


def _text_field(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"`{name}` is not text")
    return value
