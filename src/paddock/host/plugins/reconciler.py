"""Reconciles running plugins with the desired state: starts what is new and stops what is gone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

from anyio.abc import TaskGroup

from paddock.config.variables import SECRET_UNSET, VARIABLE_UNSET
from paddock.core.errors import Invalid, Modified, NotFound, PaddockError
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.catalogue.catalogues import Catalogues
from paddock.gate.catalogue.entry import CatalogueEntry
from paddock.host.plugins.desired_state import BlockedPlugin, DesiredPlugin, DesiredState
from paddock.host.plugins.launch.preparer import LaunchPreparer
from paddock.host.plugins.logs.log_files import log_name
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.plugins.manage.enable import disable
from paddock.plugins.store.thread import StoreThread
from paddock.runtime.deployment import Deployment, InstanceKey, PluginStatus
from paddock.runtime.exit_reason import error_summary
from paddock.runtime.lifecycle import LIVE_STATES, PluginState
from paddock.runtime.supervisor import Supervisor

_log = logging.getLogger("paddock.host")

RECONCILE_INTERVAL_S = 5.0  # to notice database changes that were not announced

TenantPlugin: TypeAlias = tuple[Tenant, str]
"""A tenant's plugin: the names of both."""


class Reconciler:
    """Keeps the supervisor and the catalogues in step with the database, for all tenants in one pass.

    Args:
        store: The plugin store.
        supervisor: Runs the plugins.
        catalogues: The catalogues to replace.
        preparer: Resolves each plugin's configuration.
        logs: Receives the reason when a configuration cannot be used.
        tasks: Runs work that nothing waits for.
        eager: Whether eager plugins of the default tenant start at once; otherwise each starts at its first call.
    """

    def __init__(
        self,
        store: StoreThread,
        supervisor: Supervisor,
        catalogues: Catalogues,
        preparer: LaunchPreparer,
        logs: PluginLogs,
        tasks: TaskGroup,
        *,
        eager: bool,
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._catalogues = catalogues
        self._preparer = preparer
        self._logs = logs
        self._tasks = tasks
        self._eager = eager
        self._desired_state = DesiredState()
        self._desired: dict[InstanceKey, Deployment] = {}
        self._given_up: dict[InstanceKey, str] = {}  # the reason, emptied once it is stored
        self._configuring: dict[InstanceKey, asyncio.Event] = {}
        self._redeploying: dict[InstanceKey, asyncio.Event] = {}
        self._retiring: dict[InstanceKey, asyncio.Event] = {}
        self._restarting: set[InstanceKey] = set()  # modified, or with an erased secret: being restarted
        self._rejected_config: dict[InstanceKey, Mapping[str, Any]] = {}  # the last configuration each rejected
        self._config_unknown: set[InstanceKey] = set()  # may have accepted an unstored configuration
        self.unused_config_reasons: dict[InstanceKey, str] = {}  # as written to the plugin's log
        self._lock = asyncio.Lock()
        # Number of requested passes, and the request up to which a pass has completed.
        self._requested_pass = self._completed_pass = 0
        self.current_keys: dict[TenantPlugin, InstanceKey] = {}  # the version in use
        self.blocked: dict[TenantPlugin, BlockedPlugin] = {}
        self.embedded: dict[str, DesiredPlugin] = {}  # by plugin: embedded by the application, for the default tenant
        self._listing_fingerprints: dict[TenantPlugin, object] = {}  # of the tools in the catalogue
        # What each catalogue was built from.
        self._catalogue_inputs: Mapping[Tenant, tuple[tuple[CatalogueEntry, ...], Mapping[str, str]]] = {}

    async def reconcile(self) -> None:
        """Compare what runs with the desired state: start what is new, stop what is gone, push new configuration.

        Slow work, such as stopping a plugin or a plugin that is slow to accept its configuration, continues in the
        background: one plugin never delays another. Requests made during a pass share the next one.

        Raises:
            PaddockError: the database cannot be read; everything stays as it is.
        """
        self._requested_pass += 1
        ticket = self._requested_pass
        async with self._lock:
            if self._completed_pass >= ticket:
                return  # a pass that began after our request has completed
            covered_pass = self._requested_pass
            await self._reconcile_once()
            self._completed_pass = covered_pass

    async def _reconcile_once(self) -> None:
        await self._disable_given_up()
        desired_rows, blocked = await self._store.run(self._desired_state.read)
        embedded = {(DEFAULT_TENANT, name) for name in self.embedded}
        desired = [
            *self.embedded.values(),
            *(plugin for plugin in desired_rows if tenant_plugin_of(plugin.deployment.key) not in embedded),
        ]
        self.blocked = {tenant_plugin_of(plugin.key): plugin for plugin in blocked}
        previous_keys = self.current_keys
        self.current_keys = {tenant_plugin_of(plugin.deployment.key): plugin.deployment.key for plugin in desired}
        self._desired = {plugin.deployment.key: plugin.deployment for plugin in desired}
        for plugin in desired:
            key = plugin.deployment.key
            if previous_keys.get(tenant_plugin_of(key)) != key:
                self._deploy(plugin.deployment, start=self._eager and plugin.deployment.manifest.start == "eager")
            else:
                self._deploy(plugin.deployment, start=False)
                if key not in self._configuring:
                    self._configuring[key] = asyncio.Event()
                    self._start_task(self._push_config, key)
        # Calls go to the new versions from here on; the old ones finish theirs.
        self._update_catalogues(desired)
        self._listing_fingerprints = {
            tenant_plugin_of(plugin.deployment.key): plugin.tool_records.fingerprint for plugin in desired
        }
        for status in self._supervisor.statuses():
            if status.key not in self._desired and not self._stays_visible(status):
                self._retire(status.key)

    def _update_catalogues(self, desired: Iterable[DesiredPlugin]) -> None:
        """Replace the catalogues of the tenants whose callables changed."""
        entries: dict[Tenant, list[CatalogueEntry]] = {tenant: [] for tenant in self._desired_state.unavailable_reasons}
        for plugin in desired:
            entries.setdefault(plugin.deployment.key.tenant, []).append(plugin.entry)
        inputs = {
            tenant: (tuple(tenant_entries), self._desired_state.unavailable_reasons.get(tenant, {}))
            for tenant, tenant_entries in entries.items()
        }
        # An unchanged catalogue stays, with its targets and what is cached about them.
        self._catalogues.replace(
            {
                tenant: self._catalogues.of(tenant)
                if self._catalogue_inputs.get(tenant) == tenant_inputs
                else Catalogue(*tenant_inputs, tenant)
                for tenant, tenant_inputs in inputs.items()
            }
        )
        self._catalogue_inputs = inputs

    def listing_fingerprint(self, key: InstanceKey) -> object:
        """Return the fingerprint of a plugin's callable tools; None if it is not enabled."""
        return self._listing_fingerprints.get(tenant_plugin_of(key))

    async def wait_unused_config_reason(self, key: InstanceKey) -> str:
        """Wait until a plugin was sent its current configuration; return why it does not use it, or an empty string."""
        if (pushed := self._configuring.get(key)) is not None:
            await pushed.wait()
        return self.unused_config_reasons.get(key, "")

    @asynccontextmanager
    async def exclusive_configuration(self, key: InstanceKey) -> AsyncGenerator[None, None]:
        """Keep the reconciler from configuring a plugin while the block runs, which does it instead."""
        while (pushed := self._configuring.get(key)) is not None:
            await pushed.wait()
        self._configuring[key] = asyncio.Event()
        try:
            yield
        finally:
            self._configuring.pop(key).set()

    def mark_config_unknown(self, key: InstanceKey) -> None:
        """Note that a plugin may have accepted an unstored configuration: the next pass pushes the stored one."""
        self._config_unknown.add(key)

    async def wait_applied(self) -> None:
        """Wait for the work of the last pass: configuration pushed, and plugins redeployed that were still stopping."""
        for finished in (*self._configuring.values(), *self._redeploying.values()):
            await finished.wait()

    def _stays_visible(self, status: PluginStatus) -> bool:
        """Return whether a plugin stays listed, so that people see why it was given up."""
        return status.state is PluginState.FAILED and status.key in self._given_up

    async def enable(self, key: InstanceKey) -> PluginStatus:
        """Start an enabled plugin with its failures reset, and wait until it runs or has failed."""
        self._given_up.pop(key, None)
        await self.wait_deployed(key)
        self._supervisor.enable(key)
        return await self._supervisor.wait_settled(key)

    async def wait_deployed(self, key: InstanceKey) -> None:
        """Wait until an enabled plugin can be started: it may still be stopping."""
        if (redeployed := self._redeploying.get(key)) is not None:
            await redeployed.wait()

    def retry_modified(self) -> None:
        """Start plugins again that were rejected for modified files, without waiting: the files may have been restored.

        Every start verifies them.
        """
        self._retry_failed(Modified.code)

    async def apply_secret_change(self) -> None:
        """Push the values of changed secrets to running plugins. One that still has an erased value is restarted, and
        one that was rejected because a reference was not set is started again: the secret may be set now."""
        await self.reconcile()
        self._retry_failed(VARIABLE_UNSET)

    def _retry_failed(self, error_code: str) -> None:
        for status in self._supervisor.statuses():
            refused = status.state is PluginState.FAILED and status.error_code == error_code
            if refused and status.key in self._desired:
                self._supervisor.enable(status.key)

    async def restart_if_failed(self, key: InstanceKey) -> None:
        """Start a plugin again that had failed for good, and wait for it: the cause may have been fixed."""
        statuses = self._supervisor.statuses_of(key.tenant, key.plugin)
        if any(status.key == key and status.state is PluginState.FAILED for status in statuses):
            await self.enable(key)

    async def restart_if_running(self, key: InstanceKey) -> None:
        """Restart a plugin that has a process, and wait until it runs or has failed."""
        status = self._supervisor.status(key)
        if status is not None and status.state in LIVE_STATES:
            await self.restart(key)

    async def restart(self, key: InstanceKey) -> PluginStatus:
        """Restart a plugin in a new process: a running one is stopped first, after its calls in flight."""
        await self._supervisor.stop(key)
        return await self.enable(key)

    def restart_modified(self, key: InstanceKey) -> None:
        """Restart a plugin whose files were seen to be modified: its process must not load more of them.

        Does not wait. Every start verifies the files: so the plugin ends up rejected, with the reason visible, or runs
        with the right files if they were restored in the meantime.
        """
        self._restart_in_background(key)

    def _restart_in_background(self, key: InstanceKey) -> None:
        status = self._supervisor.status(key)
        if status is not None and status.state is PluginState.RUNNING and key not in self._restarting:
            self._restarting.add(key)
            self._start_task(self._restart_once, key)

    async def _restart_once(self, key: InstanceKey) -> None:
        try:
            await self.restart(key)
        finally:
            self._restarting.discard(key)

    async def stop_unwanted(self, plugin: str, tenant: Tenant | None = None) -> None:
        """Stop every process of a plugin that is no longer enabled, and wait for it; of one tenant or of all."""
        for status in self._supervisor.statuses():
            matches = status.key.plugin == plugin and tenant in (None, status.key.tenant)
            if matches and status.key not in self._desired:
                self._given_up.pop(status.key, None)
                self._retire(status.key)
                await self._retiring[status.key].wait()

    def _deploy(self, deployment: Deployment, *, start: bool) -> None:
        if deployment.key in self._redeploying:
            return
        if deployment.key in self._retiring:
            self._redeploying[deployment.key] = asyncio.Event()
            self._start_task(self._redeploy, deployment, start)
        else:
            self._supervisor.deploy(deployment, start=start)

    async def _redeploy(self, deployment: Deployment, start: bool) -> None:
        """Deploy a plugin that was enabled again while it is still being stopped, once it is gone."""
        key = deployment.key
        try:
            if (retired := self._retiring.get(key)) is not None:
                await retired.wait()
            if key in self._desired:
                self._supervisor.deploy(self._desired[key], start=start)
        finally:
            self._redeploying.pop(key).set()

    def _retire(self, key: InstanceKey) -> None:
        """Stop a plugin once its calls are done, without waiting."""
        if key not in self._retiring:
            self._retiring[key] = asyncio.Event()
            self._start_task(self._stop_retired, key)

    async def _stop_retired(self, key: InstanceKey) -> None:
        try:
            await self._supervisor.disable(key)
        finally:
            self._retiring.pop(key).set()

    async def _push_config(self, key: InstanceKey) -> None:
        try:
            status = self._supervisor.status(key)
            if status is None or status.state is not PluginState.RUNNING:
                self.unused_config_reasons.pop(key, None)
                self._config_unknown.discard(key)
                return  # it gets the configuration when it starts
            manifest = self._supervisor.deployment(key).manifest
            config = await self._store.run(lambda store: self._preparer.effective_config(store, manifest), key.tenant)
            # Do not push again, at every pass, what it has or what it rejected.
            if config == self._rejected_config.get(key):
                return
            if config != self._supervisor.current_config(key) or key in self._config_unknown:
                self._rejected_config[key] = config
                await self._supervisor.configure(key, config)
            self._rejected_config.pop(key, None)
            self._config_unknown.discard(key)
            self.unused_config_reasons.pop(key, None)
        except PaddockError as error:
            self._log_unused_config(key, error)
            if isinstance(error, Invalid) and any(problem.code == SECRET_UNSET for problem in error.problems):
                self._restart_in_background(key)  # its process still has the erased value
        finally:
            self._configuring.pop(key).set()

    def _log_unused_config(self, key: InstanceKey, error: PaddockError) -> None:
        """Log once why the new configuration is not used."""
        reason = error_summary(error)
        if self.unused_config_reasons.get(key) != reason:
            self.unused_config_reasons[key] = reason
            log = log_name(key.tenant, key.plugin)
            self._logs.write(log, f"[paddock] the new configuration is not used: {reason}")

    async def run_forever(self) -> None:
        """Reconcile periodically."""
        while True:
            await asyncio.sleep(RECONCILE_INTERVAL_S)
            try:
                await self.reconcile()
            except PaddockError:
                pass  # the store is unavailable; calls report it
            except Exception as error:
                report_internal_error(self.reconcile, error)

    def disable_failed(self, key: InstanceKey, reason: str) -> None:
        """Disable a plugin that failed too often, so that the next daemon does not start over with it."""
        self._given_up[key] = f"failed too often: {reason}"
        self._start_task(self.reconcile)

    async def _disable_given_up(self) -> None:
        """Store which plugins were given up; what cannot be stored now is retried in a later pass."""
        for key, reason in tuple(self._given_up.items()):  # may change while we wait
            if self.current_keys.get(tenant_plugin_of(key)) != key or not reason:
                continue
            with contextlib.suppress(NotFound):  # uninstalled: nothing is left to disable
                await self._store.run(partial(disable, name=key.plugin, given_up=reason), key.tenant)
            if self._given_up.get(key) == reason:
                self._given_up[key] = ""  # stored

    def _start_task(self, work: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        self._tasks.start_soon(self._run_contained, work, arguments)

    async def _run_contained(self, work: Callable[..., Awaitable[None]], arguments: tuple[Any, ...]) -> None:
        """Run background work. Its failure is logged and affects nothing else."""
        try:
            await work(*arguments)
        except PaddockError as error:
            _log.warning("%s: %s", work.__name__, error.message)  # retried by the next pass
        except Exception as error:
            report_internal_error(work, error)


def tenant_plugin_of(key: InstanceKey) -> TenantPlugin:
    """Return the tenant and plugin of an instance, whatever its version."""
    return key.tenant, key.plugin


def report_internal_error(work: Callable[..., Awaitable[None]], error: Exception) -> None:
    """Report a bug of ours to the event loop's exception handler; the host goes on."""
    asyncio.get_running_loop().call_exception_handler({"message": f"{work.__name__} failed", "exception": error})
