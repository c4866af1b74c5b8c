"""Removing plugins while the host runs. They are installed for all, so this is for whoever operates the host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import anyio
from anyio.abc import TaskGroup

from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, PluginName, PrincipalId
from paddock.gate.idempotency.retention import erase_plugin
from paddock.host.plugins.capability_services import CapabilityServices
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.host.plugins.reconciler import RECONCILE_INTERVAL_S, Reconciler, report_internal_error
from paddock.plugins.manage import remove
from paddock.plugins.store import purge
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread

UNINSTALL_WAIT_S = 10.0  # seconds for which somebody waits until the last call of a plugin has ended


@dataclass(frozen=True, slots=True)
class UninstallResult:
    """What became of it."""

    plugin: str
    leaving: bool  # whether what it kept is still here, since a call of it has not ended


class UninstallService:
    """Removes plugins.

    Args:
        store: Where they are installed.
        put_into_effect: Ends what is gone and drops what it kept; returns when that is done.
    """

    def __init__(self, store: StoreThread, put_into_effect: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._apply_change = put_into_effect

    async def uninstall(self, name: str, by: PrincipalId) -> UninstallResult:
        """Remove a plugin with all that it kept, also where it is pinned.

        Raises:
            NotFound: it is not installed.
        """
        row = await self._store.run(lambda store: remove.uninstall(store, name, force=True), DEFAULT_TENANT, by=by)
        await self._wait_applied()
        return UninstallResult(row.name, row.name in await self._store.run(purge.pending_purges))

    async def uninstall_version(self, name: str, version: str, by: PrincipalId) -> None:
        """Remove one version and keep the others.

        Raises:
            NotFound: the plugin or that version is not installed.
            Conflict: it is the version in use, or pinned.
        """

        def work(store: PluginStore) -> None:
            remove.uninstall_version(store, name, version)

        await self._store.run(work, DEFAULT_TENANT, by=by)
        await self._wait_applied()

    async def _wait_applied(self) -> None:
        # It is gone already; the host looks by itself every few seconds, and this only makes it sooner.
        with suppress(PaddockError), anyio.move_on_after(UNINSTALL_WAIT_S):
            await self._apply_change()


_log = logging.getLogger("paddock.host")


class UninstallCleanup:
    """Drops what is marked in `leavings`, each plugin's things by themselves: one that is slow to end holds up nobody.

    Args:
        store: Where the marks are.
        reconciler: Ends what still runs.
        services: Have plugins' tables, artifacts and cached values open.
        logs: Have their logs open.
        tasks: For what nobody waits for.
    """

    def __init__(
        self,
        store: StoreThread,
        reconciler: Reconciler,
        services: CapabilityServices,
        logs: PluginLogs,
        tasks: TaskGroup,
    ) -> None:
        self._store = store
        self._reconciler = reconciler
        self._services = services
        self._logs = logs
        self._tasks = tasks
        self._in_progress: dict[str, asyncio.Event] = {}
        self._logged_errors: dict[str, str] = {}  # by plugin: what was said about one that could not be dropped

    async def start_pending(self) -> None:
        """Begin to drop what is leaving.

        Raises:
            PaddockError: the marks or the rows cannot be read.
        """
        for plugin in await self._store.run(purge.pending_purges):
            if plugin not in self._in_progress:
                self._in_progress[plugin] = asyncio.Event()
                self._tasks.start_soon(self._clean_up, plugin)

    async def wait_finished(self) -> None:
        """Wait for what has begun. What could not be dropped stays marked, and is tried again."""
        for under_way in tuple(self._in_progress.values()):
            await under_way.wait()

    async def run_forever(self) -> None:
        """Look now, and again and again: a command may have been killed, or have lost its patience, before it told."""
        while True:
            try:
                await self.start_pending()
            except (PaddockError, OSError) as error:
                self._log_once("uninstalled plugins", error)
            except Exception as error:
                report_internal_error(self.start_pending, error)
            await asyncio.sleep(RECONCILE_INTERVAL_S)

    async def _clean_up(self, plugin: str) -> None:
        try:
            # It may have gone after the rows were last read, and would still count as wanted.
            await self._reconciler.reconcile()
            await self._reconciler.stop_unwanted(plugin)
            loop = asyncio.get_running_loop()

            def let_go(name: str) -> None:
                asyncio.run_coroutine_threadsafe(self._release_resources(name), loop).result()

            def drop(store: PluginStore) -> None:
                purge.purge_plugin(store, plugin, let_go, partial(erase_plugin, clock=store.clock, random=store.random))

            await self._store.run(drop)
            self._logged_errors.pop(plugin, None)
        except (PaddockError, OSError) as error:
            self._log_once(plugin, error)
        except Exception as error:
            report_internal_error(self._clean_up, error)
        finally:
            self._in_progress.pop(plugin).set()

    async def _release_resources(self, plugin: str) -> None:
        await self._services.release_plugin(PluginName(plugin))
        await self._logs.remove_plugin(plugin)

    def _log_once(self, what: str, error: Exception) -> None:
        """Say once why something is still there."""
        words = str(error)
        if self._logged_errors.get(what) != words:
            self._logged_errors[what] = words
            _log.warning("what %s kept cannot be dropped yet: %s", what, words)
