"""Every plugin process of this host: who runs, who is asked, and how much at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
from anyio.abc import TaskGroup

from paddock.capabilities.request import MethodCounts
from paddock.core.call import CallContext
from paddock.core.errors import HostError, NotFound, PaddockError, Unavailable
from paddock.core.ids import CallId, PluginName, Tenant
from paddock.core.tasks import scoped_tasks
from paddock.manifest.model import CallableSpec
from paddock.plugins.manage.repair_text import tenant_option
from paddock.rpc.errors import PeerLost
from paddock.runtime.calls import AskCaller, DeliveryStatus, OnEvent, plan_call
from paddock.runtime.deployment import Deployment, InstanceKey, PluginStatus
from paddock.runtime.hooks import fire_hook
from paddock.runtime.instance import PluginInstance, SupervisorDeps
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.process_run import RunningPlugin
from paddock.runtime.protocol_adapter import HookAdapter, RequestSender
from paddock.runtime.throttle import ConcurrencyLimiter

DRAIN_TIMEOUT_S = 10.0  # seconds that calls under way get before their plugin is asked to stop
IDLE_STOP_S = 600.0
_CLOSE_TIMEOUT_S = 60.0


class Supervisor:
    """The plugins of this host. Opened with `open_supervisor`, which also ends them."""

    def __init__(self, around: SupervisorDeps, tasks: TaskGroup, *, call_timeout: float, idle_stop: float) -> None:
        self._deps = around
        self._tasks = tasks
        self._call_timeout = call_timeout
        self._idle_stop = idle_stop
        self._instances: dict[InstanceKey, PluginInstance] = {}
        self._scopes: dict[InstanceKey, anyio.CancelScope] = {}
        self._limiter = ConcurrencyLimiter()
        self._closing = False
        self.is_node_lost: Callable[[], bool] = lambda: False  # whether others may see to the effects of this host
        self._node_losses = 0  # how often they did, or may have

    # --- which plugins there are --------------------------------------------------------------------------------------

    def deploy(self, deployment: Deployment, *, start: bool) -> None:
        """Know a plugin, and start it now or at its first call. One that is known already is given the new values.

        Plugins start in the order in which they are deployed.
        """
        keeper = self._instances.get(deployment.key)
        if keeper is None:
            keeper = PluginInstance(deployment, self._deps)
            self._instances[deployment.key] = keeper
            scope = self._scopes[deployment.key] = anyio.CancelScope()
            self._tasks.start_soon(self._run_instance, keeper, scope, name=f"keep {deployment.name}")
        else:
            keeper.update_deployment(replace(deployment, projects=keeper.deployment.projects))
        if start and not self._closing:
            keeper.enable()

    async def _run_instance(self, keeper: PluginInstance, scope: anyio.CancelScope) -> None:
        with scope:
            await keeper.run()

    def enable(self, key: InstanceKey) -> None:
        """Start a known plugin, its failures forgotten."""
        keeper = self._instance(key)
        if not self._closing:
            keeper.enable()

    async def wait_settled(self, key: InstanceKey) -> PluginStatus:
        """How a plugin is doing once it either runs or is known not to."""
        keeper = self._instance(key)
        with contextlib.suppress(PaddockError):  # the status says why
            await keeper.wait_running()
        return keeper.status()

    async def ensure_running(self, key: InstanceKey) -> bool:
        """Have a plugin running, and so met; one that is not is started. Whoever calls it next finds it as it is now.

        Returns:
            Whether it ran already, so that this took no time.

        Raises:
            NotFound: it is not enabled.
            Unavailable: it does not run, and the reason.
        """
        keeper = self._instances.get(key)
        if keeper is not None and keeper.ready_plugin is not None:
            return True
        await self._wait_running(await self._usable_instance(key))
        return False

    def require_not_failed(self, key: InstanceKey) -> None:
        """Refuse a plugin that is known not to run. One that was not started yet is sound as far as anybody knows.

        Raises:
            Failed: says why.
        """
        keeper = self._instances.get(key)
        if keeper is not None and keeper.state is PluginState.FAILED:
            raise keeper.unavailable_error()

    async def wait_state_change(self, key: InstanceKey) -> PluginState:
        """The next state a plugin gets into."""
        return await self._instance(key).wait_state_change()

    async def stop(self, key: InstanceKey) -> None:
        """End its process gracefully, after the calls under way. Its next call starts it again."""
        keeper = self._instances.get(key)
        if keeper is None:
            return
        await self._drain(keeper)
        keeper.stop()
        await keeper.wait_stopped()

    def abort_effects(self) -> None:
        """Others see to the effects of this host, or may at any moment: end every process that may still be at one."""
        self._node_losses += 1
        for keeper in self._instances.values():
            keeper.abort_effects("others take this host for dead and see to what it had begun")

    async def disable(self, key: InstanceKey) -> None:
        """Stop it, and let nobody start it until it is deployed again."""
        keeper = self._instances.get(key)
        if keeper is None:
            return
        await self.stop(key)
        keeper.mark_disabled()
        if self._instances.get(key) is keeper and not keeper.should_run:  # nobody enabled it meanwhile
            del self._instances[key]
            self._scopes.pop(key).cancel()

    def status(self, key: InstanceKey) -> PluginStatus | None:
        keeper = self._instances.get(key)
        return keeper.status() if keeper else None

    def deployment(self, key: InstanceKey) -> Deployment:
        """What is deployed under this key."""
        return self._instance(key).deployment

    def statuses(self) -> tuple[PluginStatus, ...]:
        """Every known plugin, in the order of deployment."""
        return tuple(keeper.status() for keeper in self._instances.values())

    def statuses_of(self, tenant: Tenant, plugin: PluginName) -> tuple[PluginStatus, ...]:
        """Those of one tenant's plugin, one for each version that is known."""
        found = [keeper for key, keeper in self._instances.items() if key.plugin == plugin and key.tenant == tenant]
        return tuple(keeper.status() for keeper in found)

    async def close(self) -> None:
        """End every process, last started first; each gets its own time, all of them at once."""
        self._closing = True  # what ends now must not be started by a late call
        last_first = tuple(reversed(self._instances.values()))  # some may be disabled while we wait
        for keeper in last_first:
            keeper.stop()
        with anyio.move_on_after(_CLOSE_TIMEOUT_S):
            for keeper in last_first:
                await keeper.wait_stopped()

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
        tally: MethodCounts | None = None,
        fate: DeliveryStatus | None = None,
    ) -> Any:
        """Run one callable of a plugin; a plugin that is not running yet is started.

        `call` is its id. `on_event` hears what the plugin tells meanwhile, `ask` puts its questions to whoever makes
        the call, `tally` counts what it asks of the host, and `fate` tells how far the call got.

        Raises:
            Busy: too many calls are under way.
            NotFound: the plugin does not serve this method.
            HostError: `node.lost`, it has an effect, which others may see to by now; nothing was sent.
            Unavailable, TimedOut, PaddockError: see `Conversation.call`.
        """
        losses = self._node_losses
        keeper = self._instances.get(key)
        running = keeper.ready_plugin if keeper is not None else None
        if keeper is None or running is None:
            keeper = await self._usable_instance(key)
            running = await self._wait_running(keeper)
        plan = keeper.call_plans.get(spec.name)
        if plan is None or plan.spec is not spec:  # a server may offer another thing under the same name
            plan = plan_call(keeper.deployment.manifest, spec, self._call_timeout)
            keeper.call_plans[spec.name] = plan
        if spec.name in running.handshake.missing_callables:
            raise _not_served_error(key, spec)
        if plan.has_effect and (self.is_node_lost() or losses != self._node_losses):
            raise HostError(
                "others may take this host for dead and see to what it had begun",
                code="node.lost",
                hint="try again when the database can be reached",
            )
        conversation = running.connection
        self._limiter.acquire(key, conversation.in_flight)
        keeper.calls += 1
        try:
            return await conversation.call(
                plan, payload, context, call=call, on_event=on_event, ask=ask, tally=tally, fate=fate
            )
        finally:
            self._limiter.release(key)
            keeper.last_used = self._deps.clock.monotonic()

    async def _usable_instance(self, key: InstanceKey) -> PluginInstance:
        """The keeper to ask; where its process is just ending, once it has."""
        keeper = self._instance(key)
        while keeper.is_stopping:
            await keeper.wait_stopped()
            keeper = self._instance(key)  # it may have been disabled
        if self._closing:
            raise Unavailable(f"{key.plugin} does not run: this host is shutting down", details={"plugin": key.plugin})
        return keeper

    async def _wait_running(self, keeper: PluginInstance) -> RunningPlugin:
        if keeper.state in (PluginState.STOPPED, PluginState.DISABLED):
            keeper.enable()
        return await keeper.wait_running()

    # --- hooks --------------------------------------------------------------------------------------------------------

    async def fire(self, key: InstanceKey, hook: str, params: Mapping[str, Any], context: CallContext) -> Any:
        """Tell a plugin of a moment in a session. Whatever goes wrong, the answer is None and the session goes on."""
        keeper = self._instances.get(key)
        if keeper is None or hook not in keeper.deployment.manifest.hooks:
            return None

        async def running() -> RunningPlugin:
            return await self._wait_running(await self._usable_instance(key))

        keeper.last_used = self._deps.clock.monotonic()
        return await fire_hook(
            keeper.deployment,
            hook,
            params,
            context,
            running=running,
            one_at_a_time=keeper.hook_lock,
            publish=self._deps.publish_for(key.tenant),
            clock=self._deps.clock,
        )

    # --- configuration ------------------------------------------------------------------------------------------------

    async def configure(self, key: InstanceKey, config: Mapping[str, Any]) -> None:
        """Tell a running plugin its new configuration; one that does not run reads it when it starts.

        Raises:
            PaddockError: it refused, and keeps the old one.
        """
        keeper = self._instance(key)
        await self._send_if_running(keeper, lambda wire, talk: wire.update_config(talk, config))
        keeper.config = config

    def current_config(self, key: InstanceKey) -> Mapping[str, Any]:
        """What a running plugin was told last."""
        return self._instance(key).config

    async def activate_project(self, key: InstanceKey, project: str, config: Mapping[str, Any]) -> None:
        """A project that uses the plugin was loaded, or loaded again."""
        keeper = self._instance(key)
        await self._send_if_running(keeper, lambda wire, talk: wire.update_project(talk, project, config))
        projects = {**keeper.deployment.projects, project: config}
        keeper.update_deployment(replace(keeper.deployment, projects=projects))

    async def deactivate_project(self, key: InstanceKey, project: str) -> None:
        """A project that used the plugin was unloaded."""
        keeper = self._instance(key)
        await self._send_if_running(keeper, lambda wire, talk: wire.update_project(talk, project, None))
        projects = {name: config for name, config in keeper.deployment.projects.items() if name != project}
        keeper.update_deployment(replace(keeper.deployment, projects=projects))

    async def _send_if_running(
        self, keeper: PluginInstance, tell: Callable[[HookAdapter, RequestSender], Awaitable[None]]
    ) -> None:
        if keeper.state is not PluginState.RUNNING:
            return  # it gets everything when it starts
        conversation = (await keeper.wait_running()).connection
        if isinstance(conversation.adapter, HookAdapter):  # others have no word for it
            with contextlib.suppress(PeerLost):  # it is gone, and starts again with the new values
                await tell(conversation.adapter, conversation)

    # --- idleness -----------------------------------------------------------------------------------------------------

    async def stop_idle(self) -> None:
        """Stop, again and again, what was started for a call and has had none for a while."""
        while True:
            await asyncio.sleep(self._idle_stop / 4)
            now = self._deps.clock.monotonic()
            for keeper in tuple(self._instances.values()):
                lazy = keeper.deployment.manifest.start == "lazy"
                idle = keeper.state is PluginState.RUNNING and not keeper.status().in_flight
                if lazy and idle and now - keeper.last_used >= self._idle_stop:
                    keeper.stop()

    async def _drain(self, keeper: PluginInstance) -> None:
        if keeper.state is PluginState.RUNNING:
            with anyio.move_on_after(DRAIN_TIMEOUT_S):
                await (await keeper.wait_running()).connection.drain()

    def _instance(self, key: InstanceKey) -> PluginInstance:
        try:
            return self._instances[key]
        except KeyError:
            raise NotFound(
                f"{key.plugin} is not enabled",
                code="plugin.not_enabled",
                hint=f"paddock plugin enable {key.plugin}{tenant_option(key.tenant)}",
                details={"plugin": key.plugin},
            ) from None


def _not_served_error(key: InstanceKey, spec: CallableSpec) -> NotFound:
    return NotFound(
        f"{key.plugin} declares {spec.name} and does not serve it",
        code="method_not_found",
        hint="the plugin's author has to mend it",
        details={"plugin": key.plugin},
    )


@asynccontextmanager
async def open_supervisor(
    around: SupervisorDeps, *, call_timeout: float = 30.0, idle_stop: float = IDLE_STOP_S
) -> AsyncGenerator[Supervisor, None]:
    """The supervisor for as long as the block runs; no plugin outlives it."""
    async with scoped_tasks() as tasks:
        supervisor = Supervisor(around, tasks, call_timeout=call_timeout, idle_stop=idle_stop)
        tasks.start_soon(supervisor.stop_idle)
        try:
            yield supervisor
        finally:
            # Shielded: being interrupted is no reason to leave plugins behind.
            with anyio.CancelScope(shield=True):
                await supervisor.close()
