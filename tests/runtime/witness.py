"""What a test of a fault looks at besides the plugin itself: what was told of it, its next life, and its neighbour."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, TypeVar

from tests.cage.daemons import gone as gone
from tests.fixtures.paced_loop import hurrying
from tests.runtime.stage import Actor, Stage

from paddock.core.events.event import Event
from paddock.core.events.plugin_runtime import PluginCrashed, PluginSpawned
from paddock.runtime.deployment import PluginStatus
from paddock.runtime.lifecycle import PluginState

E = TypeVar("E", bound=Event)

# Nothing of this plugin is to happen by itself while a test lets time pass quickly.
UNASKED = {"health_interval_sec": 300}

WELL = 'hello()\nserve(do_it=lambda request: {"well": True})'

_ON_CALL = """
def act(request):
    if "say" in request["params"]:
        return {{"well": True}}
{lines}
hello({hello})
serve(do_it=act)
"""


def on_call(*lines: str, hello: str = "") -> str:
    """A plugin that does this when it is called, and is well when it is called with `say`."""
    return _ON_CALL.format(lines="\n".join(f"    {line}" for line in lines), hello=hello)


def told(stage: Stage, kind: type[E], name: str = "actor") -> list[E]:
    """The events of this kind about one plugin."""
    return [event for event in stage.audience.of(kind) if getattr(event, "name", None) == name]


async def fallen(actor: Actor) -> tuple[PluginStatus, PluginCrashed]:
    """How it is doing once it crashed, and what was told of it."""
    status = await actor.until(PluginState.CRASHED)
    assert status.error_code == "plugin.crashed"
    assert status.reason
    return status, told(actor.stage, PluginCrashed, actor.key.plugin)[-1]


async def next_life(actor: Actor) -> PluginStatus:
    """How it is doing after the pause that follows a fall, once it settled again."""
    await actor.until(PluginState.CRASHED)
    with hurrying():
        await actor.until(PluginState.SPAWNING)
    return await actor.settled()


async def runs_again(actor: Actor, *, lives: int = 2) -> None:
    """It was started again, as the so-manyeth process, and answers."""
    assert (await next_life(actor)).state is PluginState.RUNNING
    assert len(told(actor.stage, PluginSpawned, actor.key.plugin)) == lives
    assert await actor.call("do.it", say="well") == {"well": True}


class Bystander:
    """A healthy plugin on the same stage, which must not notice anything."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._pid: int | None = None

    async def began(self) -> None:
        self._pid = (await self._actor.settled()).pid

    async def call(self) -> Any:
        return await self._actor.call("do.it")

    async def unmoved(self) -> None:
        """It is the same process as ever, and answers."""
        assert await self.call() == {"well": True}
        assert self._pid is not None
        assert (self._actor.status.pid, self._actor.status.failures) == (self._pid, 0)


async def open_bystander(stage: Stage) -> Bystander:
    bystander = Bystander(stage.actor(WELL, "bystander", timing=UNASKED))
    await bystander.began()
    return bystander


def cage_mates(pid: int) -> set[int]:
    """Every process that shares a cage with this one, itself included."""
    cage = Path(f"/proc/{pid}/ns/pid").readlink()
    found: set[int] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "ns/pid").readlink() == cage:
                found.add(int(process.name))
    return found
