"""One plugin kept running through all its lives: it drives the lifecycle table and spends the restart budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from paddock.core.clock import Clock, Random
from paddock.core.errors import Unavailable
from paddock.core.events.event import EventSink
from paddock.core.events.plugin_runtime import PluginFailed
from paddock.core.ids import Tenant
from paddock.manifest.model import Dialect
from paddock.runtime.calls import CallPlan
from paddock.runtime.deployment import Deployment, InstanceKey, LastFailure, PluginStatus, PrepareStart
from paddock.runtime.diagnosis import Diagnosis
from paddock.runtime.endpoint import EndpointLauncher
from paddock.runtime.errors import unavailable_error
from paddock.runtime.exit_reason import ExitReason, PermanentFailure, ProcessCrashed, StoppedOnRequest, exit_reason_for
from paddock.runtime.lifecycle import LIVE_STATES, LifecycleEvent, PluginState, next_state
from paddock.runtime.process_run import ProcessRun, RunningPlugin
from paddock.runtime.protocol_adapter import CapabilityAdapter, Definition, ProtocolAdapter
from paddock.runtime.restart import RestartAfter, RestartBudget, with_jitter
from paddock.runtime.throttle import StartThrottle

HOST_FAILURE_BACKOFF_S = 5.0  # seconds until a start is tried again that the host itself could not make
READY_TIMEOUT_S = 30.0  # seconds that a caller waits for a plugin that is starting
_RESTART_LIMITS = {Dialect.OSQR: 3}  # that dialect's own document allows fewer restarts


class PluginObserver(Protocol):
    """Who is told what happens to a plugin beyond the audit events."""

    def on_log_line(self, key: InstanceKey, line: str) -> None:
        """It wrote a line to its standard error."""
        ...

    def on_notification(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None:
        """It sent a notification."""
        ...

    async def on_definitions_listed(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        """It says what it offers. Nobody calls it before this is over."""
        ...

    def on_state_change(self, key: InstanceKey, status: PluginStatus) -> None:
        """It is in another state now."""
        ...

    def on_give_up(self, key: InstanceKey, reason: str) -> None:
        """It failed too often and is not started again until a person enables it."""
        ...


@dataclass(frozen=True, slots=True)
class SupervisorDeps:
    """What every plugin of one supervisor shares.

    `lasting` says whether the host goes on after a call, so that a plugin that ended is really started again.
    """

    launcher: EndpointLauncher
    adapter_for: Callable[[Deployment], ProtocolAdapter]
    prepare: PrepareStart
    publish_for: Callable[[Tenant], EventSink]
    observer: PluginObserver
    clock: Clock
    random: Random
    start_throttle: StartThrottle
    long_lived: bool = True


class PluginInstance:
    """One plugin of one tenant. `keep` is its owner's task; everything else asks something of that task."""

    def __init__(self, deployment: Deployment, around: SupervisorDeps) -> None:
        self.deployment = deployment
        self.state = PluginState.DISABLED
        self.calls = 0
        self.config: Mapping[str, Any] = {}  # what the running process was told last
        self.last_used = around.clock.monotonic()
        self.call_plans: dict[str, CallPlan] = {}  # by callable
        self.hook_lock = asyncio.Lock()  # hooks of one plugin run one after another
        self._deps = around
        self._publish = around.publish_for(deployment.key.tenant)
        self._budget = self._new_budget()
        self._process_run: ProcessRun | None = None
        self._adapter: ProtocolAdapter | None = None  # of the last life
        self._running: RunningPlugin | None = None
        self._running_since: float | None = None
        self._running_since_iso: str | None = None
        self._diagnosis = Diagnosis("")
        self._error_code = ""
        self._last_failure: LastFailure | None = None
        self._restarts = 0
        self._next_start: float | None = None
        self._should_run = False
        self._wakeup = asyncio.Event()  # something was asked of the task
        self._settled = asyncio.Event()  # not starting: it runs, or it is known why not
        self._settled.set()
        self._state_changed = asyncio.Event()  # replaced at every move
        self._exits = 0  # how many of its processes are gone

    # --- what others ask ----------------------------------------------------------------------------------------------

    def enable(self) -> None:
        """Let it run, with its failures forgotten. Harmless when it does."""
        self._budget = self._new_budget()
        self._should_run = True
        if self.state is not PluginState.RUNNING:
            self._settled.clear()
        self._wakeup.set()

    def stop(self) -> None:
        """Let it end gracefully and not start again by itself."""
        self._should_run = False
        if self._process_run is not None:
            self._process_run.stop()
        self._wakeup.set()
        if self.state is PluginState.FAILED:
            self._transition(LifecycleEvent.STOP)

    def abort_effects(self, why: str) -> None:
        """End its process where a call under way may change something; it is started again."""
        if self._running is not None:
            self._running.connection.abort_effects(why)

    def mark_disabled(self) -> None:
        """Nobody wants it any more, and it has stopped."""
        if self.state is PluginState.STOPPED:
            self._transition(LifecycleEvent.DISABLE)

    def update_deployment(self, deployment: Deployment) -> None:
        """Use this from the next start on; how far it is trusted, at once."""
        before, self.deployment = self.deployment, deployment
        newly = (before.tier, before.signature) != (deployment.tier, deployment.signature)
        if newly and isinstance(self._adapter, CapabilityAdapter):
            self._adapter.update_trust(deployment)

    async def wait_state_change(self) -> PluginState:
        """The next state it gets into."""
        moved = self._state_changed
        await moved.wait()
        return self.state

    @property
    def should_run(self) -> bool:
        """Whether it is to run."""
        return self._should_run

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop and has not yet."""
        return not self._should_run and (self.state in LIVE_STATES or self.state is PluginState.CRASHED)

    async def wait_stopped(self) -> None:
        """After `stop`: wait until the process that it had is gone, or somebody wants it to run after all."""
        ends = self._exits
        while self._exits == ends and self.is_stopping:
            await self.wait_state_change()

    @property
    def ready_plugin(self) -> RunningPlugin | None:
        """The process, where it takes calls right now without any waiting."""
        return self._running if self._should_run else None

    async def wait_running(self) -> RunningPlugin:
        """The process to talk to; waits for one that is starting.

        Raises:
            Unavailable: there is none, and the reason.
        """
        if self._running is None:
            try:
                async with asyncio.timeout(READY_TIMEOUT_S):
                    await self._settled.wait()
            except TimeoutError:
                raise self.unavailable_error(still_starting=True) from None
        if self._running is None:
            raise self.unavailable_error()
        return self._running

    def status(self) -> PluginStatus:
        now = self._deps.clock.monotonic()
        running = self._running
        return PluginStatus(
            key=self.deployment.key,
            version=self.deployment.manifest.version,
            state=self.state,
            pid=running.pid if running else None,
            cage_id=running.cage_id if running else None,
            reason=self._diagnosis.reason,
            hint=self._diagnosis.hint,
            error_code=self._error_code,
            failures=len(self._budget.failures),
            restarts=self._restarts,
            last_failure=self._last_failure,
            running_since=self._running_since_iso,
            restarts_in=max(0.0, self._next_start - now) if self._next_start is not None else None,
            in_flight=running.connection.in_flight if running else 0,
            calls=self.calls,
            unavailable_methods=tuple(sorted(running.handshake.missing_callables)) if running else (),
            undeclared_methods=running.handshake.undeclared_methods if running else (),
            features=tuple(sorted(running.handshake.features)) if running else (),
        )

    # --- the task -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start it when it is wanted, and again when it fell. Ends by being cancelled, and the process with it."""
        try:
            while True:
                await self._wait_until_wanted()
                self._transition(LifecycleEvent.ENABLE)
                while self.state is PluginState.SPAWNING:
                    await self._handle_exit(await self._run_process())
        finally:
            # Cancelled from outside: the process is gone, and whoever waits for that must hear of it.
            self._running, self._should_run = None, False
            if self.state in LIVE_STATES or self.state is PluginState.CRASHED:
                self._exits += 1
                self._transition(LifecycleEvent.STOP)

    async def _wait_until_wanted(self) -> None:
        while not self._should_run:
            self._settled.set()
            self._wakeup.clear()
            await self._wakeup.wait()

    async def _run_process(self) -> ExitReason:
        around, deployment = self._deps, self.deployment
        try:
            async with around.start_throttle.acquire_permit() as turn:
                if not self._should_run:
                    return StoppedOnRequest()
                turn.limit_duration()
                prepared = await around.prepare(deployment)
                await turn.reacquire()
                self._process_run = ProcessRun(
                    deployment,
                    self._next_adapter(),
                    bodies=around.launcher,
                    publish=self._publish,
                    clock=around.clock,
                    meet=lambda definitions: around.observer.on_definitions_listed(deployment, definitions),
                    on_running=self._on_running,
                    on_log=lambda line: around.observer.on_log_line(deployment.key, line),
                    on_notification=lambda method, params: around.observer.on_notification(
                        deployment.key, method, params
                    ),
                )
                if not self._should_run:  # nobody could tell the life while there was none
                    return StoppedOnRequest()
                return await self._process_run.run(prepared, turn)
        except Exception as error:
            # Whatever went wrong did so around this one plugin: it alone does not run.
            return exit_reason_for(error, ran=self.state is PluginState.RUNNING)
        finally:
            self._process_run = self._running = None

    def _next_adapter(self) -> ProtocolAdapter:
        wire = self._deps.adapter_for(self.deployment)
        if self._adapter is not None:
            wire.resume_from(self._adapter)
        self._adapter = wire
        return wire

    def _on_running(self, running: RunningPlugin) -> None:
        self._running = running
        self._running_since = self._deps.clock.monotonic()
        self._running_since_iso = self._deps.clock.now().isoformat()
        self._diagnosis, self._error_code = Diagnosis(""), ""
        self.config = running.config
        self.last_used = self._running_since
        self._transition(LifecycleEvent.HANDSHAKE_OK)

    async def _handle_exit(self, ending: ExitReason) -> None:
        """Draw the consequence of how a life ended."""
        ran_since, self._running_since, self._running_since_iso = self._running_since, None, None
        self._exits += 1
        match ending:
            case StoppedOnRequest():
                self._transition(LifecycleEvent.STOP)
            case PermanentFailure(code, diagnosis):
                self._record_failure(diagnosis, code)
                self._should_run = False
                self._transition(LifecycleEvent.REFUSED)
            case ProcessCrashed(diagnosis, exit_, spends_budget):
                self._record_failure(diagnosis, "plugin.crashed")
                self._transition(LifecycleEvent.EXITED)
                # Without a process it was the host that was in trouble: that costs the plugin nothing but time.
                await self._back_off(ran_since, spends_budget=spends_budget, passing=exit_ is None)

    def _record_failure(self, diagnosis: Diagnosis, code: str) -> None:
        self._diagnosis, self._error_code = diagnosis, code
        at = self._deps.clock.now().isoformat()
        self._last_failure = LastFailure(diagnosis.reason, diagnosis.hint, code, at)

    async def _back_off(self, ran_since: float | None, *, spends_budget: bool, passing: bool) -> None:
        now = self._deps.clock.monotonic()
        pause = 0.0
        if spends_budget:
            self._budget, verdict = self._budget.record_failure(now, ran_since=ran_since)
            if not isinstance(verdict, RestartAfter):
                self._should_run = False
                self._publish.publish(PluginFailed(name=self.deployment.name, total_failures=verdict.failures))
                self._transition(LifecycleEvent.BUDGET_SPENT)
                self._deps.observer.on_give_up(self.deployment.key, self._diagnosis.reason)
                return
            pause = with_jitter(verdict.delay_s, self._deps.random.bytes(1)[0])
        elif passing:
            pause = HOST_FAILURE_BACKOFF_S
        self._next_start = self._deps.start_throttle.reserve_restart(now, now + pause) if pause else now
        account = self._budget
        try:
            async with asyncio.timeout(self._next_start - now):
                while self._should_run and self._budget is account:  # enabling it opens a fresh account
                    self._wakeup.clear()
                    await self._wakeup.wait()
        except TimeoutError:
            pass
        self._next_start = None
        if not self._should_run:
            self._transition(LifecycleEvent.STOP)
        elif self._budget is account:
            self._restarts += 1
            self._transition(LifecycleEvent.BACKOFF_OVER)
        else:
            self._transition(LifecycleEvent.ENABLE)

    def _transition(self, move: LifecycleEvent) -> None:
        self.state = next_state(self.state, move)
        if self.state is PluginState.SPAWNING:
            self._settled.clear()
        else:
            self._settled.set()
        moved, self._state_changed = self._state_changed, asyncio.Event()
        moved.set()
        self._deps.observer.on_state_change(self.deployment.key, self.status())

    def unavailable_error(self, *, still_starting: bool = False) -> Unavailable:
        """Why it cannot be called now."""
        return unavailable_error(
            self.deployment.name,
            self.state,
            self._diagnosis,
            self._error_code,
            restarts=self._deps.long_lived,
            still_starting=still_starting,
        )

    def _new_budget(self) -> RestartBudget:
        limit = _RESTART_LIMITS.get(self.deployment.manifest.dialect)
        return RestartBudget(limit) if limit is not None else RestartBudget()
