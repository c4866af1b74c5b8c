"""The gateway of one daemon, put together."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from paddock.core.clock import Clock
from paddock.gateway.http_app import ContextOf, McpApp
from paddock.gateway.methods import Methods
from paddock.gateway.sessions import Sessions
from paddock.gateway.shelves import Shelves
from paddock.host.host import Host


class Gateway:
    """An MCP server in front of everything that a caller may use; an ASGI application for `/mcp`.

    Args:
        host: What it is in front of.
        context_of: Says who makes a request, for the application.
        clock: The time.
    """

    def __init__(self, host: Host, context_of: ContextOf, clock: Clock) -> None:
        shelves = Shelves(host, {}, clock)
        self.methods = Methods(host, shelves, instructions="", page_size=1000, clock=clock)
        self._sessions = Sessions(self.methods, clock)
        self._app = McpApp(self.methods, self._sessions, context_of)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def close(self) -> None:
        """End every session and stream: the daemon goes down."""
        self._sessions.close()
