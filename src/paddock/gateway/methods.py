"""The requests of MCP, answered: each is found, given to the host once, and its result written as bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

import orjson

from paddock.core.clock import Clock
from paddock.core.errors import NeedsApproval, NotFound, PaddockError
from paddock.core.outward import mcp_error
from paddock.core.printable import printable
from paddock.core.questions import Answer, Question
from paddock.gate.catalogue import Target
from paddock.gate.effects.keys import checked_key
from paddock.gateway.exchange import Exchange
from paddock.gateway.revisions import HANDSHAKE, STATELESS, Revision, knows
from paddock.gateway.shelves import Shelves, cursor_of, tool_list
from paddock.gateway.tool_results import SERVER, complete, tool_failure, tool_pending, tool_result
from paddock.host.host import Host
from paddock.plugins.runtimes.envelopes import speaks_mcp
from paddock.rpc.faults import INVALID_PARAMS, METHOD_NOT_FOUND, RpcFault

KEY: Final = "dev.paddock/idempotency-key"
TOKEN: Final = "dev.paddock/approval-token"  # noqa: S105  # the name of a field
_NO_FIELDS: Final[Mapping[str, Any]] = {}


class Methods:
    """Answers the requests of all clients.

    Args:
        host: What they want something of.
        shelves: What there is for whom.
        instructions: What models are told of all of it.
        page_size: How much of a list stands on a page.
        clock: Tells when something was made.
    """

    def __init__(self, host: Host, shelves: Shelves, *, instructions: str, page_size: int, clock: Clock) -> None:
        self._host = host
        self._shelves = shelves
        self._instructions = instructions
        self._page_size = page_size
        self._clock = clock
        self._served: dict[str, Callable[[Exchange, dict[str, Any]], Awaitable[bytes]]] = {
            "tools/call": self._call_tool,
            "tools/list": self._list_tools,
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
            told = mcp_error(error)
            raise RpcFault(told["code"], told["message"], told["data"]) from error

    def greeting(self, revision: Revision) -> dict[str, Any]:
        """What a server says of itself first."""
        told: dict[str, Any] = {"capabilities": self.capabilities(revision)}
        if self._instructions:
            told["instructions"] = self._instructions
        return told

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """What we can do for a client."""
        changing = {"listChanged": True}
        told: dict[str, Any] = {"tools": changing}
        del revision
        return told

    # --- tools --------------------------------------------------------------------------------------------------------

    async def _list_tools(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        cursor, revision = cursor_of(params), exchange.revision
        shelf = await self._shelves.of(exchange.context)
        return shelf.page("tools", cursor, revision, self._page_size, lambda: tool_list(shelf, revision))

    async def _call_tool(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        name, arguments = params.get("name"), params.get("arguments")
        context, revision = exchange.context, exchange.revision
        target = self._shelves.counter(context.tenant).tools.get(name) if isinstance(name, str) else None
        if target is None:
            raise RpcFault(INVALID_PARAMS, f"Unknown tool: {printable(str(name), 80)}")
        if arguments is None:
            arguments = {}
        elif not isinstance(arguments, dict):
            raise RpcFault(INVALID_PARAMS, "`arguments` is not an object")
        meta = meta_of(params)
        if KEY in meta:
            context = replace(context, idempotency_key=checked_key(_text(meta, KEY)))
        given = cast("dict[str, Any]", arguments)
        try:
            if TOKEN in meta:
                live = await self._host.exposing.claimed(_text(meta, TOKEN), target, given, context)
                result = await live.wait()
            else:
                result = await self._host.exposing.call(
                    target,
                    given,
                    context,
                    on_event=exchange.hears(meta.get("progressToken"), logs=not speaks_mcp(target.manifest)),
                    ask=self._asker(exchange, target),
                )
        except NeedsApproval as held:
            return orjson.dumps(tool_pending(held, "", revision), default=str)
        except NotFound as error:
            if error.error_code not in ("callable.not_found", "plugin.not_enabled", "tool.gone"):
                return orjson.dumps(tool_failure(error, revision), default=str)
            raise  # it was there a moment ago
        except PaddockError as error:
            return orjson.dumps(tool_failure(error, revision), default=str)
        return orjson.dumps(tool_result(target, result, revision), default=str)

    def _asker(self, exchange: Exchange, target: Target) -> Callable[[Question], Awaitable[Answer]] | None:
        if exchange.put is None:
            return None
        return lambda question: exchange.ask(target.key.plugin, question)

    # --- everything else ----------------------------------------------------------------------------------------------

    async def _ping(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        del exchange, params
        return b"{}"

    async def _discover(self, exchange: Exchange, params: dict[str, Any]) -> bytes:
        del params
        told: dict[str, Any] = {
            "supportedVersions": [*STATELESS, *reversed(tuple(HANDSHAKE))],
            "serverInfo": SERVER,
            **self.greeting(exchange.revision),
            "ttlMs": 0,
            "cacheScope": "private",
        }
        return orjson.dumps(complete(told, exchange.revision))


def meta_of(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a client says beside its parameters."""
    meta: Any = params.get("_meta")
    return cast("dict[str, Any]", meta) if isinstance(meta, dict) else _NO_FIELDS


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise RpcFault(INVALID_PARAMS, f"`{name}` is not text")
    return value
