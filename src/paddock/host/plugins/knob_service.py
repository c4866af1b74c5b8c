"""Turning knobs while plugins run: the plugin is told first, and only what it takes is kept."""

from __future__ import annotations

from typing import Any

from paddock.config.knob_values import KnobUpdate
from paddock.core.errors import PaddockError, PluginError, TimedOut
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.host.identity.caller import local_principal
from paddock.host.plugins.knobs import KnobChange, describe_knobs, plan_knob_change, store_knob_change
from paddock.host.plugins.launch.preparer import LaunchPreparer
from paddock.host.plugins.reconciler import Reconciler
from paddock.plugins.store.thread import StoreThread
from paddock.runtime.deployment import InstanceKey
from paddock.runtime.exit_reason import error_summary
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.supervisor import Supervisor


class KnobService:
    """Turns knobs of plugins.

    Args:
        store: Where values are kept.
        supervisor: What runs, and is told.
        reconciler: Knows which version runs, and tells plugins their configuration too.
        starter: Puts a configuration together.
    """

    def __init__(
        self, store: StoreThread, supervisor: Supervisor, reconciler: Reconciler, starter: LaunchPreparer
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._reconciler = reconciler
        self._starter = starter

    async def set_knobs(
        self, name: str, turn: KnobUpdate, *, tenant: Tenant = DEFAULT_TENANT, by: PrincipalId | None = None
    ) -> dict[str, Any]:
        """Set knobs of a plugin, all of them or none, and give them as they are then. A running plugin goes by them.

        One that does not run is given them when it starts, and so is one whose protocol has no word for it, as MCP.

        Args:
            name: The plugin's name or an alias.
            turn: What is wanted.
            tenant: Whose plugin it is.
            by: Who wants it, for the record; the operator where nobody is named.

        Raises:
            NotFound: it is not installed.
            Invalid: these are no values for its knobs, with every mistake; or its configuration is not valid.
            Conflict: it was changed at the same moment.
            PluginError: `knobs.refused`, it runs and does not take them.
            TimedOut: it runs and did not say whether it takes them.
        """
        doer = by or local_principal(None).id
        plan = await self._store.run(lambda store: plan_knob_change(store, name, turn), tenant)
        key = self._reconciler.current_keys.get((tenant, plan.manifest.name))
        if key is None:
            await self._store.run(
                lambda store: store_knob_change(store, plan_knob_change(store, name, turn)), tenant, by=doer
            )
        else:
            await self._set_enabled_knobs(key, turn, doer)
        return await self._store.run(lambda store: describe_knobs(store, name), tenant)

    async def _set_enabled_knobs(self, key: InstanceKey, turn: KnobUpdate, by: PrincipalId) -> None:
        status = self._supervisor.status(key)
        if status is not None and status.state is PluginState.SPAWNING:
            await self._supervisor.wait_settled(key)  # it may have read its configuration already
        async with self._reconciler.exclusive_configuration(key):
            plan = await self._store.run(lambda store: plan_knob_change(store, key.plugin, turn), key.tenant)
            if not plan.changed_names:
                return
            await self._push_config(key, plan)
            # Should this fail, or never be reached, the next look tells the plugin again what is kept.
            await self._store.run(lambda store: store_knob_change(store, plan), key.tenant, by=by)
        # One that was started meanwhile has read what was kept before.
        await self._reconciler.reconcile()
        await self._reconciler.wait_unused_config_reason(key)

    async def _push_config(self, key: InstanceKey, plan: KnobChange) -> None:
        status = self._supervisor.status(key)
        if status is None or status.state is not PluginState.RUNNING or key.digest != plan.digest:
            return
        config = await self._store.run(
            lambda store: self._starter.config_with_project_values(store, plan.manifest, plan.fields), key.tenant
        )
        try:
            await self._supervisor.configure(key, config)
        except TimedOut:
            self._reconciler.mark_config_unknown(key)
            raise
        except PaddockError as refusal:
            raise PluginError(
                f"{key.plugin} does not take this, and nothing was changed: {error_summary(refusal)}",
                code="knobs.refused",
                hint="choose other values; what it takes is its own to say",
                details=refusal.details,
            ) from None
