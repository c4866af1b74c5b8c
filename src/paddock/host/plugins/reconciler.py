"""What runs is what the rows say: compares the two, starts what is new and ends what is gone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

from anyio.abc import TaskGroup

from paddock.core.errors import Modified, NotFound, PaddockError
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.gate.catalogue.catalogue import Catalogue, CatalogueEntry
from paddock.gate.gate import Gate
from paddock.host.plugins.desired_state import BlockedPlugin, DesiredPlugin, DesiredState
from paddock.host.plugins.launch.preparer import LaunchPreparer
from paddock.host.plugins.logs.log_files import log_name
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.plugins.manage.enable import disable
from paddock.plugins.store.thread import StoreThread
from paddock.runtime.deployment import Deployment, InstanceKey, PluginStatus
from paddock.runtime.exit_reason import error_summary
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.supervisor import Supervisor

_log = logging.getLogger("paddock.host")

RECONCILE_INTERVAL_S = 5.0  # seconds between two looks at the rows, for changes that nobody told us about

TenantPlugin: TypeAlias = tuple[Tenant, str]
"""A tenant's plugin, by the names of both."""


class Reconciler:
    """Keeps the supervisor and the catalogues in step with the rows, for all tenants in one look.

    Args:
        store: Where the rows are read.
        supervisor: What runs.
        gate: Whose catalogues are replaced.
        starter: Knows each plugin's configuration.
        logs: Where a configuration that cannot be used is told.
        tasks: For endings that nobody waits for.
        eager: Whether eager plugins of the default tenant start at once; otherwise each starts at its first call.
    """

    def __init__(
        self,
        store: StoreThread,
        supervisor: Supervisor,
        gate: Gate,
        starter: LaunchPreparer,
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
        self._desired_state = DesiredState()
        self._desired: dict[InstanceKey, Deployment] = {}
        self._given_up: dict[InstanceKey, str] = {}  # and why, until that is written down
        self._configuring: dict[InstanceKey, asyncio.Event] = {}
        self._redeploying: dict[InstanceKey, asyncio.Event] = {}
        self._retiring: dict[InstanceKey, asyncio.Event] = {}
        self._restarting_modified: set[InstanceKey] = set()  # files changed under them: they are being ended
        self._rejected_config: dict[InstanceKey, Mapping[str, Any]] = {}  # the configuration that a plugin did not take
        self._config_unknown: set[InstanceKey] = set()  # nobody knows whether they took what is not kept
        self.unused_config_reasons: dict[InstanceKey, str] = {}  # why it is not used, which was said
        self._lock = asyncio.Lock()
        self._requested_pass = self._completed_pass = (
            0  # how often for a look, and up to which time one was taken since
        )
        self.current_keys: dict[TenantPlugin, InstanceKey] = {}  # the version that is in use
        self.blocked: dict[TenantPlugin, BlockedPlugin] = {}
        self.embedded: dict[
            str, DesiredPlugin
        ] = {}  # by plugin: what the application around us brings the default tenant
        self._listing_fingerprints: dict[
            TenantPlugin, object
        ] = {}  # the fingerprint of the tools that the catalogue has
        self.on_catalogue_change: Callable[[], None] = lambda: None  # hears each time that catalogues were replaced
        # What each catalogue was made of.
        self._catalogue_inputs: Mapping[Tenant, tuple[tuple[CatalogueEntry, ...], Mapping[str, str]]] = {}

    async def reconcile(self) -> None:
        """Compare what runs with what the rows want: start what is new, end what is gone, tell of new settings.

        What takes its time, an ending or a plugin that is slow to take its settings, goes on by itself: one plugin
        never holds up another. All who ask while a look is under way share the next one.

        Raises:
            PaddockError: the rows cannot be read; everything stays as it is.
        """
        self._requested_pass += 1
        mine = self._requested_pass
        async with self._lock:
            if self._completed_pass >= mine:
                return  # a look that began after we asked is over
            asked = self._requested_pass
            await self._reconcile_once()
            self._completed_pass = asked

    async def _reconcile_once(self) -> None:
        await self._disable_given_up()
        rows, unfit = await self._store.run(self._desired_state.read)
        brought = {(DEFAULT_TENANT, name) for name in self.embedded}
        wanted = [
            *self.embedded.values(),
            *(one for one in rows if tenant_plugin_of(one.deployment.key) not in brought),
        ]
        self.blocked = {tenant_plugin_of(one.key): one for one in unfit}
        before = self.current_keys
        self.current_keys = {tenant_plugin_of(one.deployment.key): one.deployment.key for one in wanted}
        self._desired = {one.deployment.key: one.deployment for one in wanted}
        for one in wanted:
            key = one.deployment.key
            if before.get(tenant_plugin_of(key)) != key:
                self._deploy(one.deployment, start=self._eager and one.deployment.manifest.start == "eager")
            else:
                self._deploy(one.deployment, start=False)
                if key not in self._configuring:
                    self._configuring[key] = asyncio.Event()
                    self._start_task(self._push_config, key)
        # Calls go to the new ones from here on; the old ones get to finish theirs.
        self._update_catalogues(wanted)
        self._listing_fingerprints = {tenant_plugin_of(one.deployment.key): one.listing.fingerprint for one in wanted}
        for status in self._supervisor.statuses():
            if status.key not in self._desired and not self._stays_visible(status):
                self._retire(status.key)

    def _update_catalogues(self, wanted: Iterable[DesiredPlugin]) -> None:
        """Replace the catalogues of those tenants that can call something else than before."""
        entries: dict[Tenant, list[CatalogueEntry]] = {tenant: [] for tenant in self._desired_state.unavailable_reasons}
        for one in wanted:
            entries.setdefault(one.deployment.key.tenant, []).append(one.entry)
        offered = {
            tenant: (tuple(theirs), self._desired_state.unavailable_reasons.get(tenant, {}))
            for tenant, theirs in entries.items()
        }
        before, known = self._gate.catalogues, self._catalogue_inputs
        # One that stays keeps its targets, and what is remembered about them.
        self._gate.catalogues = {
            tenant: before[tenant] if known.get(tenant) == made_of else Catalogue(*made_of, tenant)
            for tenant, made_of in offered.items()
        }
        if self._catalogue_inputs != offered:
            self._catalogue_inputs = offered
            self.on_catalogue_change()

    def listing_fingerprint(self, key: InstanceKey) -> object:
        """The fingerprint of the tools that can be called of a plugin; None where it is not enabled."""
        return self._listing_fingerprints.get(tenant_plugin_of(key))

    async def wait_unused_config_reason(self, key: InstanceKey) -> str:
        """Why a plugin goes on with the configuration that it has, once it was told of the one that there is by now."""
        if (telling := self._configuring.get(key)) is not None:
            await telling.wait()
        return self.unused_config_reasons.get(key, "")

    @asynccontextmanager
    async def exclusive_configuration(self, key: InstanceKey) -> AsyncGenerator[None, None]:
        """Tells a plugin nothing of its configuration while the block runs, which does."""
        while (telling := self._configuring.get(key)) is not None:
            await telling.wait()
        self._configuring[key] = asyncio.Event()
        try:
            yield
        finally:
            self._configuring.pop(key).set()

    def mark_config_unknown(self, key: InstanceKey) -> None:
        """A plugin may have taken a configuration that is not kept: the next look tells it again what is."""
        self._config_unknown.add(key)

    async def wait_applied(self) -> None:
        """Wait for what the last look began: settings told, and plugins back that were still being ended."""
        for under_way in (*self._configuring.values(), *self._redeploying.values()):
            await under_way.wait()

    def _stays_visible(self, status: PluginStatus) -> bool:
        """Whether it stays in view, so that people see why it was given up."""
        return status.state is PluginState.FAILED and status.key in self._given_up

    async def enable(self, key: InstanceKey) -> PluginStatus:
        """Start a plugin that the rows want, its failures forgotten, and wait until it runs or is known not to."""
        self._given_up.pop(key, None)
        if (returning := self._redeploying.get(key)) is not None:
            await returning.wait()
        self._supervisor.enable(key)
        return await self._supervisor.wait_settled(key)

    def retry_modified(self) -> None:
        """Start those once more that were refused for their files, without waiting for that: somebody may have put them
        back, and every start compares them."""
        for status in self._supervisor.statuses():
            refused = status.state is PluginState.FAILED and status.error_code == Modified.code
            if refused and status.key in self._desired:
                self._supervisor.enable(status.key)

    async def restart_if_failed(self, key: InstanceKey) -> None:
        """Start a plugin once more that is not tried any more, and wait for that: what kept it from running may be
        mended."""
        found = self._supervisor.statuses_of(key.tenant, key.plugin)
        if any(status.key == key and status.state is PluginState.FAILED for status in found):
            await self.enable(key)

    async def restart(self, key: InstanceKey) -> PluginStatus:
        """The same with a new process: one that runs is ended first, after the calls under way."""
        await self._supervisor.stop(key)
        return await self.enable(key)

    def restart_modified(self, key: InstanceKey) -> None:
        """Somebody saw that the files of a plugin changed: what runs of it must not load more of them.

        It is started anew, without waiting for that, and every start compares the files: so it ends up refused, with
        the reason for all to see, or runs with the right files where they were restored meanwhile.
        """
        status = self._supervisor.status(key)
        if status is not None and status.state is PluginState.RUNNING and key not in self._restarting_modified:
            self._restarting_modified.add(key)
            self._start_task(self._restart_once, key)

    async def _restart_once(self, key: InstanceKey) -> None:
        try:
            await self.restart(key)
        finally:
            self._restarting_modified.discard(key)

    async def stop_unwanted(self, plugin: str, tenant: Tenant | None = None) -> None:
        """End every process of a plugin that the rows no longer want, and wait for that; of one tenant, or of all."""
        for status in self._supervisor.statuses():
            ours = status.key.plugin == plugin and tenant in (None, status.key.tenant)
            if ours and status.key not in self._desired:
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
        """One that is wanted again while it is still being ended has to be gone first."""
        key = deployment.key
        try:
            if (retired := self._retiring.get(key)) is not None:
                await retired.wait()
            if key in self._desired:
                self._supervisor.deploy(self._desired[key], start=start)
        finally:
            self._redeploying.pop(key).set()

    def _retire(self, key: InstanceKey) -> None:
        """End a plugin once its calls are done, without waiting for that."""
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
                return  # it reads them when it starts
            manifest = self._supervisor.deployment(key).manifest
            config = await self._store.run(lambda store: self._starter.effective_config(store, manifest), key.tenant)
            # What it has, and what it refused, it need not be told again at every look.
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
        finally:
            self._configuring.pop(key).set()

    def _log_unused_config(self, key: InstanceKey, error: PaddockError) -> None:
        """Say once why the new configuration is not used."""
        words = error_summary(error)
        if self.unused_config_reasons.get(key) != words:
            self.unused_config_reasons[key] = words
            log = log_name(key.tenant, key.plugin)
            self._logs.write(log, f"[paddock] the new configuration is not used: {words}")

    async def run_forever(self) -> None:
        """Reconcile, again and again."""
        while True:
            await asyncio.sleep(RECONCILE_INTERVAL_S)
            try:
                await self.reconcile()
            except PaddockError:
                pass  # the store is in trouble; calls say so
            except Exception as error:
                report_internal_error(self.reconcile, error)

    def disable_failed(self, key: InstanceKey, reason: str) -> None:
        """A plugin failed too often: disable it, so that the next daemon does not begin all over."""
        self._given_up[key] = f"failed too often: {reason}"
        self._start_task(self.reconcile)

    async def _disable_given_up(self) -> None:
        """Write down who was given up; what cannot be written now is written at a later look."""
        for key, why in tuple(self._given_up.items()):  # others are given up, or enabled again, meanwhile
            if self.current_keys.get(tenant_plugin_of(key)) != key or not why:
                continue
            with contextlib.suppress(NotFound):  # uninstalled: nothing is left to disable
                await self._store.run(partial(disable, name=key.plugin, given_up=why), key.tenant)
            if self._given_up.get(key) == why:
                self._given_up[key] = ""  # written

    def _start_task(self, work: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        self._tasks.start_soon(self._run_contained, work, arguments)

    async def _run_contained(self, work: Callable[..., Awaitable[None]], arguments: tuple[Any, ...]) -> None:
        """Work that nobody waits for. Its failure is told and takes nothing else with it."""
        try:
            await work(*arguments)
        except PaddockError as error:
            _log.warning("%s: %s", work.__name__, error.message)  # looked at again soon
        except Exception as error:
            report_internal_error(work, error)


def tenant_plugin_of(key: InstanceKey) -> TenantPlugin:
    """Whose plugin it is, whatever its version."""
    return key.tenant, key.plugin


def report_internal_error(work: Callable[..., Awaitable[None]], error: Exception) -> None:
    """A mistake of ours is told where such things are told; the host goes on."""
    asyncio.get_running_loop().call_exception_handler({"message": f"{work.__name__} failed", "exception": error})
