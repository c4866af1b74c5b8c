"""What runs is what the rows say: compares the two, starts what is new and ends what is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from anyio.abc import TaskGroup

from paddock.core.errors import PaddockError
from paddock.gate.catalogue import Catalogue
from paddock.gate.gate import Gate
from paddock.host.enabled import EnabledPlugins, Unreadable
from paddock.host.plugin_logs import PluginLogs
from paddock.host.starting import Starter
from paddock.plugins.enabling import disable
from paddock.plugins.store_thread import StoreThread
from paddock.plugins.supervision.deployment import InstanceKey
from paddock.plugins.supervision.lifecycle import State
from paddock.plugins.supervision.supervisor import Supervisor

LOOK_AGAIN = 5.0  # seconds between two looks at the rows, for changes that nobody told us about


class Reconciler:
    """Keeps the supervisor and the catalogue in step with the rows.

    Args:
        store: Where the rows are read.
        supervisor: What runs.
        gate: Whose catalogue is replaced.
        starter: Knows each plugin's configuration.
        logs: Where a configuration that cannot be used is told.
        tasks: For endings that nobody waits for.
        eager: Whether eager plugins start at once; otherwise each starts at its first call.
    """

    def __init__(
        self,
        store: StoreThread,
        supervisor: Supervisor,
        gate: Gate,
        starter: Starter,
        logs: PluginLogs,
        tasks: TaskGroup,
        *,
        eager: bool,
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._gate = gate
        self._starter = starter
        self._logs = logs
        self._tasks = tasks
        self._eager = eager
        self._enabled = EnabledPlugins()
        self._configs: dict[InstanceKey, Mapping[str, Any]] = {}
        self._retiring: dict[InstanceKey, asyncio.Event] = {}
        self._looking = asyncio.Lock()
        self.keys: dict[str, InstanceKey] = {}  # by plugin: the version that is in use
        self.unreadable: dict[str, Unreadable] = {}

    async def reconcile(self) -> None:
        """Compare what runs with what the rows want: start what is new, end what is gone, tell of new settings."""
        async with self._looking:
            wanted, unreadable = await self._store.run(self._enabled.read)
            self.unreadable = {one.name: one for one in unreadable}
            keys: dict[str, InstanceKey] = {one.deployment.name: one.deployment.key for one in wanted}
            before, self.keys = self.keys, keys
            # One that is wanted again while it is still being ended comes last: it has to be gone first.
            for one in sorted(wanted, key=lambda one: one.deployment.key in self._retiring):
                if (retired := self._retiring.get(one.deployment.key)) is not None:
                    await retired.wait()
                new = before.get(one.deployment.name) != one.deployment.key
                eager = self._eager and one.deployment.manifest.start == "eager"
                self._supervisor.deploy(one.deployment, start=new and eager)
                if not new:
                    await self._tell_new_config(one.deployment.key)
            # Calls go to the new ones from here on; the old ones get to finish theirs.
            self._gate.catalogue = Catalogue(one.entry for one in wanted)
            for status in self._supervisor.statuses():
                given_up = status.state is State.FAILED and keys.get(status.key.plugin) is None
                if status.key not in keys.values() and not given_up:  # those stay, so that people see why
                    self._retire(status.key)

    def _retire(self, key: InstanceKey) -> None:
        """End a plugin once its calls are done, without waiting for that."""
        if key not in self._retiring:
            self._retiring[key] = asyncio.Event()
            self._tasks.start_soon(self._retired, key)

    async def _retired(self, key: InstanceKey) -> None:
        try:
            await self._supervisor.disable(key)
        finally:
            self._retiring.pop(key).set()

    async def _tell_new_config(self, key: InstanceKey) -> None:
        status = self._supervisor.status(key)
        if status is None or status.state is not State.RUNNING:
            return
        manifest = self._supervisor.deployment(key).manifest
        try:
            config = await self._store.run(lambda store: self._starter.config_of(store, manifest))
            if self._configs.setdefault(key, config) != config:
                self._configs[key] = config
                await self._supervisor.configure(key, config)
        except PaddockError as error:
            self._logs.write(key.plugin, f"[paddock] the new configuration is not used: {error.message}")

    async def look_again(self) -> None:
        """Reconcile, again and again."""
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            try:
                await self.reconcile()
            except PaddockError:
                continue  # the store is in trouble; calls say so

    def give_up(self, key: InstanceKey, reason: str) -> None:
        """A plugin failed too often: disable it, so that the next daemon does not begin all over."""
        why = f"failed too often: {reason}"
        self._tasks.start_soon(self._disable_row, key, why)

    async def _disable_row(self, key: InstanceKey, why: str) -> None:
        if self.keys.get(key.plugin) == key:
            await self._store.run(lambda store: disable(store, key.plugin, why))
