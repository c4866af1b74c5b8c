"""One plugin instance across its process runs: it drives the lifecycle table and spends the restart budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from paddock.core.clock import Clock, Random
from paddock.core.errors import Unavailable
from paddock.core.events.event import EventSink
from paddock.core.events.plugin_runtime import PluginFailed
from paddock.core.ids import Tenant
from paddock.runtime.calls import CallPlan
from paddock.runtime.deployment import Deployment, LastFailure, PluginStatus, PrepareStart
from paddock.runtime.diagnosis import Diagnosis
from paddock.runtime.endpoint import LaunchEndpoint
from paddock.runtime.errors import unavailable_error
from paddock.runtime.exit_reason import ExitReason, PermanentFailure, ProcessCrashed, StoppedOnRequest, exit_reason_for
from paddock.runtime.lifecycle import LIVE_STATES, LifecycleEvent, PluginState, next_state
from paddock.runtime.limits.start_throttle import StartThrottle
from paddock.runtime.observer import PluginObserver
from paddock.runtime.process_run import ProcessRun, RunningPlugin
from paddock.runtime.protocol_adapter import ProtocolAdapter
from paddock.runtime.protocols.native.adapter import NativeAdapter
from paddock.runtime.restart import RestartAfter, new_budget, with_jitter

HOST_FAILURE_BACKOFF_S = 5.0  # pause before a start is retried that failed because of the host
READY_TIMEOUT_S = 30.0  # how long a caller waits for a plugin that is starting


class SupervisorDeps(Struct, frozen=True):
    """Dependencies shared by every plugin instance of one supervisor.

    `long_lived` says whether the host outlives a single call, so that a crashed plugin is really restarted.
    `publish_calls` says whether each call is published as events; a gate records calls itself, and needs none.
    `is_node_lost` says whether other nodes may have taken over the effects of this host.
    """

    launch: LaunchEndpoint
    adapter_for: Callable[[Deployment], ProtocolAdapter]
    prepare: PrepareStart
    publish_for: Callable[[Tenant], EventSink]
    observer: PluginObserver
    clock: Clock
    random: Random
    start_throttle: StartThrottle
    long_lived: bool = True
    publish_calls: bool = False
    is_node_lost: Callable[[], bool] = lambda: False


class PluginInstance:
    """One plugin of one tenant. `run` is its task; the other methods send requests to that task."""

    def __init__(self, deployment: Deployment, deps: SupervisorDeps) -> None:
        self.deployment = deployment
        self.state = PluginState.DISABLED
        self.calls = 0
        self.config: Mapping[str, Any] = {}  # last sent to the running process
        self.last_used = deps.clock.monotonic()
        self.call_plans: dict[str, CallPlan] = {}  # by callable
        self.hook_lock = asyncio.Lock()  # hooks of one plugin run one after another
        self._deps = deps
        self._publish = deps.publish_for(deployment.key.tenant)
        self._budget = new_budget(self.deployment.manifest.dialect)
        self._process_run: ProcessRun | None = None
        self._adapter: ProtocolAdapter | None = None  # of the last process run
        self._running: RunningPlugin | None = None
        self._running_since: float | None = None
        self._running_since_iso: str | None = None
        self._diagnosis = Diagnosis("")
        self._error_code = ""
        self._last_failure: LastFailure | None = None
        self._restarts = 0
        self._next_start: float | None = None
        self._should_run = False
        self._wakeup = asyncio.Event()  # wakes the task
        self._settled = asyncio.Event()  # set unless it is starting: it runs, or the reason why not is known
        self._settled.set()
        self._state_changed = asyncio.Event()  # replaced at every transition
        self._exits = 0  # number of processes that ended

    def note_call(self) -> None:
        """Count a call."""
        self.calls += 1

    def note_use(self) -> None:
        """Note that it is in use, so that it is not idle for a while."""
        self.last_used = self._deps.clock.monotonic()

    def note_config(self, config: Mapping[str, Any]) -> None:
        """Note the configuration that was sent to the running process."""
        self.config = config

    # --- requests to the task -----------------------------------------------------------------------------------------

    def enable(self) -> None:
        """Let it run, with a fresh restart budget. Harmless if it runs."""
        self._budget = new_budget(self.deployment.manifest.dialect)
        self._should_run = True
        if self.state is not PluginState.RUNNING:
            self._settled.clear()
        self._wakeup.set()

    def stop(self) -> None:
        """Stop it gracefully and do not start it again by itself."""
        self._should_run = False
        if self._process_run is not None:
            self._process_run.stop()
        self._wakeup.set()
        if self.state is PluginState.FAILED:
            self._transition(LifecycleEvent.STOP)

    def abort_effects(self, reason: str) -> None:
        """Kill its process if an in-flight call may change something; it is started again."""
        if self._running is not None:
            self._running.connection.abort_effects(reason)

    def mark_disabled(self) -> None:
        """Mark a stopped instance as disabled."""
        if self.state is PluginState.STOPPED:
            self._transition(LifecycleEvent.DISABLE)

    def update_deployment(self, deployment: Deployment) -> None:
        """Use this deployment from the next start on; its trust tier and signature state at once."""
        previous, self.deployment = self.deployment, deployment
        trust_changed = (previous.tier, previous.signature) != (deployment.tier, deployment.signature)
        if trust_changed and isinstance(self._adapter, NativeAdapter):
            self._adapter.update_trust(deployment)

    async def wait_state_change(self) -> PluginState:
        """Wait for the next state and return it."""
        changed = self._state_changed
        await changed.wait()
        return self.state

    @property
    def should_run(self) -> bool:
        """Whether it is wanted to run."""
        return self._should_run

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop and has not stopped yet."""
        return not self._should_run and (self.state in LIVE_STATES or self.state is PluginState.CRASHED)

    async def wait_stopped(self) -> None:
        """After `stop`: wait until the process is gone, or the instance is enabled again."""
        exits_before = self._exits
        while self._exits == exits_before and self.is_stopping:
            await self.wait_state_change()

    @property
    def ready_plugin(self) -> RunningPlugin | None:
        """The running process if it takes calls right now, without waiting."""
        running = self._running
        return running if running is not None and self._should_run and not running.connection.is_ending else None

    async def wait_running(self) -> RunningPlugin:
        """Return the running process; waits for one that is starting, and for the next one while one is being killed.

        Raises:
            Unavailable: there is none; says why.
        """
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                if self._running is not None and self._running.connection.is_ending:
                    await self._wait_replaced()
                await self._settled.wait()
        except TimeoutError:
            raise self.unavailable_error(still_starting=True) from None
        if self._running is None:
            raise self.unavailable_error()
        return self._running

    async def _wait_replaced(self) -> None:
        """Wait until the process that is being killed is gone and, if it is restarted at once, the next one starts."""
        while self._running is not None and self._running.connection.is_ending:
            await self.wait_state_change()
        while self.state is PluginState.CRASHED and self._should_run and self._restart_is_due:
            await self.wait_state_change()

    @property
    def _restart_is_due(self) -> bool:
        return self._next_start is not None and self._next_start <= self._deps.clock.monotonic()

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
            action=self._diagnosis.action,
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
        """Start the process when it is wanted, and restart it when it crashed. Runs until cancelled, and the process
        ends with it."""
        try:
            while True:
                await self._wait_until_wanted()
                self._transition(LifecycleEvent.ENABLE)
                while self.state is PluginState.SPAWNING:
                    await self._handle_exit(await self._run_process())
        finally:
            # Cancelled from outside: the process is gone, and those who wait for that must be notified.
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
        deps, deployment = self._deps, self.deployment
        try:
            async with deps.start_throttle.acquire_permit() as permit:
                if not self._should_run:
                    return StoppedOnRequest()
                permit.limit_duration()
                start_spec = await deps.prepare(deployment)
                await permit.reacquire()
                self._process_run = ProcessRun(
                    deployment,
                    self._next_adapter(),
                    launch=deps.launch,
                    publish=self._publish,
                    publish_calls=deps.publish_calls,
                    clock=deps.clock,
                    observer=deps.observer,
                    on_running=self._on_running,
                )
                if not self._should_run:  # `stop` could not reach the process run before it existed
                    return StoppedOnRequest()
                return await self._process_run.run(start_spec, permit)
        except Exception as error:
            # Contained: the failure concerns this one plugin, which alone does not run.
            return exit_reason_for(error, ran=self.state is PluginState.RUNNING)
        finally:
            self._process_run = self._running = None

    def _next_adapter(self) -> ProtocolAdapter:
        adapter = self._deps.adapter_for(self.deployment)
        if self._adapter is not None:
            adapter.resume_from(self._adapter)
        self._adapter = adapter
        return adapter

    def _on_running(self, running: RunningPlugin) -> None:
        self._running = running
        self._running_since = self._deps.clock.monotonic()
        self._running_since_iso = self._deps.clock.now().isoformat()
        self._diagnosis, self._error_code = Diagnosis(""), ""
        self.config = running.config
        self.last_used = self._running_since
        self._transition(LifecycleEvent.HANDSHAKE_OK)

    async def _handle_exit(self, exit_reason: ExitReason) -> None:
        """Decide what follows from how a process run ended."""
        running_since, self._running_since, self._running_since_iso = self._running_since, None, None
        self._exits += 1
        match exit_reason:
            case StoppedOnRequest():
                self._transition(LifecycleEvent.STOP)
            case PermanentFailure(code, diagnosis):
                self._record_failure(diagnosis, code)
                self._should_run = False
                self._transition(LifecycleEvent.REFUSED)
            case ProcessCrashed(diagnosis, process_exit, spends_budget):
                self._record_failure(diagnosis, "plugin.crashed")
                self._transition(LifecycleEvent.EXITED)
                # Without a process exit the host was at fault: that costs the plugin only time.
                await self._back_off(running_since, spends_budget=spends_budget, host_failed=process_exit is None)

    def _record_failure(self, diagnosis: Diagnosis, code: str) -> None:
        self._diagnosis, self._error_code = diagnosis, code
        failed_at = self._deps.clock.now().isoformat()
        self._last_failure = LastFailure(diagnosis.reason, diagnosis.hint, diagnosis.action, code, failed_at)

    async def _back_off(self, running_since: float | None, *, spends_budget: bool, host_failed: bool) -> None:
        now = self._deps.clock.monotonic()
        delay_s = 0.0
        if spends_budget:
            self._budget, decision = self._budget.record_failure(now, ran_since=running_since)
            if not isinstance(decision, RestartAfter):
                self._should_run = False
                self._publish.publish(PluginFailed(name=self.deployment.name, total_failures=decision.failures))
                self._transition(LifecycleEvent.BUDGET_SPENT)
                self._deps.observer.on_give_up(self.deployment.key, self._diagnosis.reason)
                return
            delay_s = with_jitter(decision.delay_s, self._deps.random.bytes(1)[0])
        elif host_failed:
            delay_s = HOST_FAILURE_BACKOFF_S
        self._next_start = self._deps.start_throttle.reserve_restart(now, now + delay_s) if delay_s else now
        budget = self._budget
        try:
            async with asyncio.timeout(self._next_start - now):
                while self._should_run and self._budget is budget:  # enabling it creates a fresh budget
                    self._wakeup.clear()
                    await self._wakeup.wait()
        except TimeoutError:
            pass
        self._next_start = None
        if not self._should_run:
            self._transition(LifecycleEvent.STOP)
        elif self._budget is budget:
            self._restarts += 1
            self._transition(LifecycleEvent.BACKOFF_OVER)
        else:
            self._transition(LifecycleEvent.ENABLE)

    def _transition(self, event: LifecycleEvent) -> None:
        self.state = next_state(self.state, event)
        if self.state is PluginState.SPAWNING:
            self._settled.clear()
        else:
            self._settled.set()
        changed, self._state_changed = self._state_changed, asyncio.Event()
        changed.set()
        self._deps.observer.on_state_change(self.deployment.key, self.status())

    def unavailable_error(self, *, still_starting: bool = False) -> Unavailable:
        """Build the error that says why it cannot be called now."""
        return unavailable_error(
            self.deployment.name,
            self.deployment.key.tenant,
            self.state,
            self._diagnosis,
            self._error_code,
            restarts=self._deps.long_lived,
            still_starting=still_starting,
        )
