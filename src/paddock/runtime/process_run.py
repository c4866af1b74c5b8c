"""One run of a plugin process: launch, handshake, configuration, monitoring and exit. The block owns all of it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from paddock.cage.spec import CageSpec, ProcessExit
from paddock.capabilities.pipes.channel import open_channel
from paddock.core.action import Action
from paddock.core.clock import Clock
from paddock.core.events.contracts import PluginStopped
from paddock.core.events.event import EventSink
from paddock.core.events.plugin_runtime import (
    PluginCrashed,
    PluginExited,
    PluginInitialized,
    PluginKilled,
    PluginProtocolViolation,
)
from paddock.core.printable import printable
from paddock.rpc.errors import PeerLost, RpcError
from paddock.runtime.connection import PluginConnection
from paddock.runtime.deployment import Deployment, StartSpec
from paddock.runtime.diagnosis import Diagnosis, diagnose_exit, diagnose_silence, grant_advice, read_log
from paddock.runtime.endpoint import CagedEndpoint, LaunchEndpoint, PluginEndpoint
from paddock.runtime.errors import describe_error
from paddock.runtime.exit_reason import (
    EXIT_GRACE_S,
    ExitReason,
    KillReason,
    PermanentFailure,
    ProcessCrashed,
    StoppedOnRequest,
)
from paddock.runtime.health import HealthMonitor, Unhealthy
from paddock.runtime.limits.start_throttle import StartPermit
from paddock.runtime.observer import PluginObserver
from paddock.runtime.protocol_adapter import (
    HandshakeRejected,
    HandshakeResult,
    HandshakeTimeout,
    ProtocolAdapter,
)
from paddock.runtime.protocols.native.adapter import NativeAdapter

SIGTERM_GRACE_S = 2.0
_KILL_WAIT_S = 10.0  # for the kernel to remove a killed cage


@dataclasses.dataclass(frozen=True, slots=True)
class RunningPlugin:
    """A running plugin that answers calls."""

    connection: PluginConnection
    handshake: HandshakeResult
    pid: int | None
    cage_id: str | None
    config: Mapping[str, Any] = dataclasses.field(repr=False)  # may hold secrets in the clear


class _KillRequested(Exception):
    def __init__(self, reason: KillReason) -> None:
        super().__init__(reason.reason)
        self.reason = reason


class _StopRequested(Exception):
    pass


class ProcessRun:
    """One process with everything around it. `run` covers it from launch to exit. The `ConnectionObserver` of its
    connection."""

    def __init__(
        self,
        deployment: Deployment,
        adapter: ProtocolAdapter,
        *,
        launch: LaunchEndpoint,
        publish: EventSink,
        publish_calls: bool,
        clock: Clock,
        observer: PluginObserver,
        on_running: Callable[[RunningPlugin], None],
    ) -> None:
        self._deployment = deployment
        self._name = deployment.name
        self._adapter = adapter
        self._launch = launch
        self._publish = publish
        self._observer = observer
        self._on_running = on_running
        self._loop = asyncio.get_running_loop()
        self._stop_requested: asyncio.Future[None] = self._loop.create_future()
        self._kill_reason: asyncio.Future[KillReason] = self._loop.create_future()
        self._definitions_changed = asyncio.Event()
        self._handshake_done = False
        self._memory_bytes: int | None = None
        self._grant_advice = grant_advice(deployment.manifest)
        self._connection = PluginConnection(
            deployment,
            adapter,
            publish=publish,
            publish_calls=publish_calls,
            clock=clock,
            observer=self,
        )

    def stop(self) -> None:
        """Ask this process to end gracefully."""
        if not self._stop_requested.done():
            self._stop_requested.set_result(None)

    async def run(self, start_spec: StartSpec, permit: StartPermit) -> ExitReason:
        """Run the process from launch to exit. Whatever happens in between, it is gone when this returns.

        Raises:
            PaddockError: it could not be launched, e.g. the cage could not be built.
        """
        if isinstance(start_spec.target, CageSpec):
            self._memory_bytes = start_spec.target.limits.memory_bytes
        endpoint = await self._launch(start_spec.target, self.on_log_line)
        permit.limit_duration()
        self._publish.publish(endpoint.start_event(self._deployment.name, self._deployment.manifest.version))
        exited = asyncio.ensure_future(endpoint.wait())
        try:
            async with attach_endpoint(self._connection, endpoint, self._on_artifact_violation):
                return await self._serve_until_exit(endpoint, start_spec, permit, exited)
        finally:
            # Shielded: a cancelled caller must not leave a plugin running.
            with anyio.CancelScope(shield=True):
                endpoint.kill()
                self._connection.close("the process ended")
                await _wait_at_most(exited, _KILL_WAIT_S)
                endpoint.close()

    async def _serve_until_exit(
        self, endpoint: PluginEndpoint, start_spec: StartSpec, permit: StartPermit, exited: asyncio.Future[ProcessExit]
    ) -> ExitReason:
        try:
            handshake = await self._race(self._handshake(), exited)
            permit.release()
            await self._race(self._adapter.configure(self._connection, start_spec.config, self._projects), exited)
            await self._race(self._load_definitions(), exited)
            self._on_running(
                RunningPlugin(self._connection, handshake, endpoint.pid, endpoint.cage_id, start_spec.config)
            )
            await self._race(self._monitor(), exited)
        except _StopRequested:
            return await self._shut_down(endpoint, exited)
        except HandshakeRejected as rejected:
            self._publish.publish(rejected.rejection.event)
            return PermanentFailure(
                rejected.rejection.code, Diagnosis(rejected.rejection.reason, rejected.rejection.hint)
            )
        except HandshakeTimeout as timeout:
            self._publish.publish(timeout.event)
            noise = self._connection.noise_lines
            return PermanentFailure(
                "initialize.timeout",
                diagnose_silence(self._name, str(timeout), endpoint.recent_log, noise, self._grant_advice),
            )
        except _KillRequested as kill:
            return await self._handle_kill_reason(kill.reason, endpoint, exited)
        except Unhealthy:
            # It may still be able to clean up, so it gets SIGTERM before it is killed.
            endpoint.signal(signal.SIGTERM)
            if not await _wait_at_most(exited, SIGTERM_GRACE_S):
                endpoint.kill()
            return await self._report_crash(
                endpoint, exited, KillReason("unwell", "it failed three health checks in a row")
            )
        except PeerLost as lost:
            return await self._handle_kill_reason(KillReason("output_closed", lost.reason), endpoint, exited)
        raise AssertionError("a watch over a plugin ends only by an exception")

    @property
    def _projects(self) -> Mapping[str, Mapping[str, Any]]:
        return self._deployment.projects

    async def _race(self, work: Any, exited: asyncio.Future[ProcessExit]) -> Any:
        """Return the result of the work, unless the process ends, a stop is requested, or it must be killed first."""
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
                task.exception()  # retrieve it, so that asyncio does not report it as never retrieved

    async def _handshake(self) -> HandshakeResult:
        result = await self._adapter.handshake(self._connection)
        self._handshake_done = True
        if result.warning is not None:
            self._publish.publish(result.warning)
        self._connection.mark_ready()
        self._publish.publish(
            PluginInitialized(
                name=self._deployment.name,
                methods_count=result.served_count,
                capabilities_count=len(self._deployment.capabilities),
            )
        )
        return result

    async def _refresh_definitions(self) -> None:
        """Fetch its definitions and have them compared with the accepted ones."""
        self._definitions_changed.clear()
        definitions = await self._adapter.list_definitions(self._connection)
        if definitions is not None:
            await self._observer.on_definitions_listed(self._deployment, definitions)

    async def _load_definitions(self) -> None:
        try:
            await self._refresh_definitions()
        except (RpcError, TimeoutError) as error:
            self.on_fatal(KillReason("unlisted", f"it did not say what it offers: {describe_error(error)}"))

    async def _monitor(self) -> None:
        """Check its health, and refresh its definitions when it says that they changed. Never returns."""
        health = HealthMonitor(self._deployment, self._connection, self._publish)
        interval = self._deployment.manifest.timing.health_interval
        next_check = self._loop.time() + interval
        while True:
            try:
                async with asyncio.timeout_at(next_check):
                    await self._definitions_changed.wait()
            except TimeoutError:
                await health.check()
                next_check = self._loop.time() + interval
            else:
                with contextlib.suppress(RpcError, TimeoutError):  # the known definitions stay in force
                    await self._refresh_definitions()

    def _on_artifact_violation(self, detail: str) -> None:
        """Record that it lost its artifact pipes. It loses nothing else."""
        self._publish.publish(
            PluginProtocolViolation(name=self._name, violation_type="artifacts", detail=printable(detail, 500))
        )
        self.on_log_line(f"[paddock] its pipes for artifacts are closed: {printable(detail, 500)}")

    # --- the observer of its connection -------------------------------------------------------------------------------

    def on_fatal(self, reason: KillReason) -> None:
        if not self._kill_reason.done():
            self._kill_reason.set_result(reason)

    def on_log_line(self, line: str) -> None:
        self._observer.on_log_line(self._deployment.key, line, self._connection.request_of_log_line())

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        self._observer.on_notification(self._deployment.key, method, params)

    def on_list_changed(self) -> None:
        self._definitions_changed.set()

    # --- shutdown and crash -------------------------------------------------------------------------------------------

    async def _shut_down(self, endpoint: PluginEndpoint, exited: asyncio.Future[ProcessExit]) -> ExitReason:
        """Escalate from a shutdown request to SIGTERM to SIGKILL. Each step has its time limit."""
        name = self._name
        show_plugin = Action.of("plugin.show", plugin=name, tenant=self._deployment.key.tenant)
        self._connection.set_exit_diagnosis(Diagnosis("it was stopped", action=show_plugin))
        self._adapter.request_shutdown(self._connection)
        if not await _wait_at_most(exited, self._deployment.manifest.timing.shutdown):
            endpoint.signal(signal.SIGTERM)
            if not await _wait_at_most(exited, SIGTERM_GRACE_S):
                endpoint.kill()
                await _wait_at_most(exited, _KILL_WAIT_S)
                self._publish.publish(PluginKilled(name=name))
                return StoppedOnRequest()
        process_exit = exited.result()
        if process_exit.code is not None:
            self._publish.publish(PluginExited(name=name, exit_code=process_exit.code))
        self._publish.publish(PluginStopped(name=name))
        return StoppedOnRequest()

    async def _handle_kill_reason(
        self, kill_reason: KillReason, endpoint: PluginEndpoint, exited: asyncio.Future[ProcessExit]
    ) -> ExitReason:
        # A process that closed its output is usually exiting, and its exit status says more than the closed pipe.
        if (
            kill_reason.kind == "output_closed"
            and endpoint.pid is not None
            and await _wait_at_most(exited, EXIT_GRACE_S)
        ):
            return await self._report_crash(endpoint, exited, None)
        self._connection.set_exit_diagnosis(Diagnosis(kill_reason.reason))  # tells callers why no answer comes
        # Wait for the kill: a process that sees its pipes close may exit by itself, and that status would say nothing.
        endpoint.kill()
        await _wait_at_most(exited, EXIT_GRACE_S)
        self._connection.close(kill_reason.reason)
        if not self._handshake_done and kill_reason.kind != "output_closed":
            reason = f"during the handshake: {kill_reason.reason}"
            self._publish.publish(
                PluginProtocolViolation(
                    name=self._deployment.name, violation_type="handshake", detail=printable(reason, 500)
                )
            )
            await _wait_at_most(exited, _KILL_WAIT_S)
            return PermanentFailure("protocol_violation", Diagnosis(reason, "the plugin's author has to fix it"))
        return await self._report_crash(endpoint, exited, kill_reason)

    async def _report_crash(
        self, endpoint: PluginEndpoint, exited: asyncio.Future[ProcessExit], kill_reason: KillReason | None
    ) -> ExitReason:
        await _wait_at_most(exited, _KILL_WAIT_S)
        process_exit = exited.result() if exited.done() else ProcessExit(None, signal.SIGKILL)
        last_stderr = await endpoint.final_log()
        self._publish.publish(
            PluginCrashed(
                name=self._deployment.name,
                exit_code=process_exit.code,
                signal=process_exit.signal,
                last_stderr=last_stderr,
            )
        )
        spends_budget = kill_reason is None or kill_reason.spends_budget
        if kill_reason is not None:
            diagnosis = Diagnosis(kill_reason.reason, action=read_log(self._name))
        else:
            diagnosis = diagnose_exit(
                self._name,
                process_exit,
                last_stderr,
                answered=self._handshake_done,
                noise=self._connection.noise_lines,
                memory_bytes=self._memory_bytes,
                advice=self._grant_advice,
            )
        self._connection.set_exit_diagnosis(diagnosis)  # tells callers why no answer comes
        return ProcessCrashed(diagnosis, process_exit, spends_budget)


async def _wait_at_most(future: asyncio.Future[Any], seconds: float) -> bool:
    if not future.done():
        await asyncio.wait({future}, timeout=seconds)
    return future.done()


@asynccontextmanager
async def attach_endpoint(
    connection: PluginConnection, endpoint: PluginEndpoint, on_pipe_violation: Callable[[str], None]
) -> AsyncGenerator[None, None]:
    """Connect the connection to the endpoint for as long as the block runs.

    Args:
        connection: The host's end.
        endpoint: The plugin's end.
        on_pipe_violation: Called with the reason if the plugin loses its artifact pipes; it loses nothing else.
    """
    connection.attach(await endpoint.connect(connection.peer))
    pipes = None
    if isinstance(endpoint, CagedEndpoint):
        endpoint.watch_network(connection.note_network_use)
        pipes = endpoint.take_artifact_pipes()
    async with open_channel(pipes, on_pipe_violation) as channel:
        if isinstance(connection.adapter, NativeAdapter):
            connection.adapter.set_artifact_channel(channel)
        yield
