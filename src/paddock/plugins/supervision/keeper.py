"""One plugin kept running through all its lives: it drives the lifecycle table and spends the restart budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from paddock.core.clock import Clock, Random
from paddock.core.errors import Unavailable
from paddock.core.event import Publish
from paddock.core.events_host import PluginFailed
from paddock.core.ids import Tenant
from paddock.manifest.model import Dialect
from paddock.plugins.supervision.body import Bodies
from paddock.plugins.supervision.call_plan import CallPlan
from paddock.plugins.supervision.deployment import Deployment, InstanceKey, LastFailure, Prepare, Status
from paddock.plugins.supervision.diagnosis import Diagnosis
from paddock.plugins.supervision.ending import Crashed, Ending, GaveUp, Stopped, ending_of
from paddock.plugins.supervision.life import Life, Running
from paddock.plugins.supervision.lifecycle import ALIVE, Move, State, after
from paddock.plugins.supervision.not_running import refusal
from paddock.plugins.supervision.restart import Account, Again, with_jitter
from paddock.plugins.supervision.start_gate import StartGate
from paddock.plugins.supervision.wire import AskingWire, Definition, Wire

HOST_TROUBLE_PAUSE = 5.0  # seconds until a start is tried again that the host itself could not make
READY_WITHIN = 30.0  # seconds that a caller waits for a plugin that is starting
_LIMITS = {Dialect.OSQR: 3}  # that dialect's own document allows fewer restarts


class Watcher(Protocol):
    """Who is told what happens to a plugin beyond the audit events."""

    def logged(self, key: InstanceKey, line: str) -> None:
        """It wrote a line to its standard error."""
        ...

    def notified(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None:
        """It sent a notification."""
        ...

    async def met(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        """It says what it offers. Nobody calls it before this is over."""
        ...

    def moved(self, key: InstanceKey, status: Status) -> None:
        """It is in another state now."""
        ...

    def given_up(self, key: InstanceKey, reason: str) -> None:
        """It failed too often and is not started again until a person enables it."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every plugin of one supervisor shares.

    `lasting` says whether the host goes on after a call, so that a plugin that ended is really started again.
    """

    bodies: Bodies
    wire_for: Callable[[Deployment], Wire]
    prepare: Prepare
    publish_for: Callable[[Tenant], Publish]
    watcher: Watcher
    clock: Clock
    random: Random
    starts: StartGate
    lasting: bool = True


class Keeper:
    """One plugin of one tenant. `keep` is its owner's task; everything else asks something of that task."""

    def __init__(self, deployment: Deployment, around: Surroundings) -> None:
        self.deployment = deployment
        self.state = State.DISABLED
        self.calls = 0
        self.config: Mapping[str, Any] = {}  # what the running process was told last
        self.last_used = around.clock.monotonic()
        self.plans: dict[str, CallPlan] = {}  # by callable
        self.hooks = asyncio.Lock()  # hooks of one plugin run one after another
        self._around = around
        self._publish = around.publish_for(deployment.key.tenant)
        self._account = self._fresh_account()
        self._life: Life | None = None
        self._wire: Wire | None = None  # of the last life
        self._running: Running | None = None
        self._running_since: float | None = None
        self._since_text: str | None = None
        self._diagnosis = Diagnosis("")
        self._error_code = ""
        self._last_failure: LastFailure | None = None
        self._restarts = 0
        self._next_start: float | None = None
        self._wanted = False
        self._nudged = asyncio.Event()  # something was asked of the task
        self._settled = asyncio.Event()  # not starting: it runs, or it is known why not
        self._settled.set()
        self._moved = asyncio.Event()  # replaced at every move
        self._ends = 0  # how many of its processes are gone

    # --- what others ask ----------------------------------------------------------------------------------------------

    def enable(self) -> None:
        """Let it run, with its failures forgotten. Harmless when it does."""
        self._account = self._fresh_account()
        self._wanted = True
        if self.state is not State.RUNNING:
            self._settled.clear()
        self._nudged.set()

    def stop(self) -> None:
        """Let it end gracefully and not start again by itself."""
        self._wanted = False
        if self._life is not None:
            self._life.stop()
        self._nudged.set()
        if self.state is State.FAILED:
            self._move(Move.STOP)

    def end_effects(self, why: str) -> None:
        """End its process where a call under way may change something; it is started again."""
        if self._running is not None:
            self._running.conversation.end_effects(why)

    def disabled(self) -> None:
        """Nobody wants it any more, and it has stopped."""
        if self.state is State.STOPPED:
            self._move(Move.DISABLE)

    def replace(self, deployment: Deployment) -> None:
        """Use this from the next start on; how far it is trusted, at once."""
        before, self.deployment = self.deployment, deployment
        newly = (before.tier, before.signature) != (deployment.tier, deployment.signature)
        if newly and isinstance(self._wire, AskingWire):
            self._wire.trust(deployment)

    async def changed(self) -> State:
        """The next state it gets into."""
        moved = self._moved
        await moved.wait()
        return self.state

    @property
    def wanted(self) -> bool:
        """Whether it is to run."""
        return self._wanted

    @property
    def ending(self) -> bool:
        """Whether it was told to stop and has not yet."""
        return not self._wanted and (self.state in ALIVE or self.state is State.CRASHED)

    async def stopped(self) -> None:
        """After `stop`: wait until the process that it had is gone, or somebody wants it to run after all."""
        ends = self._ends
        while self._ends == ends and self.ending:
            await self.changed()

    @property
    def serving(self) -> Running | None:
        """The process, where it takes calls right now without any waiting."""
        return self._running if self._wanted else None

    async def running(self) -> Running:
        """The process to talk to; waits for one that is starting.

        Raises:
            Unavailable: there is none, and the reason.
        """
        if self._running is None:
            try:
                async with asyncio.timeout(READY_WITHIN):
                    await self._settled.wait()
            except TimeoutError:
                raise self.refusal(still_starting=True) from None
        if self._running is None:
            raise self.refusal()
        return self._running

    def status(self) -> Status:
        now = self._around.clock.monotonic()
        running = self._running
        return Status(
            key=self.deployment.key,
            version=self.deployment.manifest.version,
            state=self.state,
            pid=running.pid if running else None,
            cage_id=running.cage_id if running else None,
            reason=self._diagnosis.reason,
            hint=self._diagnosis.hint,
            error_code=self._error_code,
            failures=len(self._account.failures),
            restarts=self._restarts,
            last_failure=self._last_failure,
            running_since=self._since_text,
            restarts_in=max(0.0, self._next_start - now) if self._next_start is not None else None,
            in_flight=running.conversation.in_flight if running else 0,
            calls=self.calls,
            unavailable_methods=tuple(sorted(running.introduced.missing)) if running else (),
            undeclared_methods=running.introduced.extra if running else (),
            features=tuple(sorted(running.introduced.features)) if running else (),
        )

    # --- the task -----------------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Start it when it is wanted, and again when it fell. Ends by being cancelled, and the process with it."""
        try:
            while True:
                await self._until_wanted()
                self._move(Move.ENABLE)
                while self.state is State.SPAWNING:
                    await self._follow(await self._live())
        finally:
            # Cancelled from outside: the process is gone, and whoever waits for that must hear of it.
            self._running, self._wanted = None, False
            if self.state in ALIVE or self.state is State.CRASHED:
                self._ends += 1
                self._move(Move.STOP)

    async def _until_wanted(self) -> None:
        while not self._wanted:
            self._settled.set()
            self._nudged.clear()
            await self._nudged.wait()

    async def _live(self) -> Ending:
        around, deployment = self._around, self.deployment
        try:
            async with around.starts.turn() as turn:
                if not self._wanted:
                    return Stopped()
                turn.began()
                prepared = await around.prepare(deployment)
                await turn.again()
                self._life = Life(
                    deployment,
                    self._next_wire(),
                    bodies=around.bodies,
                    publish=self._publish,
                    clock=around.clock,
                    meet=lambda definitions: around.watcher.met(deployment, definitions),
                    on_running=self._met_running,
                    on_log=lambda line: around.watcher.logged(deployment.key, line),
                    on_notification=lambda method, params: around.watcher.notified(deployment.key, method, params),
                )
                if not self._wanted:  # nobody could tell the life while there was none
                    return Stopped()
                return await self._life.run(prepared, turn)
        except Exception as error:
            # Whatever went wrong did so around this one plugin: it alone does not run.
            return ending_of(error, ran=self.state is State.RUNNING)
        finally:
            self._life = self._running = None

    def _next_wire(self) -> Wire:
        wire = self._around.wire_for(self.deployment)
        if self._wire is not None:
            wire.follows(self._wire)
        self._wire = wire
        return wire

    def _met_running(self, running: Running) -> None:
        self._running = running
        self._running_since = self._around.clock.monotonic()
        self._since_text = self._around.clock.now().isoformat()
        self._diagnosis, self._error_code = Diagnosis(""), ""
        self.config = running.config
        self.last_used = self._running_since
        self._move(Move.HANDSHAKE_OK)

    async def _follow(self, ending: Ending) -> None:
        """Draw the consequence of how a life ended."""
        ran_since, self._running_since, self._since_text = self._running_since, None, None
        self._ends += 1
        match ending:
            case Stopped():
                self._move(Move.STOP)
            case GaveUp(code, diagnosis):
                self._note_failure(diagnosis, code)
                self._wanted = False
                self._move(Move.REFUSED)
            case Crashed(diagnosis, exit_, spends_budget):
                self._note_failure(diagnosis, "plugin.crashed")
                self._move(Move.EXITED)
                # Without a process it was the host that was in trouble: that costs the plugin nothing but time.
                await self._after_crash(ran_since, spends_budget=spends_budget, passing=exit_ is None)

    def _note_failure(self, diagnosis: Diagnosis, code: str) -> None:
        self._diagnosis, self._error_code = diagnosis, code
        at = self._around.clock.now().isoformat()
        self._last_failure = LastFailure(diagnosis.reason, diagnosis.hint, code, at)

    async def _after_crash(self, ran_since: float | None, *, spends_budget: bool, passing: bool) -> None:
        now = self._around.clock.monotonic()
        pause = 0.0
        if spends_budget:
            self._account, verdict = self._account.failed(now, ran_since=ran_since)
            if not isinstance(verdict, Again):
                self._wanted = False
                self._publish.publish(PluginFailed(name=self.deployment.name, total_failures=verdict.failures))
                self._move(Move.BUDGET_SPENT)
                self._around.watcher.given_up(self.deployment.key, self._diagnosis.reason)
                return
            pause = with_jitter(verdict.pause, self._around.random.bytes(1)[0])
        elif passing:
            pause = HOST_TROUBLE_PAUSE
        self._next_start = self._around.starts.book(now, now + pause) if pause else now
        account = self._account
        try:
            async with asyncio.timeout(self._next_start - now):
                while self._wanted and self._account is account:  # enabling it opens a fresh account
                    self._nudged.clear()
                    await self._nudged.wait()
        except TimeoutError:
            pass
        self._next_start = None
        if not self._wanted:
            self._move(Move.STOP)
        elif self._account is account:
            self._restarts += 1
            self._move(Move.BACKOFF_OVER)
        else:
            self._move(Move.ENABLE)

    def _move(self, move: Move) -> None:
        self.state = after(self.state, move)
        if self.state is State.SPAWNING:
            self._settled.clear()
        else:
            self._settled.set()
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
        self._around.watcher.moved(self.deployment.key, self.status())

    def refusal(self, *, still_starting: bool = False) -> Unavailable:
        """Why it cannot be called now."""
        return refusal(
            self.deployment.name,
            self.state,
            self._diagnosis,
            self._error_code,
            restarts=self._around.lasting,
            still_starting=still_starting,
        )

    def _fresh_account(self) -> Account:
        limit = _LIMITS.get(self.deployment.manifest.dialect)
        return Account(limit) if limit is not None else Account()
