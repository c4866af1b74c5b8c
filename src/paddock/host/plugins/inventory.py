"""The installed plugins with their runtime status, for operators of the host.

Plugins are installed for all tenants, so this also lists those that a tenant has not enabled. The list for a tenant's
own people is `PermittedPlugins`.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, TypedDict

from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.schema_annotations import NonNegativeInt
from paddock.core.single_flight import SingleFlight
from paddock.host.plugins.processes import PluginProcesses, RuntimeJson
from paddock.plugins.manage.details import PluginDetailsJson, load_details
from paddock.plugins.manage.reach import PluginReach, list_reach
from paddock.plugins.store.listing import InstalledPlugin, InstalledState, list_plugins
from paddock.plugins.store.thread import StoreThread


class InstalledPluginJson(TypedDict):
    """An installed plugin in a list."""

    name: str
    version: str
    state: InstalledState
    given_up: Annotated[str, "Why the daemon disabled it; empty if it did not."]
    kind: str
    description: str
    waiting: Annotated[NonNegativeInt, "The number of definitions that wait for a person."]
    runtime: RuntimeJson | None


class PluginJson(PluginDetailsJson):
    """An installed plugin, with the state of its process."""

    runtime: RuntimeJson | None


class PluginInventory:
    """Lists and describes installed plugins. A process is restarted if its plugin's files are seen to be modified.

    Args:
        views: The plugin store, for reads.
        processes: The processes of the plugins.
    """

    def __init__(self, views: StoreThread, processes: PluginProcesses) -> None:
        self._views = views
        self._processes = processes
        # Every open console page polls this, and each listing checks the files of all plugins: share one run.
        self._shared_listing: SingleFlight[Tenant, list[InstalledPlugin]] = SingleFlight(
            lambda tenant: views.run(list_plugins, tenant)
        )

    async def list_all(self, tenant: Tenant = DEFAULT_TENANT) -> list[InstalledPluginJson]:
        """List every installed plugin with its runtime status for a tenant."""
        listed = await self._shared_listing.run(tenant)
        for plugin in listed:
            if plugin.version is not None:
                self._processes.restart_if_modified(plugin.plugin.name, plugin.version.digest, plugin.state)
        return [self._summary(plugin, tenant) for plugin in listed]

    async def show(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> PluginJson:
        """Describe one installed plugin.

        Raises:
            NotFound: it is not installed.
        """
        details = await self._views.run(lambda store: load_details(store, name), tenant)
        facts = await asyncio.to_thread(details.to_value)  # a server may list a great deal
        self._processes.restart_if_modified(facts["name"], facts["digest"], facts["state"])
        return {**facts, "runtime": self._processes.runtime_status(facts["name"], tenant)}

    async def reach(self, tenant: Tenant = DEFAULT_TENANT) -> list[PluginReach]:
        """List what every enabled plugin of a tenant may reach."""
        return await self._views.run(list_reach, tenant)

    def _summary(self, installed: InstalledPlugin, tenant: Tenant) -> InstalledPluginJson:
        return {
            "name": installed.plugin.name,
            "version": installed.version.version if installed.version else installed.plugin.current_version,
            "state": installed.state,
            "given_up": installed.given_up,
            "kind": installed.kind,
            "description": installed.description,
            "waiting": installed.waiting,
            "runtime": self._processes.runtime_status(installed.plugin.name, tenant),
        }
