"""One life of a plugin process: launched, greeted, configured, kept under watch, and ended. The block owns it all."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio

from paddock.cage.spec import CageSpec, ProcessExit
from paddock.capabilities.pipes.channel import open_channel
from paddock.core.clock import Clock
from paddock.core.events.contracts import PluginStopped
from paddock.core.events.event import EventSink
from paddock.core.events.plugin_runtime import (
    PluginCrashed,
    PluginExited,
    PluginHealthFail,
    PluginInitialized,
    PluginKilled,
    PluginProtocolViolation,
)
from paddock.core.printable import printable
from paddock.rpc.errors import PeerLost, RpcError
from paddock.runtime.connection import PluginConnection
from paddock.runtime.deployment import Deployment, StartSpec
from paddock.runtime.diagnosis import Diagnosis, diagnose_exit, diagnose_silence, grant_advice, see_log_hint
from paddock.runtime.endpoint import ArtifactEndpoint, EndpointLauncher, NetworkedEndpoint, PluginEndpoint
from paddock.runtime.errors import describe_error
from paddock.runtime.exit_reason import (
    EXIT_GRACE_S,
    ExitReason,
    KillReason,
    PermanentFailure,
    ProcessCrashed,
    StoppedOnRequest,
)
from paddock.runtime.protocol_adapter import (
    ArtifactAdapter,
    Definition,
    HandshakeRejected,
    HandshakeResult,
    HandshakeTimeout,
    ProtocolAdapter,
)
from paddock.runtime.throttle import StartPermit


@asynccontextmanager
async def attach_endpoint(
    conversation: PluginConnection, body: PluginEndpoint, misused_pipes: Callable[[str], None]
) -> AsyncGenerator[None, None]:
    """Joined for as long as the block runs.

    Args:
        conversation: Whose end is ours.
        body: Whose end is the plugin's.
        misused_pipes: Told why it lost its pipes; it loses nothing else.
    """
    conversation.attach(await body.connect(conversation.peer))
    if isinstance(body, NetworkedEndpoint):
        body.watch_network(conversation.note_network_use)
    pipes = body.take_artifact_pipes() if isinstance(body, ArtifactEndpoint) else None
    async with open_channel(pipes, misused_pipes) as channel:
        if isinstance(conversation.adapter, ArtifactAdapter):
            conversation.adapter.set_artifact_channel(channel)
        yield


MAX_HEALTH_FAILURES = 3


class Unhealthy(Exception):
    """It failed to say that it is well, several times in a row."""


class HealthMonitor:
    """The watch over one process."""

    def __init__(self, deployment: Deployment, conversation: PluginConnection, publish: EventSink) -> None:
        self._deployment = deployment
        self._connection = conversation
        self._publish = publish
        self._failures = 0

    async def check(self) -> None:
        """Ask once.

        Raises:
            Unwell: three questions in a row went wrong.
            PeerLost: it is gone.
        """
        if await self._is_healthy():
            self._failures = 0
            return
        self._failures += 1
        self._publish.publish(PluginHealthFail(name=self._deployment.name, consecutive_failures=self._failures))
        if self._failures >= MAX_HEALTH_FAILURES:
            raise Unhealthy

    async def _is_healthy(self) -> bool:
        try:
            return await self._connection.adapter.ping(self._connection)
        except TimeoutError:
            # A plugin that does one thing at a time is busy with a call, and that call has a time limit of its own.
            return self._connection.in_flight > 0


SIGTERM_GRACE_S = 2.0
_KILL_WAIT_S = 10.0  # for the kernel to bury a killed cage

# Told what a server says of itself, before anybody may call it.
OnDefinitions: TypeAlias = Callable[[tuple[Definition, ...]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RunningPlugin:
    """A plugin that answers calls."""

    connection: PluginConnection
    handshake: HandshakeResult
    pid: int | None
    cage_id: str | None
    config: Mapping[str, Any] = field(repr=False)  # may hold secrets in the clear


class _KillRequested(Exception):
    def __init__(self, fatal: KillReason) -> None:
        super().__init__(fatal.reason)
        self.fatal = fatal


class _StopRequested(Exception):
    pass


class ProcessRun:
    """What one process needs around it. `run` is its whole life."""

    def __init__(
        self,
        deployment: Deployment,
        wire: ProtocolAdapter,
        *,
        bodies: EndpointLauncher,
        publish: EventSink,
        clock: Clock,
        meet: OnDefinitions,
        on_running: Callable[[RunningPlugin], None],
        on_log: Callable[[str], None],
        on_notification: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self._deployment = deployment
        self._name = deployment.name
        self._adapter = wire
        self._launcher = bodies
        self._publish = publish
        self._on_definitions = meet
        self._on_running = on_running
        self._on_log = on_log
        self._loop = asyncio.get_running_loop()
        self._stop_requested: asyncio.Future[None] = self._loop.create_future()
        self._kill_reason: asyncio.Future[KillReason] = self._loop.create_future()
        self._definitions_changed = asyncio.Event()
        self._handshake_done = False
        self._memory_bytes: int | None = None
        self._grant_advice = grant_advice(deployment.manifest)
        self._connection = PluginConnection(
            deployment,
            wire,
            publish=publish,
            clock=clock,
            on_fatal=self._on_kill_reason,
            on_notification=on_notification,
            on_log=on_log,
            on_redefined=self._definitions_changed.set,
        )

    def stop(self) -> None:
        """Ask this life to end gracefully."""
        if not self._stop_requested.done():
            self._stop_requested.set_result(None)

    async def run(self, prepared: StartSpec, turn: StartPermit) -> ExitReason:
        """From launch to end. Whatever happens in between, the process is gone when this returns.

        Raises:
            PaddockError: there was nothing to begin with, e.g. the cage could not be built.
        """
        if isinstance(prepared.target, CageSpec):
            self._memory_bytes = prepared.target.limits.memory_bytes
        body = await self._launcher.launch(prepared.target, self._on_log)
        turn.limit_duration()
        self._publish.publish(body.start_event(self._deployment.name, self._deployment.manifest.version))
        exited = asyncio.ensure_future(body.wait())
        try:
            async with attach_endpoint(self._connection, body, self._on_artifact_violation):
                return await self._serve_until_exit(body, prepared, turn, exited)
        finally:
            # Shielded: whoever cancels us must not leave a plugin running.
            with anyio.CancelScope(shield=True):
                body.kill()
                self._connection.close("the process ended")
                await _wait_at_most(exited, _KILL_WAIT_S)
                body.close()

    async def _serve_until_exit(
        self, body: PluginEndpoint, prepared: StartSpec, turn: StartPermit, exited: asyncio.Future[ProcessExit]
    ) -> ExitReason:
        try:
            introduced = await self._race(self._handshake(), exited)
            turn.release()
            await self._race(self._adapter.configure(self._connection, prepared.config, self._projects), exited)
            await self._race(self._load_definitions(), exited)
            self._on_running(RunningPlugin(self._connection, introduced, body.pid, body.cage_id, prepared.config))
            await self._race(self._monitor(), exited)
        except _StopRequested:
            return await self._shut_down(body, exited)
        except HandshakeRejected as refusal:
            self._publish.publish(refusal.rejection.event)
            return PermanentFailure(refusal.rejection.code, Diagnosis(refusal.rejection.reason, refusal.rejection.hint))
        except HandshakeTimeout as silent:
            self._publish.publish(silent.event)
            noise = self._connection.noise_lines
            return PermanentFailure(
                "initialize.timeout",
                diagnose_silence(self._name, str(silent), body.recent_log, noise, self._grant_advice),
            )
        except _KillRequested as end:
            return await self._handle_kill_reason(end.fatal, body, exited)
        except Unhealthy:
            # It may still be able to put its affairs in order, so it is told before it is killed.
            body.signal(signal.SIGTERM)
            if not await _wait_at_most(exited, SIGTERM_GRACE_S):
                body.kill()
            return await self._report_crash(
                body, exited, KillReason("unwell", "it failed three health checks in a row")
            )
        except PeerLost as gone:
            return await self._handle_kill_reason(KillReason("output_closed", gone.reason), body, exited)
        raise AssertionError("a watch over a plugin ends only by an exception")

    @property
    def _projects(self) -> Mapping[str, Mapping[str, Any]]:
        return self._deployment.projects

    async def _race(self, work: Any, exited: asyncio.Future[ProcessExit]) -> Any:
        """The result of the work, unless the process ends, a person wants it to, or it does what ends it, first."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait(
                {task, exited, self._kill_reason, self._stop_requested}, return_when=asyncio.FIRST_COMPLETED
            )
            if self._kill_reason.done():
                raise _KillRequested(self._kill_reason.result())
            if task.done():
                return task.result()
            if self._stop_requested.done():
                raise _StopRequested
            raise PeerLost("the process ended")
        finally:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, PeerLost, RpcError):
                    await task
            elif not task.cancelled():
                task.exception()  # seen; a race has one winner

    async def _handshake(self) -> HandshakeResult:
        introduced = await self._adapter.handshake(self._connection)
        self._handshake_done = True
        if introduced.warning is not None:
            self._publish.publish(introduced.warning)
        self._connection.mark_ready()
        self._publish.publish(
            PluginInitialized(
                name=self._deployment.name,
                methods_count=introduced.served_count,
                capabilities_count=len(self._deployment.capabilities),
            )
        )
        return introduced

    async def _refresh_definitions(self) -> None:
        """Have what it says of itself compared with what people accepted."""
        self._definitions_changed.clear()
        definitions = await self._adapter.list_definitions(self._connection)
        if definitions is not None:
            await self._on_definitions(definitions)

    async def _load_definitions(self) -> None:
        try:
            await self._refresh_definitions()
        except (RpcError, TimeoutError) as error:
            self._on_kill_reason(KillReason("unlisted", f"it did not say what it offers: {describe_error(error)}"))

    async def _monitor(self) -> None:
        """See that it stays well, and look again when it says that it offers something else. Never ends by itself."""
        health = HealthMonitor(self._deployment, self._connection, self._publish)
        interval = self._deployment.manifest.timing.health_interval
        next_look = self._loop.time() + interval
        while True:
            try:
                async with asyncio.timeout_at(next_look):
                    await self._definitions_changed.wait()
            except TimeoutError:
                await health.check()
                next_look = self._loop.time() + interval
            else:
                with contextlib.suppress(RpcError, TimeoutError):  # it stays with what is known of it
                    await self._refresh_definitions()

    def _on_artifact_violation(self, detail: str) -> None:
        """It lost its pipes for big bytes, and nothing else."""
        self._publish.publish(
            PluginProtocolViolation(name=self._name, violation_type="artifacts", detail=printable(detail, 500))
        )
        self._on_log(f"[paddock] its pipes for artifacts are closed: {printable(detail, 500)}")

    # --- the end ------------------------------------------------------------------------------------------------------

    def _on_kill_reason(self, fatal: KillReason) -> None:
        if not self._kill_reason.done():
            self._kill_reason.set_result(fatal)

    async def _shut_down(self, body: PluginEndpoint, exited: asyncio.Future[ProcessExit]) -> ExitReason:
        """The ladder: ask, SIGTERM, SIGKILL. Each step waits its time and no longer."""
        name = self._name
        self._connection.set_exit_diagnosis(Diagnosis("it was asked to stop", f"see why: paddock plugin info {name}"))
        self._adapter.request_shutdown(self._connection)
        if not await _wait_at_most(exited, self._deployment.manifest.timing.shutdown):
            body.signal(signal.SIGTERM)
            if not await _wait_at_most(exited, SIGTERM_GRACE_S):
                body.kill()
                await _wait_at_most(exited, _KILL_WAIT_S)
                self._publish.publish(PluginKilled(name=name))
                return StoppedOnRequest()
        ended = exited.result()
        if ended.code is not None:
            self._publish.publish(PluginExited(name=name, exit_code=ended.code))
        self._publish.publish(PluginStopped(name=name))
        return StoppedOnRequest()

    async def _handle_kill_reason(
        self, fatal: KillReason, body: PluginEndpoint, exited: asyncio.Future[ProcessExit]
    ) -> ExitReason:
        # A process that closed its output is usually on its way out, and how it goes says more than that it went.
        if fatal.kind == "output_closed" and body.pid is not None and await _wait_at_most(exited, EXIT_GRACE_S):
            return await self._report_crash(body, exited, None)
        self._connection.set_exit_diagnosis(
            Diagnosis(fatal.reason)
        )  # whoever waits for an answer is told why none comes
        # Waited for: one that sees its pipes end may go by itself, and how it went would say nothing.
        body.kill()
        await _wait_at_most(exited, EXIT_GRACE_S)
        self._connection.close(fatal.reason)
        if not self._handshake_done and fatal.kind != "output_closed":
            reason = f"during the handshake: {fatal.reason}"
            self._publish.publish(
                PluginProtocolViolation(
                    name=self._deployment.name, violation_type="handshake", detail=printable(reason, 500)
                )
            )
            await _wait_at_most(exited, _KILL_WAIT_S)
            return PermanentFailure("protocol_violation", Diagnosis(reason, "the plugin's author has to mend it"))
        return await self._report_crash(body, exited, fatal)

    async def _report_crash(
        self, body: PluginEndpoint, exited: asyncio.Future[ProcessExit], fatal: KillReason | None
    ) -> ExitReason:
        await _wait_at_most(exited, _KILL_WAIT_S)
        ended = exited.result() if exited.done() else ProcessExit(None, signal.SIGKILL)
        last_words = await body.final_log()
        self._publish.publish(
            PluginCrashed(
                name=self._deployment.name,
                exit_code=ended.code,
                signal=ended.signal,
                last_stderr=last_words,
            )
        )
        spends = fatal is None or fatal.spends_budget
        if fatal is not None:
            diagnosis = Diagnosis(fatal.reason, see_log_hint(self._name))
        else:
            diagnosis = diagnose_exit(
                self._name,
                ended,
                last_words,
                answered=self._handshake_done,
                noise=self._connection.noise_lines,
                memory_bytes=self._memory_bytes,
                how=self._grant_advice,
            )
        self._connection.set_exit_diagnosis(diagnosis)  # whoever waits for an answer is told why none comes
        return ProcessCrashed(diagnosis, ended, spends)


async def _wait_at_most(future: asyncio.Future[Any], seconds: float) -> bool:
    if not future.done():
        await asyncio.wait({future}, timeout=seconds)
    return future.done()
