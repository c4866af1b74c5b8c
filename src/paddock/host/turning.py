"""Turning knobs while plugins run: the plugin is told first, and only what it takes is kept."""

from __future__ import annotations

from typing import Any

from paddock.config.knob_values import Turn
from paddock.core.errors import PaddockError, PluginError, TimedOut
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.host.callers import at_this_machine
from paddock.host.knobs import Plan, carry_out, knobs_of, plan_turn
from paddock.host.reconciling import Reconciler
from paddock.host.starting import Starter
from paddock.plugins.store_thread import StoreThread
from paddock.plugins.supervision.deployment import InstanceKey
from paddock.plugins.supervision.ending import in_one_sentence
from paddock.plugins.supervision.lifecycle import State
from paddock.plugins.supervision.supervisor import Supervisor


class Turning:
    """Turns knobs of plugins.

    Args:
        store: Where values are kept.
        supervisor: What runs, and is told.
        reconciler: Knows which version runs, and tells plugins their configuration too.
        starter: Puts a configuration together.
    """

    def __init__(self, store: StoreThread, supervisor: Supervisor, reconciler: Reconciler, starter: Starter) -> None:
        self._store = store
        self._supervisor = supervisor
        self._reconciler = reconciler
        self._starter = starter

    async def turn(
        self, name: str, turn: Turn, *, tenant: Tenant = DEFAULT_TENANT, by: PrincipalId | None = None
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
        doer = by or at_this_machine(None).id
        plan = await self._store.run(lambda store: plan_turn(store, name, turn), tenant)
        key = self._reconciler.keys.get((tenant, plan.manifest.name))
        if key is None:
            await self._store.run(lambda store: carry_out(store, plan_turn(store, name, turn)), tenant, by=doer)
        else:
            await self._turn(key, turn, doer)
        return await self._store.run(lambda store: knobs_of(store, name), tenant)

    async def _turn(self, key: InstanceKey, turn: Turn, by: PrincipalId) -> None:
        status = self._supervisor.status(key)
        if status is not None and status.state is State.SPAWNING:
            await self._supervisor.settled(key)  # it may have read its configuration already
        async with self._reconciler.alone_with(key):
            plan = await self._store.run(lambda store: plan_turn(store, key.plugin, turn), key.tenant)
            if not plan.changed:
                return
            await self._tell(key, plan)
            # Should this fail, or never be reached, the next look tells the plugin again what is kept.
            await self._store.run(lambda store: carry_out(store, plan), key.tenant, by=by)
        # One that was started meanwhile has read what was kept before.
        await self._reconciler.reconcile()
        await self._reconciler.unused_config(key)

    async def _tell(self, key: InstanceKey, plan: Plan) -> None:
        status = self._supervisor.status(key)
        if status is None or status.state is not State.RUNNING or key.digest != plan.digest:
            return
        config = await self._store.run(
            lambda store: self._starter.config_with(store, plan.manifest, plan.fields), key.tenant
        )
        try:
            await self._supervisor.configure(key, config)
        except TimedOut:
            self._reconciler.doubt(key)
            raise
        except PaddockError as refusal:
            raise PluginError(
                f"{key.plugin} does not take this, and nothing was changed: {in_one_sentence(refusal)}",
                code="knobs.refused",
                hint="choose other values; what it takes is its own to say",
                details=refusal.details,
            ) from None
