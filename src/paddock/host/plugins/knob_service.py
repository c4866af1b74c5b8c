"""Describes and sets knobs while plugins run: the plugin must accept the new configuration before it is stored."""

from __future__ import annotations

from paddock.config.knob_values import KnobUpdate
from paddock.core.errors import PaddockError, PluginError, TimedOut
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.host.identity.caller import local_principal
from paddock.host.plugins.configuration.knobs import (
    KnobChange,
    KnobsJson,
    describe_knobs,
    plan_knob_change,
    store_knob_change,
)
from paddock.host.plugins.launch.preparer import LaunchPreparer
from paddock.host.plugins.reconciler import Reconciler
from paddock.plugins.store.thread import StoreThread
from paddock.runtime.deployment import InstanceKey
from paddock.runtime.exit_reason import error_summary
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.supervisor import Supervisor


class KnobService:
    """Describes and sets the knobs of plugins.

    Args:
        store: The plugin store, which holds the values.
        views: The plugin store, for reads.
        supervisor: Configures running plugins.
        reconciler: Knows which version runs, and also pushes configuration to plugins.
        preparer: Assembles a plugin's configuration.
    """

    def __init__(
        self,
        store: StoreThread,
        views: StoreThread,
        supervisor: Supervisor,
        reconciler: Reconciler,
        preparer: LaunchPreparer,
    ) -> None:
        self._store = store
        self._views = views
        self._supervisor = supervisor
        self._reconciler = reconciler
        self._preparer = preparer

    async def describe(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> KnobsJson:
        """Describe a plugin's knobs with their values. See `describe_knobs`."""
        return await self._views.run(lambda store: describe_knobs(store, name), tenant)

    async def set_knobs(
        self, name: str, update: KnobUpdate, *, tenant: Tenant = DEFAULT_TENANT, by: PrincipalId | None = None
    ) -> KnobsJson:
        """Set knobs of a plugin atomically and return the resulting values. A running plugin applies them at once.

        A stopped plugin gets them at its start, and so does one whose protocol cannot push configuration, as MCP.

        Args:
            name: The plugin's name or an alias.
            update: The requested knob values.
            tenant: The plugin's tenant.
            by: The principal to record; the operator by default.

        Raises:
            NotFound: it is not installed.
            Invalid: the values are invalid, with every mistake; or the plugin's configuration is.
            Conflict: it was changed concurrently.
            PluginError: `knobs.refused`, it runs and rejects them.
            TimedOut: it runs and did not say whether it accepts them.
        """
        recorded_by = by or local_principal(None).id
        plan = await self._store.run(lambda store: plan_knob_change(store, name, update), tenant)
        key = self._reconciler.current_keys.get((tenant, plan.manifest.name))
        if key is None:
            await self._store.run(
                lambda store: store_knob_change(store, plan_knob_change(store, name, update)), tenant, by=recorded_by
            )
        else:
            await self._set_enabled_knobs(key, update, recorded_by)
        return await self._store.run(lambda store: describe_knobs(store, name), tenant)

    async def _set_enabled_knobs(self, key: InstanceKey, update: KnobUpdate, by: PrincipalId) -> None:
        status = self._supervisor.status(key)
        if status is not None and status.state is PluginState.SPAWNING:
            await self._supervisor.wait_settled(key)  # it may have read its configuration already
        async with self._reconciler.exclusive_configuration(key):
            plan = await self._store.run(lambda store: plan_knob_change(store, key.plugin, update), key.tenant)
            if not plan.changed_names:
                return
            await self._push_config(key, plan)
            # If this fails or is never reached, the next reconciliation pushes the stored values again.
            await self._store.run(lambda store: store_knob_change(store, plan), key.tenant, by=by)
        # A process that started in the meantime has read the old values.
        await self._reconciler.reconcile()
        await self._reconciler.wait_unused_config_reason(key)

    async def _push_config(self, key: InstanceKey, plan: KnobChange) -> None:
        status = self._supervisor.status(key)
        if status is None or status.state is not PluginState.RUNNING or key.digest != plan.digest:
            return
        config = await self._store.run(
            lambda store: self._preparer.config_with_project_values(store, plan.manifest, plan.fields), key.tenant
        )
        try:
            await self._supervisor.configure(key, config)
        except TimedOut:
            self._reconciler.mark_config_unknown(key)
            raise
        except PaddockError as rejection:
            raise PluginError(
                f"{key.plugin} does not take this, and nothing was changed: {error_summary(rejection)}",
                code="knobs.refused",
                hint="choose other values; what it takes is its own to say",
                details=rejection.details,
            ) from None
