"""The endpoint of a remote MCP server: a connection instead of a process, supervised in the same way."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import cached_property

from paddock.cage.spec import ProcessExit
from paddock.core.errors import PluginError, Unavailable
from paddock.core.events.capabilities import PluginConnected
from paddock.core.events.event import Event
from paddock.core.ids import PluginName
from paddock.net.http_client import HttpClient, HttpConnectionLost, check_headers, split_url
from paddock.rpc.transport import Receiver, Transport
from paddock.runtime.deployment import LaunchTarget, RemoteTarget
from paddock.runtime.endpoint import EndpointLauncher, PluginEndpoint
from paddock.runtime.protocols.mcp.http_transport import StreamableHttpTransport
from paddock.runtime.protocols.mcp.sse_transport import SseTransport


class RemoteEndpointLauncher:
    """Connects to remote servers and delegates all other targets.

    Args:
        fallback: Launches all other targets.
        connect_timeout_s: How long a server may take to accept a connection.
        tls: The certificates to trust; the machine's own by default.
    """

    def __init__(self, fallback: EndpointLauncher, connect_timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        self._fallback = fallback
        self._connect_timeout_s = connect_timeout_s
        self._tls_factory = tls

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        # built lazily: it takes a moment, and most hosts never need it
        return self._tls_factory or ssl.create_default_context()

    async def launch(self, target: LaunchTarget, on_log: Callable[[str], None]) -> PluginEndpoint:
        if not isinstance(target, RemoteTarget):
            return await self._fallback.launch(target, on_log)
        return await self._connect(target)

    async def _connect(self, target: RemoteTarget) -> PluginEndpoint:
        """Connect to the server.

        Raises:
            Unavailable: it cannot be reached right now.
            PluginError: its URL or headers are invalid.
        """
        try:
            origin, request_target = split_url(target.url)
            check_headers(target.headers)
        except ValueError as error:
            raise PluginError(f"the server's address or headers: {error}", code="remote.address") from error
        tls = self._tls if origin.scheme == "https" else None
        http = HttpClient(origin, tls, connect_timeout_s=self._connect_timeout_s)
        try:
            await http.connect()
        except HttpConnectionLost as lost:
            raise Unavailable(str(lost), code="remote.unreachable", hint="it is tried again by itself") from lost
        return RemoteEndpoint(http, request_target, target)


class RemoteEndpoint:
    """A connection to a remote server; see `PluginEndpoint`."""

    def __init__(self, http: HttpClient, request_target: str, target: RemoteTarget) -> None:
        self._http = http
        self._request_target = request_target
        self._target = target
        self._ended: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> None:
        return None

    @property
    def cage_id(self) -> None:
        return None

    @property
    def recent_log(self) -> list[str]:
        return []

    def start_event(self, plugin: PluginName, version: str) -> Event:
        return PluginConnected(name=plugin, version=version, host=str(self._http.origin))

    async def connect(self, receiver: Receiver) -> Transport:
        transport_class = SseTransport if self._target.transport == "sse" else StreamableHttpTransport
        return transport_class(self._http, self._request_target, self._target.headers, receiver, on_finished=self.kill)

    async def wait(self) -> ProcessExit:
        return await asyncio.shield(self._ended)

    def signal(self, number: int) -> None:
        """Do nothing: there is no process to signal."""

    def kill(self) -> None:
        if not self._ended.done():
            self._ended.set_result(ProcessExit(None))

    async def final_log(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        self._http.close()
