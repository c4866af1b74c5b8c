"""A server elsewhere as a plugin's body: a connection instead of a process, watched over by the same supervisor."""

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
    """Connects to servers elsewhere itself and has all others begun.

    Args:
        others: Who begins those.
        tls: Which certificates to trust; those that this machine trusts unless told otherwise.
    """

    def __init__(self, others: EndpointLauncher, tls: ssl.SSLContext | None = None) -> None:
        self._others = others
        self._tls_factory = tls

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._tls_factory or ssl.create_default_context()  # takes a moment, and most hosts never need it

    async def launch(self, place: LaunchTarget, on_log: Callable[[str], None]) -> PluginEndpoint:
        if not isinstance(place, RemoteTarget):
            return await self._others.launch(place, on_log)
        return await self._connect(place)

    async def _connect(self, place: RemoteTarget) -> PluginEndpoint:
        """A connection to the server.

        Raises:
            Unavailable: it cannot be reached right now.
            PluginError: what its manifest says of it cannot be used.
        """
        try:
            origin, target = split_url(place.url)
            check_headers(place.headers)
        except ValueError as error:
            raise PluginError(f"the server's address or headers: {error}", code="remote.address") from error
        http = HttpClient(origin, self._tls if origin.scheme == "https" else None)
        try:
            await http.connect()
        except HttpConnectionLost as lost:
            raise Unavailable(str(lost), code="remote.unreachable", hint="it is tried again by itself") from lost
        return RemoteEndpoint(http, target, place)


class RemoteEndpoint:
    """A connection to a server elsewhere; see `Body`."""

    def __init__(self, http: HttpClient, target: str, place: RemoteTarget) -> None:
        self._http = http
        self._target = target
        self._remote_target = place
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
        kind = SseTransport if self._remote_target.transport == "sse" else StreamableHttpTransport
        return kind(self._http, self._target, self._remote_target.headers, receiver, on_finished=self.kill)

    async def wait(self) -> ProcessExit:
        return await asyncio.shield(self._ended)

    def signal(self, number: int) -> None:
        """Nothing there could be sent one."""

    def kill(self) -> None:
        if not self._ended.done():
            self._ended.set_result(ProcessExit(None))

    async def final_log(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        self._http.close()
