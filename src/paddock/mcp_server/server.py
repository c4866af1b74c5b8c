"""Composes the MCP server of a daemon."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Receive, Scope, Send

from paddock.config.web_settings import parse_exposed_names
from paddock.core.clock import Clock
from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.mcp_server.approval_elicitation import ApprovalElicitation
from paddock.mcp_server.catalogue import CatalogueCache
from paddock.mcp_server.exchange import encode_notification
from paddock.mcp_server.http_transport.request import RequestAuthenticator
from paddock.mcp_server.http_transport.sessions import McpHttpSessions
from paddock.mcp_server.http_transport.streamable_http import StreamableHttpApp
from paddock.mcp_server.list_changes import ListChangeNotifier, list_changed_method
from paddock.mcp_server.methods import McpMethods
from paddock.mcp_server.stateless import StatelessRequests
from paddock.mcp_server.suspended_calls import SuspendedCalls
from paddock.web.daemon_address import ConsoleAddress


class McpServer:
    """An MCP server in front of everything that a caller may use; an ASGI application for `/mcp`.

    Args:
        host: Provides plugins and settings.
        authenticator: Provides the caller of a request.
        clock: The time.
        find_console: Returns where people reach the console; may block.
    """

    def __init__(
        self,
        host: Host,
        authenticator: RequestAuthenticator,
        clock: Clock,
        find_console: Callable[[], ConsoleAddress],
    ) -> None:
        gateway = host.settings.gateway
        catalogues = CatalogueCache(host, parse_exposed_names(gateway.names), clock)
        self.list_changes = ListChangeNotifier(host)
        elicitation = ApprovalElicitation(host, find_console)
        self.methods = McpMethods(
            host,
            catalogues,
            elicitation,
            self.list_changes,
            instructions=gateway.instructions or "",
            page_size=gateway.page_size,
        )
        self._suspended_calls = SuspendedCalls()
        self.stateless = StatelessRequests(self.methods, self._suspended_calls)
        self._sessions = McpHttpSessions(self.methods, clock, self.list_changes.track_tenant)
        self._app = StreamableHttpApp(self._sessions, self.stateless, authenticator)
        self.list_changes.subscribe(self._notify_list_changed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def _notify_list_changed(self, tenant: Tenant, kinds: frozenset[str]) -> None:
        notifications = [encode_notification(list_changed_method(kind), {}) for kind in sorted(kinds)]
        for session in self._sessions.all():
            if session.owner.tenant == tenant:
                for notification in notifications:
                    session.notification_stream.put_unless_pending(notification)

    def close(self) -> None:
        """End all sessions and streams, when the daemon shuts down."""
        self.list_changes.close()
        self._sessions.close()
        self._suspended_calls.close()
        self.methods.close()
