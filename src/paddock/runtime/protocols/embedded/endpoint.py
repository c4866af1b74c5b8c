"""What an embedded plugin lives in: the host's own process, at the other end of a connection in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from paddock.cage.spec import ProcessExit
from paddock.core.events.contracts import PluginEmbedded
from paddock.core.events.event import Event
from paddock.core.ids import PluginName
from paddock.rpc.memory_transport import memory_pair
from paddock.rpc.transport import Receiver, Transport
from paddock.runtime.deployment import InProcessTarget, LaunchTarget
from paddock.runtime.endpoint import EndpointLauncher, PluginEndpoint
from paddock.runtime.protocols.embedded.plugin import EmbeddedFunction, EmbeddedPlugin
from paddock.runtime.protocols.native.adapter import NativeAdapter


class EmbeddedEndpointLauncher:
    """Begins embedded plugins itself and has all others begun."""

    def __init__(self, others: EndpointLauncher) -> None:
        self._others = others

    async def launch(self, place: LaunchTarget, on_log: Callable[[str], None]) -> PluginEndpoint:
        if not isinstance(place, InProcessTarget):
            return await self._others.launch(place, on_log)
        plugin = place.manifest.name
        functions = {name: EmbeddedFunction(f"{plugin}.{name}", function) for name, function in place.by_name.items()}
        return EmbeddedEndpoint(EmbeddedPlugin(place.manifest, functions))


class EmbeddedEndpoint:
    """See `Body`. It has no process: to be killed is to be hung up on."""

    def __init__(self, plugin: EmbeddedPlugin) -> None:
        self._plugin = plugin
        self._ended: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int | None:
        return None

    @property
    def cage_id(self) -> str | None:
        return None

    @property
    def recent_log(self) -> list[str]:
        return []

    def start_event(self, plugin: PluginName, version: str) -> Event:
        return PluginEmbedded(name=plugin, version=version)

    async def connect(self, receiver: Receiver) -> Transport:
        ours, theirs = memory_pair(receiver, self._plugin.peer)
        self._plugin.peer.attach(theirs)
        self._plugin.on_shutdown = self.kill
        return ours

    async def wait(self) -> ProcessExit:
        return await asyncio.shield(self._ended)

    def signal(self, number: int) -> None:
        del number
        self.kill()

    def kill(self) -> None:
        self._plugin.peer.close("the function was ended")
        if not self._ended.done():
            self._ended.set_result(ProcessExit(0, None))

    async def final_log(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        self.kill()


class EmbeddedAdapter(NativeAdapter):
    """See `Wire`."""

    @property
    def not_started_codes(self) -> frozenset[int]:
        return frozenset()
