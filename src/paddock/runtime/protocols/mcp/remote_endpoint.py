"""The endpoint of a remote MCP server: a connection instead of a process, supervised in the same way."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from paddock.cage.spec import ProcessExit
from paddock.core.errors import PluginError, Unavailable
from paddock.core.events.capabilities import PluginConnected
from paddock.core.events.event import Event
from paddock.core.ids import PluginName
from paddock.net.http_client import HttpClient, HttpConnectionLost, check_headers, split_url
from paddock.rpc.transport import Receiver, Transport
from paddock.runtime.deployment import RemoteTarget
from paddock.runtime.protocols.mcp.http_transport import StreamableHttpTransport
from paddock.runtime.protocols.mcp.sse_transport import SseTransport


async def connect_remote(
    target: RemoteTarget, tls: Callable[[], ssl.SSLContext], connect_timeout_s: float
) -> RemoteEndpoint:
    """Connect to a remote server; `tls` is called only if its URL is https.

    Raises:
        Unavailable: it cannot be reached right now.
        PluginError: its URL or headers are invalid.
    """
    try:
        origin, request_target = split_url(target.url)
        check_headers(target.headers)
    except ValueError as error:
        raise PluginError(f"the server's address or headers: {error}", code="remote.address") from error
    http = HttpClient(origin, tls() if origin.scheme == "https" else None, connect_timeout_s=connect_timeout_s)
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
