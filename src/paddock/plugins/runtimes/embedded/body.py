"""What an embedded plugin lives in: the host's own process, at the other end of a connection in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from paddock.cage.spec import Exit
from paddock.core.event import Event
from paddock.core.events_contracts import PluginEmbedded
from paddock.core.ids import PluginName
from paddock.plugins.runtimes.embedded.function import Embedded
from paddock.plugins.runtimes.embedded.plugin import EmbeddedPlugin
from paddock.plugins.supervision.body import Bodies, Body
from paddock.plugins.supervision.deployment import Functions, Place
from paddock.rpc.memory import memory_pair
from paddock.rpc.transport import Receiver, Transport


class WithEmbedded:
    """Begins embedded plugins itself and has all others begun."""

    def __init__(self, others: Bodies) -> None:
        self._others = others

    async def begin(self, place: Place, on_log: Callable[[str], None]) -> Body:
        if not isinstance(place, Functions):
            return await self._others.begin(place, on_log)
        plugin = place.manifest.name
        functions = {name: Embedded(f"{plugin}.{name}", function) for name, function in place.by_name.items()}
        return EmbeddedBody(EmbeddedPlugin(place.manifest, functions))


class EmbeddedBody:
    """See `Body`. It has no process: to be killed is to be hung up on."""

    def __init__(self, plugin: EmbeddedPlugin) -> None:
        self._plugin = plugin
        self._ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int | None:
        return None

    @property
    def cage_id(self) -> str | None:
        return None

    @property
    def lines(self) -> list[str]:
        return []

    def began(self, plugin: PluginName, version: str) -> Event:
        return PluginEmbedded(name=plugin, version=version)

    async def connect(self, receiver: Receiver) -> Transport:
        ours, theirs = memory_pair(receiver, self._plugin.peer)
        self._plugin.peer.attach(theirs)
        self._plugin.on_end = self.kill
        return ours

    async def wait(self) -> Exit:
        return await asyncio.shield(self._ended)

    def signal(self, number: int) -> None:
        del number
        self.kill()

    def kill(self) -> None:
        self._plugin.peer.close("the function was ended")
        if not self._ended.done():
            self._ended.set_result(Exit(0, None))

    async def last_words(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        self.kill()
