"""Uninstalled plugins: what each of them kept is dropped as soon as nothing of it runs any more."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from anyio.abc import TaskGroup

from paddock.core.errors import PaddockError
from paddock.core.ids import PluginName
from paddock.gate.effects.forgetting import forget_plugin
from paddock.host.door import Services
from paddock.host.plugin_logs import PluginLogs
from paddock.host.reconciling import LOOK_AGAIN, Reconciler, tell_of
from paddock.plugins import leavings
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.store_thread import StoreThread

_log = logging.getLogger("paddock.host")


class Departures:
    """Drops what is marked in `leavings`, each plugin's things by themselves: one that is slow to end holds up nobody.

    Args:
        store: Where the marks are.
        reconciler: Ends what still runs.
        services: Have plugins' tables, artifacts and cached values open.
        logs: Have their logs open.
        tasks: For what nobody waits for.
    """

    def __init__(
        self, store: StoreThread, reconciler: Reconciler, services: Services, logs: PluginLogs, tasks: TaskGroup
    ) -> None:
        self._store = store
        self._reconciler = reconciler
        self._services = services
        self._logs = logs
        self._tasks = tasks
        self._under_way: dict[str, asyncio.Event] = {}
        self._troubles: dict[str, str] = {}  # by plugin: what was said about one that could not be dropped

    async def look(self) -> None:
        """Begin to drop what is leaving.

        Raises:
            PaddockError: the marks or the rows cannot be read.
        """
        for plugin in await self._store.run(leavings.leaving):
            if plugin not in self._under_way:
                self._under_way[plugin] = asyncio.Event()
                self._tasks.start_soon(self._depart, plugin)

    async def over(self) -> None:
        """Wait for what has begun. What could not be dropped stays marked, and is tried again."""
        for under_way in tuple(self._under_way.values()):
            await under_way.wait()

    async def look_again(self) -> None:
        """Look now, and again and again: a command may have been killed, or have lost its patience, before it told."""
        while True:
            try:
                await self.look()
            except (PaddockError, OSError) as error:
                self._say("uninstalled plugins", error)
            except Exception as error:
                tell_of(self.look, error)
            await asyncio.sleep(LOOK_AGAIN)

    async def _depart(self, plugin: str) -> None:
        try:
            # It may have gone after the rows were last read, and would still count as wanted.
            await self._reconciler.reconcile()
            await self._reconciler.forget(plugin)
            loop = asyncio.get_running_loop()

            def let_go(name: str) -> None:
                asyncio.run_coroutine_threadsafe(self._let_go(name), loop).result()

            def drop(store: PluginStore) -> None:
                leavings.drop(store, plugin, let_go, partial(forget_plugin, clock=store.clock, random=store.random))

            await self._store.run(drop)
            self._troubles.pop(plugin, None)
        except (PaddockError, OSError) as error:
            self._say(plugin, error)
        except Exception as error:
            tell_of(self._depart, error)
        finally:
            self._under_way.pop(plugin).set()

    async def _let_go(self, plugin: str) -> None:
        await self._services.forget(PluginName(plugin))
        await self._logs.forget(plugin)

    def _say(self, what: str, error: Exception) -> None:
        """Say once why something is still there."""
        words = str(error)
        if self._troubles.get(what) != words:
            self._troubles[what] = words
            _log.warning("what %s kept cannot be dropped yet: %s", what, words)
