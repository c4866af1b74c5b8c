"""A server elsewhere as a plugin's body: a connection instead of a process, watched over by the same supervisor."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import cached_property

from paddock.cage.spec import Exit
from paddock.core.errors import PluginError, Unavailable
from paddock.core.event import Event
from paddock.core.events_network import PluginConnected
from paddock.core.ids import PluginName
from paddock.plugins.runtimes.mcp.http_transport import HttpTransport
from paddock.plugins.runtimes.mcp.sse_transport import SseTransport
from paddock.plugins.supervision.body import Bodies, Body
from paddock.plugins.supervision.deployment import Elsewhere, Place
from paddock.rpc.http_client import HttpClient, HttpLost, check_headers, split_url
from paddock.rpc.transport import Receiver, Transport


class WithRemote:
    """Connects to servers elsewhere itself and has all others begun.

    Args:
        others: Who begins those.
        tls: Which certificates to trust; those that this machine trusts unless told otherwise.
    """

    def __init__(self, others: Bodies, tls: ssl.SSLContext | None = None) -> None:
        self._others = others
        self._given = tls

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given or ssl.create_default_context()  # takes a moment, and most hosts never need it

    async def begin(self, place: Place, on_log: Callable[[str], None]) -> Body:
        if not isinstance(place, Elsewhere):
            return await self._others.begin(place, on_log)
        return await self._connected(place)

    async def _connected(self, place: Elsewhere) -> Body:
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
        except HttpLost as lost:
            raise Unavailable(str(lost), code="remote.unreachable", hint="it is tried again by itself") from lost
        return RemoteBody(http, target, place)


class RemoteBody:
    """A connection to a server elsewhere; see `Body`."""

    def __init__(self, http: HttpClient, target: str, place: Elsewhere) -> None:
        self._http = http
        self._target = target
        self._place = place
        self._ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> None:
        return None

    @property
    def cage_id(self) -> None:
        return None

    @property
    def lines(self) -> list[str]:
        return []

    def began(self, plugin: PluginName, version: str) -> Event:
        return PluginConnected(name=plugin, version=version, host=str(self._http.origin))

    async def connect(self, receiver: Receiver) -> Transport:
        kind = SseTransport if self._place.transport == "sse" else HttpTransport
        return kind(self._http, self._target, self._place.headers, receiver, on_finished=self.kill)

    async def wait(self) -> Exit:
        return await asyncio.shield(self._ended)

    def signal(self, number: int) -> None:
        """Nothing there could be sent one."""

    def kill(self) -> None:
        if not self._ended.done():
            self._ended.set_result(Exit(None))

    async def last_words(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        self._http.close()
