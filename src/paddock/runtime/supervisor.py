"""The supervisor: starts, stops and calls every plugin process of this host, within concurrency limits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from paddock.capabilities.request import MethodCounts
from paddock.core.action import Action
from paddock.core.call import CallContext
from paddock.core.errors import HostError, NotFound, PaddockError, Unavailable
from paddock.core.ids import CallId, PluginName, Tenant
from paddock.core.tasks import scoped_tasks
from paddock.manifest.model import CallableSpec
from paddock.rpc.errors import PeerLost
from paddock.runtime.calls import AskCaller, DeliveryStatus, OnEvent, plan_call
from paddock.runtime.deployment import Deployment, InstanceKey, PluginStatus
from paddock.runtime.hooks import fire_hook
from paddock.runtime.instance import PluginInstance, SupervisorDeps
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.limits.concurrency import ConcurrencyLimiter
from paddock.runtime.process_run import RunningPlugin
from paddock.runtime.protocol_adapter import RequestSender
from paddock.runtime.protocols.native.adapter import NativeAdapter

DRAIN_TIMEOUT_S = 10.0  # grace for in-flight calls before their plugin is asked to stop
IDLE_STOP_S = 600.0
_CLOSE_TIMEOUT_S = 60.0


class Supervisor:
    """Supervises the plugins of this host. Opened with `open_supervisor`, which also stops them."""

    def __init__(self, deps: SupervisorDeps, tasks: TaskGroup, *, call_timeout: float, idle_stop: float) -> None:
        self._deps = deps
        self._tasks = tasks
        self._call_timeout = call_timeout
        self._idle_stop = idle_stop
        self._instances: dict[InstanceKey, PluginInstance] = {}
        self._scopes: dict[InstanceKey, anyio.CancelScope] = {}
        self._limiter = ConcurrencyLimiter()
        self._closing = False
        self._node_losses = 0  # how often other nodes took over the effects of this host, or may have

    # --- instances ----------------------------------------------------------------------------------------------------

    def deploy(self, deployment: Deployment, *, start: bool) -> None:
        """Register a plugin, and start it now or at its first call. A registered one gets the new values.

        Plugins start in the order in which they are deployed.
        """
        instance = self._instances.get(deployment.key)
        if instance is None:
            instance = PluginInstance(deployment, self._deps)
            self._instances[deployment.key] = instance
            scope = self._scopes[deployment.key] = anyio.CancelScope()
            self._tasks.start_soon(self._run_instance, instance, scope, name=f"keep {deployment.name}")
        else:
            instance.update_deployment(replace(deployment, projects=instance.deployment.projects))
        if start and not self._closing:
            instance.enable()

    async def _run_instance(self, instance: PluginInstance, scope: anyio.CancelScope) -> None:
        with scope:
            await instance.run()

    def enable(self, key: InstanceKey) -> None:
        """Start a registered plugin with a fresh restart budget."""
        instance = self._instance(key)
        if not self._closing:
            instance.enable()

    async def wait_settled(self, key: InstanceKey) -> PluginStatus:
        """Return the plugin's status once it runs or is known not to."""
        instance = self._instance(key)
        with contextlib.suppress(PaddockError):  # the status says why
            await instance.wait_running()
        return instance.status()

    async def ensure_running(self, key: InstanceKey) -> bool:
        """Have a plugin running, with its definitions loaded; start it if it is not. Later calls see it as it is now.

        Returns:
            Whether it ran already, so that this took no time.

        Raises:
            NotFound: it is not enabled.
            Unavailable: it does not run; says why.
        """
        instance = self._instances.get(key)
        if instance is not None and instance.ready_plugin is not None:
            return True
        await self._wait_running(await self._usable_instance(key))
        return False

    def require_not_failed(self, key: InstanceKey) -> None:
        """Reject a plugin that is known to have failed. One that was not started yet counts as sound.

        Raises:
            Failed: says why.
        """
        instance = self._instances.get(key)
        if instance is not None and instance.state is PluginState.FAILED:
            raise instance.unavailable_error()

    async def wait_state_change(self, key: InstanceKey) -> PluginState:
        """Wait for a plugin's next state and return it."""
        return await self._instance(key).wait_state_change()

    async def stop(self, key: InstanceKey) -> None:
        """Stop its process gracefully, after its in-flight calls. Its next call starts it again."""
        instance = self._instances.get(key)
        if instance is None:
            return
        await self._drain(instance)
        instance.stop()
        await instance.wait_stopped()

    def abort_effects(self) -> None:
        """Kill every process that may still work on an effect: other nodes took over the effects of this host, or may
        at any moment."""
        self._node_losses += 1
        for instance in self._instances.values():
            instance.abort_effects("others take this host for dead and see to what it had begun")

    async def disable(self, key: InstanceKey) -> None:
        """Stop it, and do not start it until it is deployed again."""
        instance = self._instances.get(key)
        if instance is None:
            return
        await self.stop(key)
        instance.mark_disabled()
        if self._instances.get(key) is instance and not instance.should_run:  # it was not enabled meanwhile
            del self._instances[key]
            self._scopes.pop(key).cancel()

    def status(self, key: InstanceKey) -> PluginStatus | None:
        instance = self._instances.get(key)
        return instance.status() if instance else None

    def deployment(self, key: InstanceKey) -> Deployment:
        """Return the deployment with this key."""
        return self._instance(key).deployment

    def statuses(self) -> tuple[PluginStatus, ...]:
        """Return the status of every registered plugin, in the order of deployment."""
        return tuple(instance.status() for instance in self._instances.values())

    def statuses_of(self, tenant: Tenant, plugin: PluginName) -> tuple[PluginStatus, ...]:
        """Return the statuses of one tenant's plugin, one for each registered version."""
        instances = [
            instance for key, instance in self._instances.items() if key.plugin == plugin and key.tenant == tenant
        ]
        return tuple(instance.status() for instance in instances)

    async def close(self) -> None:
        """Stop every process, last started first; each gets its own grace time, all of them at once."""
        self._closing = True  # a late call must not restart what stops now
        last_first = tuple(reversed(self._instances.values()))  # a copy: some may be disabled while we wait
        for instance in last_first:
            instance.stop()
        with anyio.move_on_after(_CLOSE_TIMEOUT_S):
            for instance in last_first:
                await instance.wait_stopped()

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call(
        self,
        key: InstanceKey,
        spec: CallableSpec,
        payload: Mapping[str, Any],
        context: CallContext,
        *,
        call: CallId | None = None,
        on_event: OnEvent | None = None,
        ask: AskCaller | None = None,
        method_counts: MethodCounts | None = None,
        status: DeliveryStatus | None = None,
    ) -> Any:
        """Run one callable of a plugin; starts the plugin if it does not run yet.

        `call` is the call's id. `on_event` gets the plugin's progress events, `ask` puts its questions to the caller,
        `method_counts` counts the host methods that it uses, and `status` records how far the call got.

        Raises:
            Busy: too many calls are in flight.
            NotFound: the plugin does not serve this method.
            HostError: `node.lost`, the call has an effect that other nodes may have taken over by now; nothing was
                sent.
            Unavailable, TimedOut, PaddockError: see `PluginConnection.call`.
        """
        losses_before = self._node_losses
        instance = self._instances.get(key)
        running = instance.ready_plugin if instance is not None else None
        if instance is None or running is None:
            instance = await self._usable_instance(key)
            running = await self._wait_running(instance)
        plan = instance.call_plans.get(spec.name)
        if plan is None or plan.spec is not spec:  # a server may offer another definition under the same name
            plan = plan_call(instance.deployment.manifest, spec, self._call_timeout)
            instance.call_plans[spec.name] = plan
        if spec.name in running.handshake.missing_callables:
            raise _not_served_error(key, spec)
        if plan.has_effect and (self._deps.is_node_lost() or losses_before != self._node_losses):
            raise HostError(
                "other hosts may consider this one dead and take over its calls",
                code="node.lost",
                hint="try again when the database can be reached",
            )
        if plan.has_effect:
            # If a cancelled call does not stop, the process is killed, and an effect in it would be in doubt.
            await running.connection.wait_cancelled_stopped()
            running = instance.ready_plugin or await self._wait_running(instance)
        connection = running.connection
        self._limiter.acquire(key, connection.in_flight)
        instance.note_call()
        try:
            return await connection.call(
                plan,
                payload,
                context,
                call=call,
                on_event=on_event,
                ask=ask,
                method_counts=method_counts,
                status=status,
            )
        finally:
            self._limiter.release(key)
            instance.note_use()

    async def _usable_instance(self, key: InstanceKey) -> PluginInstance:
        """Return the instance to call; if its process is just stopping, wait for that first."""
        instance = self._instance(key)
        while instance.is_stopping:
            await instance.wait_stopped()
            instance = self._instance(key)  # it may have been disabled
        if self._closing:
            raise Unavailable(f"{key.plugin} does not run: this host is shutting down", details={"plugin": key.plugin})
        return instance

    async def _wait_running(self, instance: PluginInstance) -> RunningPlugin:
        if instance.state in (PluginState.STOPPED, PluginState.DISABLED):
            instance.enable()
        return await instance.wait_running()

    # --- hooks --------------------------------------------------------------------------------------------------------

    async def fire(self, key: InstanceKey, hook: str, params: Mapping[str, Any], context: CallContext) -> Any:
        """Fire a session hook at a plugin. If anything goes wrong, the result is None and the session goes on."""
        instance = self._instances.get(key)
        if instance is None or hook not in instance.deployment.manifest.hooks:
            return None

        async def running() -> RunningPlugin:
            return await self._wait_running(await self._usable_instance(key))

        instance.note_use()
        return await fire_hook(
            instance.deployment,
            hook,
            params,
            context,
            running=running,
            lock=instance.hook_lock,
            publish=self._deps.publish_for(key.tenant),
            clock=self._deps.clock,
        )

    # --- configuration ------------------------------------------------------------------------------------------------

    async def configure(self, key: InstanceKey, config: Mapping[str, Any]) -> None:
        """Send a running plugin its new configuration; one that does not run reads it when it starts.

        Raises:
            PaddockError: it refused, and keeps the old one.
        """
        instance = self._instance(key)
        await self._send_if_running(instance, lambda adapter, sender: adapter.update_config(sender, config))
        instance.note_config(config)

    def current_config(self, key: InstanceKey) -> Mapping[str, Any]:
        """Return the configuration that a running plugin was sent last."""
        return self._instance(key).config

    async def activate_project(self, key: InstanceKey, project: str, config: Mapping[str, Any]) -> None:
        """Tell the plugin that a project which uses it was loaded, or loaded again."""
        instance = self._instance(key)
        await self._send_if_running(instance, lambda adapter, sender: adapter.update_project(sender, project, config))
        projects = {**instance.deployment.projects, project: config}
        instance.update_deployment(replace(instance.deployment, projects=projects))

    async def deactivate_project(self, key: InstanceKey, project: str) -> None:
        """Tell the plugin that a project which used it was unloaded."""
        instance = self._instance(key)
        await self._send_if_running(instance, lambda adapter, sender: adapter.update_project(sender, project, None))
        projects = {name: config for name, config in instance.deployment.projects.items() if name != project}
        instance.update_deployment(replace(instance.deployment, projects=projects))

    async def _send_if_running(
        self, instance: PluginInstance, send: Callable[[NativeAdapter, RequestSender], Awaitable[None]]
    ) -> None:
        if instance.state is not PluginState.RUNNING:
            return  # it gets everything when it starts
        connection = (await instance.wait_running()).connection
        if isinstance(connection.adapter, NativeAdapter):  # other protocols have no such message
            with contextlib.suppress(PeerLost):  # it is gone, and starts again with the new values
                await send(connection.adapter, connection)

    # --- idleness -----------------------------------------------------------------------------------------------------

    async def stop_idle(self) -> None:
        """Periodically stop lazily started plugins that had no call for a while."""
        while True:
            await asyncio.sleep(self._idle_stop / 4)
            now = self._deps.clock.monotonic()
            for instance in tuple(self._instances.values()):
                lazy = instance.deployment.manifest.start == "lazy"
                idle = instance.state is PluginState.RUNNING and not instance.status().in_flight
                if lazy and idle and now - instance.last_used >= self._idle_stop:
                    instance.stop()

    async def _drain(self, instance: PluginInstance) -> None:
        if instance.state is PluginState.RUNNING:
            with anyio.move_on_after(DRAIN_TIMEOUT_S):
                await (await instance.wait_running()).connection.drain()

    def _instance(self, key: InstanceKey) -> PluginInstance:
        try:
            return self._instances[key]
        except KeyError:
            raise NotFound(
                f"{key.plugin} is not enabled",
                code="plugin.not_enabled",
                action=Action.of("plugin.enable", plugin=key.plugin, tenant=key.tenant),
                details={"plugin": key.plugin},
            ) from None


def _not_served_error(key: InstanceKey, spec: CallableSpec) -> NotFound:
    return NotFound(
        f"{key.plugin} declares {spec.name} and does not serve it",
        code="method_not_found",
        hint="the plugin's author has to fix it",
        details={"plugin": key.plugin},
    )


@asynccontextmanager
async def open_supervisor(
    deps: SupervisorDeps, *, call_timeout: float = 30.0, idle_stop: float = IDLE_STOP_S
) -> AsyncGenerator[Supervisor, None]:
    """Open the supervisor for as long as the block runs; no plugin outlives it."""
    async with scoped_tasks() as tasks:
        supervisor = Supervisor(deps, tasks, call_timeout=call_timeout, idle_stop=idle_stop)
        tasks.start_soon(supervisor.stop_idle)
        try:
            yield supervisor
        finally:
            # Shielded: a cancelled host must not leave plugins behind.
            with anyio.CancelScope(shield=True):
                await supervisor.close()
