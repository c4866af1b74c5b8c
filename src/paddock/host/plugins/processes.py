"""The processes of plugins: their states, and the notifications that they send."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import anyio

from paddock.core.action import ActionJson
from paddock.core.ids import DEFAULT_TENANT, PluginName, Tenant
from paddock.core.schema_annotations import DateTime, NonNegativeInt
from paddock.host.plugins.pubsub import Subscription
from paddock.host.plugins.reconciler import Reconciler, tenant_plugin_of
from paddock.host.plugins.supervisor_events import SupervisorEvents
from paddock.plugins.store.listing import InstalledState
from paddock.plugins.store.lookup import resolve_name
from paddock.plugins.store.thread import StoreThread
from paddock.runtime.deployment import PluginStatus
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.supervisor import Supervisor


class LastFailureJson(TypedDict):
    """Why the last process failed or could not start."""

    reason: str
    hint: str
    action: ActionJson | None
    error_code: str
    at: DateTime


class RuntimeJson(TypedDict):
    """The state of a plugin's process."""

    state: PluginState
    on_demand: Annotated[bool, "Whether its next call starts it."]
    pid: NonNegativeInt | None
    cage_id: str | None
    reason: Annotated[str, "Why it does not run; empty if it does."]
    hint: str
    action: ActionJson | None
    error_code: str
    failures: NonNegativeInt
    restarts: NonNegativeInt
    last_failure: LastFailureJson | None
    running_since: DateTime | None
    restarts_in: Annotated[float | None, "Seconds."]
    in_flight: NonNegativeInt
    calls: NonNegativeInt
    unavailable_methods: list[str]
    features: list[str]
    unused_config: Annotated[str, "Why it does not use its present configuration; empty if it does."]


class PluginProcesses:
    """Reports the state of plugins' processes.

    Args:
        views: The plugin store, for reads.
        supervisor: Runs the processes.
        reconciler: Knows which version of each plugin is in use.
        events: Publishes state changes and notifications.
    """

    def __init__(
        self, views: StoreThread, supervisor: Supervisor, reconciler: Reconciler, events: SupervisorEvents
    ) -> None:
        self._views = views
        self._supervisor = supervisor
        self._reconciler = reconciler
        self._events = events

    def statuses(self) -> tuple[PluginStatus, ...]:
        """Return the status of every plugin instance the supervisor knows, of all tenants."""
        return self._supervisor.statuses()

    def runtime_status(self, name: str, tenant: Tenant) -> RuntimeJson | None:
        """Return the status of a plugin's process for a tenant, by the plugin's own name; None if it has none."""
        blocked = self._reconciler.blocked.get((tenant, name))
        if blocked is not None:
            return runtime_to_json(blocked.status())
        statuses = self._supervisor.statuses_of(tenant, PluginName(name))
        current = self._reconciler.current_keys.get((tenant, name))
        status = next((one for one in statuses if one.key == current), statuses[-1] if statuses else None)
        if status is None:
            return None
        unused = self._reconciler.unused_config_reasons.get(status.key, "")
        return runtime_to_json(status, on_demand=self.starts_on_demand(status), unused_config=unused)

    def starts_on_demand(self, status: PluginStatus) -> bool:
        """Return whether the plugin has no process right now because its next call starts one."""
        return status.state in (PluginState.DISABLED, PluginState.STOPPED) and self._is_current(status)

    async def wait_settled(self, timeout_s: float | None = None) -> tuple[PluginStatus, ...]:
        """Return all statuses once each plugin runs or failed; after `timeout_s` some may still be starting."""
        with anyio.move_on_after(timeout_s):
            for status in self._supervisor.statuses():
                if status.state in (PluginState.SPAWNING, PluginState.DISABLED) and self._is_current(status):
                    await self._supervisor.wait_settled(status.key)
        return self._supervisor.statuses()

    def restart_if_modified(self, name: str, digest: str, state: str) -> None:
        """Restart a plugin's processes, of every tenant, if its installed files were just seen to be modified."""
        if state == InstalledState.MODIFIED:
            for key in self._reconciler.current_keys.values():
                if key.plugin == name and key.digest == digest:
                    self._reconciler.restart_modified(key)

    def follow_states(self) -> Subscription[PluginStatus]:
        """Follow every plugin state change of all tenants from now on, for operators of the host."""
        return self._events.follow_states()

    def notifications_of(self, plugin: PluginName, tenant: Tenant) -> Subscription[dict[str, Any]]:
        """Follow the notifications of a plugin, by its own name, from now on."""
        return self._events.follow_notifications(tenant, plugin)

    async def follow_notifications(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> Subscription[dict[str, Any]]:
        """Follow the notifications of a plugin, by its name or alias, from now on.

        Raises:
            NotFound: it is not installed.
        """
        return self._events.follow_notifications(tenant, await self._views.run(lambda store: resolve_name(store, name)))

    def _is_current(self, status: PluginStatus) -> bool:
        return self._reconciler.current_keys.get(tenant_plugin_of(status.key)) == status.key


def runtime_to_json(status: PluginStatus, *, on_demand: bool = False, unused_config: str = "") -> RuntimeJson:
    """Serialize a status; see `PluginProcesses.starts_on_demand` and `Reconciler.unused_config_reasons`."""
    failure = status.last_failure
    return {
        "state": status.state,
        "on_demand": on_demand,
        "pid": status.pid,
        "cage_id": status.cage_id,
        "reason": status.reason,
        "hint": status.hint,
        "action": status.action.to_json() if status.action else None,
        "error_code": status.error_code,
        "failures": status.failures,
        "restarts": status.restarts,
        "last_failure": None
        if failure is None
        else {
            "reason": failure.reason,
            "hint": failure.hint,
            "action": failure.action.to_json() if failure.action else None,
            "error_code": failure.error_code,
            "at": failure.at,
        },
        "running_since": status.running_since,
        "restarts_in": status.restarts_in,
        "in_flight": status.in_flight,
        "calls": status.calls,
        "unavailable_methods": list(status.unavailable_methods),
        "features": list(status.features),
        "unused_config": unused_config,
    }
