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

from paddock.capabilities.asking import Tally
from paddock.core.call import CallContext
from paddock.core.errors import HostError, NotFound, PaddockError, Unavailable
from paddock.core.ids import CallId, PluginName, Tenant
from paddock.manifest.model import CallableSpec
from paddock.plugins.mending import for_tenant
from paddock.plugins.supervision.call_plan import plan_call
from paddock.plugins.supervision.deployment import Deployment, InstanceKey, Status
from paddock.plugins.supervision.flight import Fate, OnEvent
from paddock.plugins.supervision.hooks import fire_hook
from paddock.plugins.supervision.keeper import Keeper, Surroundings
from paddock.plugins.supervision.life import Running
from paddock.plugins.supervision.lifecycle import State
from paddock.plugins.supervision.owned_tasks import owned_tasks
from paddock.plugins.supervision.questions import Ask
from paddock.plugins.supervision.seats import Seats
from paddock.plugins.supervision.wire import HookingWire, Talk
from paddock.rpc.faults import PeerLost

DRAIN = 10.0  # seconds that calls under way get before their plugin is asked to stop
IDLE_STOP = 600.0
_CLOSE_WITHIN = 60.0


class Supervisor:
    """The plugins of this host. Opened with `open_supervisor`, which also ends them."""

    def __init__(self, around: Surroundings, tasks: TaskGroup, *, call_timeout: float, idle_stop: float) -> None:
        self._around = around
        self._tasks = tasks
        self._call_timeout = call_timeout
        self._idle_stop = idle_stop
        self._keepers: dict[InstanceKey, Keeper] = {}
        self._scopes: dict[InstanceKey, anyio.CancelScope] = {}
        self._seats = Seats()
        self._closing = False
        self.cut_off: Callable[[], bool] = lambda: False  # whether others may see to the effects of this host
        self._losses = 0  # how often they did, or may have

    # --- which plugins there are --------------------------------------------------------------------------------------

    def deploy(self, deployment: Deployment, *, start: bool) -> None:
        """Know a plugin, and start it now or at its first call. One that is known already is given the new values.

        Plugins start in the order in which they are deployed.
        """
        keeper = self._keepers.get(deployment.key)
        if keeper is None:
            keeper = Keeper(deployment, self._around)
            self._keepers[deployment.key] = keeper
            scope = self._scopes[deployment.key] = anyio.CancelScope()
            self._tasks.start_soon(self._kept, keeper, scope, name=f"keep {deployment.name}")
        else:
            keeper.replace(replace(deployment, projects=keeper.deployment.projects))
        if start and not self._closing:
            keeper.enable()

    async def _kept(self, keeper: Keeper, scope: anyio.CancelScope) -> None:
        with scope:
            await keeper.keep()

    def enable(self, key: InstanceKey) -> None:
        """Start a known plugin, its failures forgotten."""
        keeper = self._keeper(key)
        if not self._closing:
            keeper.enable()

    async def settled(self, key: InstanceKey) -> Status:
        """How a plugin is doing once it either runs or is known not to."""
        keeper = self._keeper(key)
        with contextlib.suppress(PaddockError):  # the status says why
            await keeper.running()
        return keeper.status()

    async def ready(self, key: InstanceKey) -> bool:
        """Have a plugin running, and so met; one that is not is started. Whoever calls it next finds it as it is now.

        Returns:
            Whether it ran already, so that this took no time.

        Raises:
            NotFound: it is not enabled.
            Unavailable: it does not run, and the reason.
        """
        keeper = self._keepers.get(key)
        if keeper is not None and keeper.serving is not None:
            return True
        await self._running(await self._staying(key))
        return False

    def require_sound(self, key: InstanceKey) -> None:
        """Refuse a plugin that is known not to run. One that was not started yet is sound as far as anybody knows.

        Raises:
            Failed: says why.
        """
        keeper = self._keepers.get(key)
        if keeper is not None and keeper.state is State.FAILED:
            raise keeper.refusal()

    async def changed(self, key: InstanceKey) -> State:
        """The next state a plugin gets into."""
        return await self._keeper(key).changed()

    async def stop(self, key: InstanceKey) -> None:
        """End its process gracefully, after the calls under way. Its next call starts it again."""
        keeper = self._keepers.get(key)
        if keeper is None:
            return
        await self._drained(keeper)
        keeper.stop()
        await keeper.stopped()

    def end_effects(self) -> None:
        """Others see to the effects of this host, or may at any moment: end every process that may still be at one."""
        self._losses += 1
        for keeper in self._keepers.values():
            keeper.end_effects("others take this host for dead and see to what it had begun")

    async def disable(self, key: InstanceKey) -> None:
        """Stop it, and let nobody start it until it is deployed again."""
        keeper = self._keepers.get(key)
        if keeper is None:
            return
        await self.stop(key)
        keeper.disabled()
        if self._keepers.get(key) is keeper and not keeper.wanted:  # nobody enabled it meanwhile
            del self._keepers[key]
            self._scopes.pop(key).cancel()

    def status(self, key: InstanceKey) -> Status | None:
        keeper = self._keepers.get(key)
        return keeper.status() if keeper else None

    def deployment(self, key: InstanceKey) -> Deployment:
        """What is deployed under this key."""
        return self._keeper(key).deployment

    def statuses(self) -> tuple[Status, ...]:
        """Every known plugin, in the order of deployment."""
        return tuple(keeper.status() for keeper in self._keepers.values())

    def statuses_of(self, tenant: Tenant, plugin: PluginName) -> tuple[Status, ...]:
        """Those of one tenant's plugin, one for each version that is known."""
        found = [keeper for key, keeper in self._keepers.items() if key.plugin == plugin and key.tenant == tenant]
        return tuple(keeper.status() for keeper in found)

    async def close(self) -> None:
        """End every process, last started first; each gets its own time, all of them at once."""
        self._closing = True  # what ends now must not be started by a late call
        last_first = tuple(reversed(self._keepers.values()))  # some may be disabled while we wait
        for keeper in last_first:
            keeper.stop()
        with anyio.move_on_after(_CLOSE_WITHIN):
            for keeper in last_first:
                await keeper.stopped()

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
        ask: Ask | None = None,
        tally: Tally | None = None,
        fate: Fate | None = None,
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
        losses = self._losses
        keeper = self._keepers.get(key)
        running = keeper.serving if keeper is not None else None
        if keeper is None or running is None:
            keeper = await self._staying(key)
            running = await self._running(keeper)
        plan = keeper.plans.get(spec.name)
        if plan is None or plan.spec is not spec:  # a server may offer another thing under the same name
            plan = plan_call(keeper.deployment.manifest, spec, self._call_timeout)
            keeper.plans[spec.name] = plan
        if spec.name in running.introduced.missing:
            raise _unserved(key, spec)
        if plan.effect and (self.cut_off() or losses != self._losses):
            raise HostError(
                "others may take this host for dead and see to what it had begun",
                code="node.lost",
                hint="try again when the database can be reached",
            )
        conversation = running.conversation
        self._seats.take(key, conversation.in_flight)
        keeper.calls += 1
        try:
            return await conversation.call(
                plan, payload, context, call=call, on_event=on_event, ask=ask, tally=tally, fate=fate
            )
        finally:
            self._seats.leave(key)
            keeper.last_used = self._around.clock.monotonic()

    async def _staying(self, key: InstanceKey) -> Keeper:
        """The keeper to ask; where its process is just ending, once it has."""
        keeper = self._keeper(key)
        while keeper.ending:
            await keeper.stopped()
            keeper = self._keeper(key)  # it may have been disabled
        if self._closing:
            raise Unavailable(f"{key.plugin} does not run: this host is shutting down", details={"plugin": key.plugin})
        return keeper

    async def _running(self, keeper: Keeper) -> Running:
        if keeper.state in (State.STOPPED, State.DISABLED):
            keeper.enable()
        return await keeper.running()

    # --- hooks --------------------------------------------------------------------------------------------------------

    async def fire(self, key: InstanceKey, hook: str, params: Mapping[str, Any], context: CallContext) -> Any:
        """Tell a plugin of a moment in a session. Whatever goes wrong, the answer is None and the session goes on."""
        keeper = self._keepers.get(key)
        if keeper is None or hook not in keeper.deployment.manifest.hooks:
            return None

        async def running() -> Running:
            return await self._running(await self._staying(key))

        keeper.last_used = self._around.clock.monotonic()
        return await fire_hook(
            keeper.deployment,
            hook,
            params,
            context,
            running=running,
            one_at_a_time=keeper.hooks,
            publish=self._around.publish_for(key.tenant),
            clock=self._around.clock,
        )

    # --- configuration ------------------------------------------------------------------------------------------------

    async def configure(self, key: InstanceKey, config: Mapping[str, Any]) -> None:
        """Tell a running plugin its new configuration; one that does not run reads it when it starts.

        Raises:
            PaddockError: it refused, and keeps the old one.
        """
        keeper = self._keeper(key)
        await self._told(keeper, lambda wire, talk: wire.tell_config(talk, config))
        keeper.config = config

    def config_of(self, key: InstanceKey) -> Mapping[str, Any]:
        """What a running plugin was told last."""
        return self._keeper(key).config

    async def activate_project(self, key: InstanceKey, project: str, config: Mapping[str, Any]) -> None:
        """A project that uses the plugin was loaded, or loaded again."""
        keeper = self._keeper(key)
        await self._told(keeper, lambda wire, talk: wire.tell_project(talk, project, config))
        projects = {**keeper.deployment.projects, project: config}
        keeper.replace(replace(keeper.deployment, projects=projects))

    async def deactivate_project(self, key: InstanceKey, project: str) -> None:
        """A project that used the plugin was unloaded."""
        keeper = self._keeper(key)
        await self._told(keeper, lambda wire, talk: wire.tell_project(talk, project, None))
        projects = {name: config for name, config in keeper.deployment.projects.items() if name != project}
        keeper.replace(replace(keeper.deployment, projects=projects))

    async def _told(self, keeper: Keeper, tell: Callable[[HookingWire, Talk], Awaitable[None]]) -> None:
        if keeper.state is not State.RUNNING:
            return  # it gets everything when it starts
        conversation = (await keeper.running()).conversation
        if isinstance(conversation.wire, HookingWire):  # others have no word for it
            with contextlib.suppress(PeerLost):  # it is gone, and starts again with the new values
                await tell(conversation.wire, conversation)

    # --- idleness -----------------------------------------------------------------------------------------------------

    async def stop_idle(self) -> None:
        """Stop, again and again, what was started for a call and has had none for a while."""
        while True:
            await asyncio.sleep(self._idle_stop / 4)
            now = self._around.clock.monotonic()
            for keeper in tuple(self._keepers.values()):
                lazy = keeper.deployment.manifest.start == "lazy"
                idle = keeper.state is State.RUNNING and not keeper.status().in_flight
                if lazy and idle and now - keeper.last_used >= self._idle_stop:
                    keeper.stop()

    async def _drained(self, keeper: Keeper) -> None:
        if keeper.state is State.RUNNING:
            with anyio.move_on_after(DRAIN):
                await (await keeper.running()).conversation.drained()

    def _keeper(self, key: InstanceKey) -> Keeper:
        try:
            return self._keepers[key]
        except KeyError:
            raise NotFound(
                f"{key.plugin} is not enabled",
                code="plugin.not_enabled",
                hint=f"paddock plugin enable {key.plugin}{for_tenant(key.tenant)}",
                details={"plugin": key.plugin},
            ) from None


def _unserved(key: InstanceKey, spec: CallableSpec) -> NotFound:
    return NotFound(
        f"{key.plugin} declares {spec.name} and does not serve it",
        code="method_not_found",
        hint="the plugin's author has to mend it",
        details={"plugin": key.plugin},
    )


@asynccontextmanager
async def open_supervisor(
    around: Surroundings, *, call_timeout: float = 30.0, idle_stop: float = IDLE_STOP
) -> AsyncGenerator[Supervisor, None]:
    """The supervisor for as long as the block runs; no plugin outlives it."""
    async with owned_tasks() as tasks:
        supervisor = Supervisor(around, tasks, call_timeout=call_timeout, idle_stop=idle_stop)
        tasks.start_soon(supervisor.stop_idle)
        try:
            yield supervisor
        finally:
            # Shielded: being interrupted is no reason to leave plugins behind.
            with anyio.CancelScope(shield=True):
                await supervisor.close()
