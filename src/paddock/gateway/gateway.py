"""The gateway of one daemon, put together."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from paddock.config.gateway_settings import chosen_names
from paddock.core.clock import Clock
from paddock.core.ids import Tenant
from paddock.gateway.asking_people import AskingPeople
from paddock.gateway.exchange import notification
from paddock.gateway.http_app import McpApp
from paddock.gateway.http_request import Callers
from paddock.gateway.methods import Methods
from paddock.gateway.news import News, method_for
from paddock.gateway.sessions import Sessions
from paddock.gateway.shelves import Shelves
from paddock.gateway.stateless import Stateless
from paddock.gateway.waiting_calls import WaitingCalls
from paddock.host.host import Host


class Gateway:
    """An MCP server in front of everything that a caller may use; an ASGI application for `/mcp`.

    Args:
        host: What it is in front of.
        callers: Says who makes a request, for the application.
        clock: The time.
    """

    def __init__(self, host: Host, callers: Callers, clock: Clock) -> None:
        gateway, http = host.settings.gateway, host.settings.http
        base = (http.public_url or f"http://{http.address}").rstrip("/")
        shelves = Shelves(host, chosen_names(gateway.names), clock)
        self.news = News(host)
        people = AskingPeople(host, lambda approval: f"{base}/api/v1/approvals/{approval}")
        self.methods = Methods(
            host,
            shelves,
            people,
            self.news,
            instructions=gateway.instructions or "",
            page_size=gateway.page_size,
        )
        self._waiting = WaitingCalls()
        self.stateless = Stateless(self.methods, self._waiting)
        self._sessions = Sessions(self.methods, clock, self.news.know)
        self._app = McpApp(self._sessions, self.stateless, callers)
        self.news.listen(self._changed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def _changed(self, tenant: Tenant, kinds: frozenset[str]) -> None:
        told = [notification(method_for(kind), {}) for kind in sorted(kinds)]
        for session in self._sessions.all():
            if session.owner.tenant == tenant:
                for one in told:
                    session.standing.put_once(one)

    def close(self) -> None:
        """End every session and stream: the daemon goes down."""
        self.news.close()
        self._sessions.close()
        self._waiting.close()
        self.methods.close()
