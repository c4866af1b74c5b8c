"""Uninstalls plugins while the host runs, and cleans up after them. For operators: plugins are installed for all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, PluginName, PrincipalId
from paddock.gate.calls.call_details import CallDetailsStore, erase_plugin_call_details
from paddock.gate.idempotency.retention import erase_plugin
from paddock.host.plugins.capability_services import CapabilityServices
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.host.plugins.reconciler import RECONCILE_INTERVAL_S, Reconciler, report_internal_error
from paddock.plugins.manage import remove
from paddock.plugins.store import purge
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.store.transaction import Transaction

UNINSTALL_WAIT_S = 10.0  # how long an uninstall waits for the plugin's last call


class UninstallResult(Struct, frozen=True):
    """The result of an uninstall."""

    plugin: str
    purge_pending: bool  # whether its data still exists, because a call has not ended


class UninstallService:
    """Uninstalls plugins.

    Args:
        store: The plugin store.
        apply_change: Stops removed plugins and deletes their data; returns when that is done.
    """

    def __init__(self, store: StoreThread, apply_change: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._apply_change = apply_change

    async def check_removable(self, name: str, version: str | None, *, force: bool) -> str:
        """Return the plugin's own name if it, or this version of it, may be removed.

        Raises:
            NotFound: the plugin or that version is not installed.
            Conflict: it is pinned, and `force` is not given; or it is the version in use.
        """
        return (await self._store.run(lambda store: remove.check_removable(store, name, version, force=force))).name

    async def uninstall(self, name: str, by: PrincipalId, *, force: bool) -> UninstallResult:
        """Remove a plugin with all its data.

        Raises:
            NotFound: it is not installed.
            Conflict: it is pinned, and `force` is not given.
        """
        row = await self._store.run(lambda store: remove.uninstall(store, name, force=force), DEFAULT_TENANT, by=by)
        await self._wait_applied()
        return UninstallResult(row.name, row.name in await self._store.run(purge.pending_purges))

    async def uninstall_version(self, name: str, version: str, by: PrincipalId, *, force: bool = False) -> str:
        """Remove one version and keep the others; returns the plugin's own name.

        Raises:
            NotFound: the plugin or that version is not installed.
            Conflict: it is the version in use, or it is pinned and `force` is not given.
        """
        row = await self._store.run(
            lambda store: remove.uninstall_version(store, name, version, force=force), DEFAULT_TENANT, by=by
        )
        await self._wait_applied()
        return row.plugin

    async def _wait_applied(self) -> None:
        # It is already uninstalled; the host cleans up within seconds by itself, and this only makes it sooner.
        with suppress(PaddockError), anyio.move_on_after(UNINSTALL_WAIT_S):
            await self._apply_change()


_log = logging.getLogger("paddock.host")


class UninstallCleanup:
    """Purges the data of uninstalled plugins, each in a task of its own: one that is slow to stop delays no other.

    Args:
        store: Holds the pending purges.
        reconciler: Stops what still runs.
        services: Hold plugins' databases, artifacts and cached values open.
        logs: Hold their logs open.
        call_details: Holds the inputs of their calls.
        tasks: Runs the purges.
    """

    def __init__(
        self,
        store: StoreThread,
        reconciler: Reconciler,
        services: CapabilityServices,
        logs: PluginLogs,
        call_details: CallDetailsStore,
        tasks: TaskGroup,
    ) -> None:
        self._store = store
        self._reconciler = reconciler
        self._services = services
        self._logs = logs
        self._call_details = call_details
        self._tasks = tasks
        self._in_progress: dict[str, asyncio.Event] = {}
        self._logged_errors: dict[str, str] = {}  # by plugin: the last error, to log each once

    async def start_pending(self) -> None:
        """Start the pending purges.

        Raises:
            PaddockError: the pending purges or the rows cannot be read.
        """
        for plugin in await self._store.run(purge.pending_purges):
            if plugin not in self._in_progress:
                self._in_progress[plugin] = asyncio.Event()
                self._tasks.start_soon(self._clean_up, plugin)

    async def wait_finished(self) -> None:
        """Wait for the purges that have started. A failed one stays pending and is retried."""
        for finished in tuple(self._in_progress.values()):
            await finished.wait()

    async def run_forever(self) -> None:
        """Purge periodically: a command may have been killed, or have timed out, before it notified the daemon."""
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
            # It may have been uninstalled after the last reconciliation, and would still count as enabled.
            await self._reconciler.reconcile()
            await self._reconciler.stop_unwanted(plugin)
            await self._call_details.flush()  # or the inputs of its last calls were written after the rest is gone
            loop = asyncio.get_running_loop()

            def release(plugin_name: str) -> None:
                asyncio.run_coroutine_threadsafe(self._release_resources(plugin_name), loop).result()

            def purge_data(store: PluginStore) -> None:
                def delete_rows(tx: Transaction, name: str) -> None:
                    erase_plugin(tx, name, clock=store.clock, random=store.random)
                    erase_plugin_call_details(tx, name)

                purge.purge_plugin(store, plugin, release, delete_rows)

            await self._store.run(purge_data)
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

    def _log_once(self, subject: str, error: Exception) -> None:
        """Log once why a purge failed."""
        message = str(error)
        if self._logged_errors.get(subject) != message:
            self._logged_errors[subject] = message
            _log.warning("what %s kept cannot be dropped yet: %s", subject, message)
