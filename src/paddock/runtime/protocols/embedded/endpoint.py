"""The endpoint of an embedded plugin: the host's own process, behind an in-memory connection."""

from __future__ import annotations

import asyncio

from paddock.cage.spec import ProcessExit
from paddock.core.events.contracts import PluginEmbedded
from paddock.core.events.event import Event
from paddock.core.ids import PluginName
from paddock.rpc.memory_transport import memory_pair
from paddock.rpc.transport import Receiver, Transport
from paddock.runtime.deployment import InProcessTarget
from paddock.runtime.protocols.embedded.plugin import EmbeddedFunction, EmbeddedPlugin
from paddock.runtime.protocols.native.adapter import NativeAdapter


class EmbeddedEndpoint:
    """See `PluginEndpoint`. It has no process: killing it closes the connection."""

    def __init__(self, target: InProcessTarget) -> None:
        plugin = target.manifest.name
        functions = {name: EmbeddedFunction(f"{plugin}.{name}", function) for name, function in target.by_name.items()}
        self._plugin = EmbeddedPlugin(target.manifest, functions, on_shutdown=self.kill)
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
        host_end, plugin_end = memory_pair(receiver, self._plugin.peer)
        self._plugin.peer.attach(plugin_end)
        return host_end

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
    """The native adapter for embedded functions; see `ProtocolAdapter`."""

    @property
    def not_started_codes(self) -> frozenset[int]:
        return frozenset()
