"""MCP over a pair of streams, one message a line: for a client that started us, or a bridge that stands for one."""

from __future__ import annotations

import asyncio
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
from paddock.rpc.errors import PARSE_ERROR, RpcError
from paddock.rpc.message import MalformedMessage, NonRpcLine, RpcNotification, RpcRequest, decode

WriteLine = Callable[[bytes], None]


class StdioTransport:
    """One client at the other end, whichever revision it speaks. Made by `open_lines`."""

    def __init__(self, gateway: McpServer, tenant: Tenant, context: ContextProvider, write: WriteLine) -> None:
        self._conversation = ServerSession(gateway.methods, write, context)
        self._stateless = gateway.stateless
        self._tenant = tenant
        self._context = context
        self._write = write
        self._stateless_requests = InFlightRequests()
        self._tasks: set[asyncio.Task[Any]] = set()

    def receive_line(self, line: bytes) -> None:
        """A line that the client wrote, without its end. What it asks for is answered when it is ready."""
        match decode(line):
            case RpcRequest() as request:
                self._start_request(request)
            case MalformedMessage(meant_as="request") as wrong:
                self._write(encode_fault(wrong.id, RpcError(wrong.code, wrong.reason)))
            case MalformedMessage():
                pass
            case NonRpcLine():
                self._write(encode_fault(None, RpcError(PARSE_ERROR, "the line is not JSON")))
            case RpcNotification("notifications/cancelled", params) as told:
                self._stateless_requests.cancel(params.get("requestId"))
                self._conversation.receive(told)
            case other:
                self._conversation.receive(other)

    def notify_list_changed(self, tenant: Tenant, kinds: frozenset[str]) -> None:
        """Lists of a tenant are others than before: tell a client that has shaken hands."""
        if self._conversation.revision is not None and tenant == self._tenant:
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
        answer = await self._answer(request, context)
        if answer:  # nothing is said of what the client does not want any more
            self._write(answer)

    async def _answer(self, request: RpcRequest, context: CallContext) -> bytes:
        if not is_stateless_request(request):
            return await self._conversation.handle_request(request, context, self._write)
        refused = self._stateless_requests.rejection(request.id)
        return refused or await self._stateless_requests.run(
            request.id, self._stateless.handle(request, context, self._write)
        )

    async def close(self) -> None:
        """The client is gone: nobody wants what is under way."""
        self._conversation.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def drain(self) -> None:
        """Wait for what is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)


@asynccontextmanager
async def open_stdio_transport(
    gateway: McpServer, tenant: Tenant, context: ContextProvider, write: WriteLine
) -> AsyncGenerator[StdioTransport, None]:
    """A client for as long as the block runs; what is under way at its end is cancelled.

    Args:
        gateway: What it gets to.
        tenant: Whose lists it hears of.
        context: Makes the context of each request: who makes it, with what they may do by then.
        write: Takes each message for the client, without the end of its line. It must not wait.
    """
    lines = StdioTransport(gateway, tenant, context, write)
    gateway.list_changes.track_tenant(tenant)
    end = gateway.list_changes.subscribe(lines.notify_list_changed)
    try:
        yield lines
    finally:
        end()
        await lines.close()
