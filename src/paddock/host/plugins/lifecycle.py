"""The lifecycle of a plugin in a running host: enabled, started, applied to a new version, stopped and disabled.

enable → its row is stored → reconciled (catalogue, supervisor) → its process starts → it runs, or has failed
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

import anyio

from paddock.core.errors import Conflict
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.host.identity.caller import local_principal
from paddock.host.plugins.processes import RuntimeJson, runtime_to_json
from paddock.host.plugins.reconciler import Reconciler
from paddock.host.plugins.uninstall import UninstallCleanup
from paddock.manifest.capability import Capability
from paddock.plugins.manage.enable import disable, enable
from paddock.plugins.manage.remove import clean_up_interrupted
from paddock.plugins.store.thread import StoreThread
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.supervisor import Supervisor

VERSION_START_TIMEOUT_S = 60.0  # how long a version change waits for the new processes


class EnabledPluginJson(RuntimeJson):
    """A plugin that was enabled, with the state of its process."""

    name: str
    version: str


class DisabledPluginJson(TypedDict):
    """A plugin that was disabled."""

    name: str
    version: str
    state: Literal["disabled"]


class PluginLifecycle:
    """Enables and disables plugins, and applies changes of the store to what runs.

    Args:
        store: The plugin store, which holds what is enabled.
        supervisor: Runs the processes.
        reconciler: Brings what runs in step with the store.
        uninstall_cleanup: Removes what uninstalled plugins left.
    """

    def __init__(
        self, store: StoreThread, supervisor: Supervisor, reconciler: Reconciler, uninstall_cleanup: UninstallCleanup
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._reconciler = reconciler
        self._uninstall_cleanup = uninstall_cleanup

    async def enable(
        self,
        name: str,
        *,
        tenant: Tenant = DEFAULT_TENANT,
        acknowledged: Iterable[Capability] = (),
        anew: bool = False,
        by: PrincipalId | None = None,
    ) -> EnabledPluginJson:
        """Enable a plugin for a tenant, and wait until it runs or has failed.

        Args:
            name: Its name or an alias.
            tenant: The tenant. Installing a plugin grants its requested capabilities to the default tenant alone.
            acknowledged: The capabilities that a person has just granted for this tenant.
            anew: Start a new process even if one is running.
            by: The principal to record; the operator by default.

        Raises:
            NeedsConsent: the plugin requests more than the tenant granted; nothing has changed.
            PaddockError: it cannot be enabled; see `plugins/manage/enable.py`.
        """
        granted = tuple(acknowledged)
        recorded_by = by or local_principal(None).id
        row = await self._store.run(lambda store: enable(store, name, granted), tenant, by=recorded_by)
        await self._reconciler.reconcile()
        blocked = self._reconciler.blocked.get((tenant, row.plugin))
        if blocked is not None:
            raise blocked.error
        key = self._reconciler.current_keys.get((tenant, row.plugin))
        if key is None:
            raise Conflict(
                f"{row.plugin} was disabled while it was being enabled",
                code="plugin.changed_meanwhile",
                hint="run the command again",
            )
        status = await (self._reconciler.restart(key) if anew else self._reconciler.enable(key))
        unused = await self._reconciler.wait_unused_config_reason(key)
        return {"name": row.plugin, "version": row.version, **runtime_to_json(status, unused_config=unused)}

    async def disable(
        self, name: str, tenant: Tenant = DEFAULT_TENANT, *, by: PrincipalId | None = None
    ) -> DisabledPluginJson:
        """Stop a plugin and disable it for a tenant. Its grants stay. `by` as in `enable`."""
        plugin = await self._store.run(lambda store: disable(store, name), tenant, by=by or local_principal(None).id)
        await self._reconciler.reconcile()
        await self._reconciler.stop_unwanted(plugin.name, tenant)
        return {"name": plugin.name, "version": plugin.current_version, "state": "disabled"}

    async def clean_up_interrupted(self) -> None:
        """Clean up the files and the configuration that a killed process left behind."""
        await self._store.run(clean_up_interrupted)

    async def reconcile(self) -> None:
        """Apply rows that a command changed. The changes are in effect when this returns."""
        await self._reconciler.reconcile()
        self._reconciler.retry_modified()
        await self._reconciler.wait_applied()
        await self._uninstall_cleanup.start_pending()
        await self._uninstall_cleanup.wait_finished()

    async def apply_version_change(self, name: str) -> None:
        """Reconcile after a version change, and wait (bounded) until the plugin's processes run or have failed."""
        await self.reconcile()
        with anyio.move_on_after(VERSION_START_TIMEOUT_S):
            for status in self._supervisor.statuses():
                if status.key.plugin == name and status.state is PluginState.SPAWNING:
                    await self._supervisor.wait_settled(status.key)
