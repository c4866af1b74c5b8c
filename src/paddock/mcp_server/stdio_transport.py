"""MCP over a pair of streams, one message per line: for a client that started us, or a bridge to one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from paddock.core.call import CallContext
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.mcp_server.exchange import ContextProvider, encode_notification
from paddock.mcp_server.in_flight import InFlightRequests
from paddock.mcp_server.list_changes import list_changed_method
from paddock.mcp_server.results import encode_fault, fault_from_error
from paddock.mcp_server.server import McpServer
from paddock.mcp_server.server_session import ServerSession
from paddock.mcp_server.stateless import is_stateless_request
from paddock.rpc.errors import INTERNAL_ERROR, PARSE_ERROR, RpcError
from paddock.rpc.message import MalformedMessage, NonRpcLine, RpcNotification, RpcRequest, decode

log = logging.getLogger(__name__)

WriteLine = Callable[[bytes], None]


class StdioTransport:
    """One client, of any revision. Opened with `open_stdio_transport`."""

    def __init__(self, server: McpServer, tenant: Tenant, context: ContextProvider, write: WriteLine) -> None:
        self._session = ServerSession(server.methods, write, context)
        self._stateless = server.stateless
        self._tenant = tenant
        self._context = context
        self._write = write
        self._stateless_requests = InFlightRequests()
        self._tasks: set[asyncio.Task[Any]] = set()

    def receive_line(self, line: bytes) -> None:
        """Handle a line of the client, without its newline. Responses are written when ready."""
        match decode(line):
            case RpcRequest() as request:
                self._start_request(request)
            case MalformedMessage(meant_as="request") as malformed:
                self._write(encode_fault(malformed.id, RpcError(malformed.code, malformed.reason)))
            case MalformedMessage():
                pass
            case NonRpcLine():
                self._write(encode_fault(None, RpcError(PARSE_ERROR, "the line is not JSON")))
            case RpcNotification("notifications/cancelled", params) as notification:
                self._stateless_requests.cancel(params.get("requestId"))
                self._session.receive(notification)
            case other:
                self._session.receive(other)

    def notify_list_changed(self, tenant: Tenant, kinds: frozenset[str]) -> None:
        """Notify a client, after its handshake, that lists of its tenant have changed."""
        if self._session.revision is not None and tenant == self._tenant:
            for kind in sorted(kinds):
                self._write(encode_notification(list_changed_method(kind), {}))

    def _start_request(self, request: RpcRequest) -> None:
        task = asyncio.ensure_future(self._answer_and_write(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer_and_write(self, request: RpcRequest) -> None:
        try:
            context = await self._context()
        except PaddockError as error:
            self._write(encode_fault(request.id, fault_from_error(error)))
            return
        try:
            response = await self._answer(request, context)
        except Exception:
            # The boundary: a client waits for an answer to each of its requests.
            log.exception("%s failed", request.method)
            response = encode_fault(request.id, RpcError(INTERNAL_ERROR, "internal error; the log has the details"))
        if response:  # empty if the client cancelled the request
            self._write(response)

    async def _answer(self, request: RpcRequest, context: CallContext) -> bytes:
        if not is_stateless_request(request):
            return await self._session.handle_request(request, context, self._write)
        rejection = self._stateless_requests.rejection(request.id)
        return rejection or await self._stateless_requests.run(
            request.id, self._stateless.handle(request, context, self._write)
        )

    async def close(self) -> None:
        """Cancel all requests of a client that is gone."""
        self._session.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def drain(self) -> None:
        """Wait for all requests in progress."""
        if self._tasks:
            await asyncio.wait(self._tasks)


@asynccontextmanager
async def open_stdio_transport(
    server: McpServer, tenant: Tenant, context: ContextProvider, write: WriteLine
) -> AsyncGenerator[StdioTransport, None]:
    """Serve a client while the block runs; requests in progress are cancelled at its end.

    Args:
        server: The MCP server.
        tenant: The tenant whose list changes the client is notified of.
        context: Returns the context of each request: the caller with its current rights.
        write: Takes each message for the client, without newline. It must not block.
    """
    transport = StdioTransport(server, tenant, context, write)
    server.list_changes.track_tenant(tenant)
    unsubscribe = server.list_changes.subscribe(transport.notify_list_changed)
    try:
        yield transport
    finally:
        unsubscribe()
        await transport.close()
