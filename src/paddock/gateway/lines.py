"""MCP over a pair of streams, one message a line: for a client that started us, or a bridge that stands for one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from paddock.core.call import CallContext
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.gateway.conversation import Conversation
from paddock.gateway.exchange import ContextNow, notification
from paddock.gateway.gateway import Gateway
from paddock.gateway.news import method_for
from paddock.gateway.stateless import stands_alone
from paddock.gateway.under_way import UnderWay
from paddock.gateway.writing import fault_as, fault_from
from paddock.rpc.faults import PARSE_ERROR, RpcFault
from paddock.rpc.message import Malformed, Noise, Notification, Request, decode

Write = Callable[[bytes], None]


class Lines:
    """One client at the other end, whichever revision it speaks. Made by `open_lines`."""

    def __init__(self, gateway: Gateway, tenant: Tenant, context: ContextNow, write: Write) -> None:
        self._conversation = Conversation(gateway.methods, write, context)
        self._stateless = gateway.stateless
        self._tenant = tenant
        self._context = context
        self._write = write
        self._alone = UnderWay()
        self._tasks: set[asyncio.Task[Any]] = set()

    def feed(self, line: bytes) -> None:
        """A line that the client wrote, without its end. What it asks for is answered when it is ready."""
        match decode(line):
            case Request() as request:
                self._begin(request)
            case Malformed(meant_as="request") as wrong:
                self._write(fault_as(wrong.id, RpcFault(wrong.code, wrong.reason)))
            case Malformed():
                pass
            case Noise():
                self._write(fault_as(None, RpcFault(PARSE_ERROR, "the line is not JSON")))
            case Notification("notifications/cancelled", params) as told:
                self._alone.cancel(params.get("requestId"))
                self._conversation.hear(told)
            case other:
                self._conversation.hear(other)

    def changed(self, tenant: Tenant, kinds: frozenset[str]) -> None:
        """Lists of a tenant are others than before: tell a client that has shaken hands."""
        if self._conversation.revision is not None and tenant == self._tenant:
            for kind in sorted(kinds):
                self._write(notification(method_for(kind), {}))

    def _begin(self, request: Request) -> None:
        task = asyncio.ensure_future(self._answered(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answered(self, request: Request) -> None:
        try:
            context = await self._context()
        except PaddockError as error:
            self._write(fault_as(request.id, fault_from(error)))
            return
        answer = await self._answer(request, context)
        if answer:  # nothing is said of what the client does not want any more
            self._write(answer)

    async def _answer(self, request: Request, context: CallContext) -> bytes:
        if not stands_alone(request):
            return await self._conversation.answer(request, context, self._write)
        refused = self._alone.refusal(request.id)
        return refused or await self._alone.answer(request.id, self._stateless.result(request, context, self._write))

    async def close(self) -> None:
        """The client is gone: nobody wants what is under way."""
        self._conversation.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def finished(self) -> None:
        """Wait for what is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)


@asynccontextmanager
async def open_lines(
    gateway: Gateway, tenant: Tenant, context: ContextNow, write: Write
) -> AsyncGenerator[Lines, None]:
    """A client for as long as the block runs; what is under way at its end is cancelled.

    Args:
        gateway: What it gets to.
        tenant: Whose lists it hears of.
        context: Makes the context of each request: who makes it, with what they may do by then.
        write: Takes each message for the client, without the end of its line. It must not wait.
    """
    lines = Lines(gateway, tenant, context, write)
    gateway.news.know(tenant)
    end = gateway.news.listen(lines.changed)
    try:
        yield lines
    finally:
        end()
        await lines.close()
