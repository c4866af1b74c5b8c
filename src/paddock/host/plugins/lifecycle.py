"""The lifecycle of a plugin in a running host: enabled, started, applied to a new version, stopped and disabled.

enable → its row is stored → reconciled (catalogue, supervisor) → its process starts → it runs, or has failed
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, TypedDict

import anyio

from paddock.config.local_file import read_entries
from paddock.core.action import Action
from paddock.core.errors import Conflict, MistakeJson, PaddockError, Problem
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.host.identity.caller import local_principal
from paddock.host.plugins.processes import RuntimeJson, runtime_to_json
from paddock.host.plugins.reconciler import Reconciler
from paddock.host.plugins.uninstall import UninstallCleanup
from paddock.manifest.capability import Capability
from paddock.manifest.permissions import requested_capabilities
from paddock.plugins.install.config_secrets import find_unset_references
from paddock.plugins.install.consent_screen import ConsentScreenJson, grant_screen
from paddock.plugins.install.path_checks import unreadable_paths_here
from paddock.plugins.manage.enable import (
    NewlyEnabled,
    disable,
    disable_not_started,
    enable_revocably,
    find_grant_state,
)
from paddock.plugins.manage.grant import grant_capabilities
from paddock.plugins.manage.remove import clean_up_interrupted
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import VersionRow
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.plugins.tool_pinning.tools import load_tools
from paddock.plugins.trust.trusted_keys import is_signed_by, trusted_key_ids
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.supervisor import Supervisor

_log = logging.getLogger("paddock.host")

_DISABLE_TIMEOUT_S = 3.0  # for one that does not start, after the client of the request has left
VERSION_START_TIMEOUT_S = 60.0  # how long a version change waits for the new processes


class EnabledPluginJson(RuntimeJson):
    """A plugin that was enabled, with the state of its process."""

    name: str
    version: str
    enabled: Annotated[bool, "False if it did not start and was disabled again; see `disable_unless_started`."]
    warnings: Annotated[
        list[MistakeJson], "What it will lack when it runs: paths it cannot read; if not started, unset variables."
    ]


class GrantStateJson(TypedDict):
    """What a tenant has granted to a plugin, and what the plugin requests."""

    name: str
    version: Annotated[str, "The version in use."]
    digest: Annotated[str, "The digest of its files, which a grant names."]
    enabled: Annotated[bool, "Whether it is enabled: then it starts once nothing is missing."]
    granted_before: Annotated[bool, "Whether the tenant has granted it anything before."]
    requested: Annotated[list[str], "The capabilities that it requests."]
    missing: Annotated[list[str], "Those that the tenant has not granted."]
    screen: Annotated[ConsentScreenJson, "What a person has to be shown before a first grant."]


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
        environ: The variables that configurations may refer to.
    """

    def __init__(
        self,
        store: StoreThread,
        supervisor: Supervisor,
        reconciler: Reconciler,
        uninstall_cleanup: UninstallCleanup,
        environ: Mapping[str, str],
    ) -> None:
        self._store = store
        self._environ = environ
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
        start: bool = True,
        disable_unless_started: bool = False,
        by: PrincipalId | None = None,
    ) -> EnabledPluginJson:
        """Enable a plugin for a tenant, and wait until it runs or has failed.

        Args:
            name: Its name or an alias.
            tenant: The tenant. Installing a plugin grants its requested capabilities to the default tenant alone.
            acknowledged: The capabilities that a person has just granted for this tenant.
            anew: Start a new process even if one is running.
            start: Whether to start it. Otherwise it starts at its first call, or with the next daemon.
            disable_unless_started: Disable it again if it was disabled before and does not start, or if this is
                cancelled before it runs. It stays enabled if its grant was changed meanwhile, e.g. enabled by another.
            by: The principal to record; the operator by default.

        Raises:
            NeedsConsent: the plugin requests more than the tenant granted; nothing has changed.
            PaddockError: it cannot be enabled; see `plugins/manage/enable.py`.
        """
        granted = tuple(acknowledged)
        recorded_by = by or local_principal(None).id

        newly: NewlyEnabled | None = None

        def record(store: PluginStore) -> tuple[VersionRow, list[Problem]]:
            nonlocal newly
            row, newly = enable_revocably(store, name, granted)
            warnings = unreadable_paths_here(manifest_of(row).capabilities)
            entry = read_entries(store.config_file).get(row.plugin)
            if entry is not None and not start:  # a start reports unset variables itself
                unset = find_unset_references(store, entry, self._environ)
                warnings += [problem for problems in unset.values() for problem in problems]
            return row, warnings

        enabled = True
        try:
            row, warnings = await self._store.run(record, tenant, by=recorded_by)
            runtime = await self._apply_enabled(row, tenant, anew=anew, start=start)
            if newly is not None and disable_unless_started and start and runtime["state"] != PluginState.RUNNING:
                enabled = await self._disable_not_started(newly, tenant, recorded_by)
        except BaseException:
            if disable_unless_started and start:
                with anyio.move_on_after(_DISABLE_TIMEOUT_S, shield=True):
                    await self._store.run(lambda _store: None)  # a cancelled change runs to its end
                    if newly is not None and not self._runs(newly.plugin, tenant):
                        await self._disable_not_started(newly, tenant, recorded_by, wait=False)
            raise
        return {
            "name": row.plugin,
            "version": row.version,
            "enabled": enabled,
            "warnings": [warning.to_dict() for warning in warnings],
            **runtime,
        }

    def _runs(self, plugin: str, tenant: Tenant) -> bool:
        key = self._reconciler.current_keys.get((tenant, plugin))
        status = self._supervisor.status(key) if key is not None else None
        return status is not None and status.state is PluginState.RUNNING

    async def _disable_not_started(
        self, newly: NewlyEnabled, tenant: Tenant, by: PrincipalId, *, wait: bool = True
    ) -> bool:
        """Disable a plugin again that does not start, and wait until it is stopped; return whether it is enabled.

        What fails here is logged: why the plugin does not start is what has to be reported.
        """
        enabled = True
        try:
            enabled = await self._store.run(lambda store: disable_not_started(store, newly), tenant, by=by)
            if not enabled:
                await self._reconciler.reconcile()
                if wait:
                    await self._reconciler.stop_unwanted(newly.plugin, tenant)
        except PaddockError as error:
            _log.warning("%s does not start, and could not be disabled again: %s", newly.plugin, error.message)
        return enabled

    async def _apply_enabled(self, row: VersionRow, tenant: Tenant, *, anew: bool, start: bool) -> RuntimeJson:
        """Apply that a plugin is enabled, and wait until it runs or has failed; if not to be started, is deployed."""
        await self._reconciler.reconcile()
        blocked = self._reconciler.blocked.get((tenant, row.plugin))
        if blocked is not None:
            raise blocked.error
        key = self._reconciler.current_keys.get((tenant, row.plugin))
        if key is None:
            raise Conflict(
                f"{row.plugin} was disabled while it was being enabled",
                code="plugin.changed_meanwhile",
                action=Action.of("plugin.enable", plugin=row.plugin, tenant=tenant),
            )
        if start:
            status = await (self._reconciler.restart(key) if anew else self._reconciler.enable(key))
            return runtime_to_json(status, unused_config=await self._reconciler.wait_unused_config_reason(key))
        await self._reconciler.wait_deployed(key)
        status = self._supervisor.status(key)
        assert status is not None, "the reconciler deploys what is enabled"
        return runtime_to_json(status, on_demand=status.state in (PluginState.DISABLED, PluginState.STOPPED))

    async def grant(
        self, name: str, capabilities: Iterable[Capability], *, digest: str, tenant: Tenant, by: PrincipalId
    ) -> GrantStateJson:
        """Grant capabilities to a plugin for a tenant, and return what it is granted then. `by` consented to them.

        One that is enabled may start with them, so it is checked as `enable` checks it.

        Raises:
            Conflict: the version in use is not the one of this digest.
            NotFound: it is not installed.
            OperatorError: it does not request one of them.
        """
        consented = tuple(capabilities)
        row = await self._store.run(lambda store: grant_capabilities(store, name, consented, digest), tenant, by=by)
        await self._reconciler.reconcile()
        return await self.grant_state(row.plugin, tenant)

    async def grant_state(self, name: str, tenant: Tenant) -> GrantStateJson:
        """Return what a tenant has granted to a plugin, and what it would have to grant to enable it.

        Raises:
            NotFound: it is not installed.
            PluginError: the version it is pinned to was removed.
        """

        def read(store: PluginStore) -> GrantStateJson:
            state, keys = store.database.read(lambda tx: (find_grant_state(tx, store, name), trusted_key_ids(tx)))
            trusted = is_signed_by(state.row, keys)
            findings = load_tools(store, state.row.plugin).scan_findings()
            return {
                "name": state.row.plugin,
                "version": state.row.version,
                "digest": state.row.digest,
                "enabled": state.grant is not None and state.grant.enabled,
                "granted_before": state.grant is not None,
                "requested": [str(one) for one in requested_capabilities(manifest_of(state.row))],
                "missing": [str(one) for one in state.missing_capabilities()],
                "screen": grant_screen(state.row, tenant, findings, trusted=trusted).to_value(),
            }

        return await self._store.run(read, tenant)

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
