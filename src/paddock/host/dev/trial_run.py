"""One life of a plugin, gone through step by step by whoever wants to see how it does. Nobody restarts it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from paddock.cage.spec import ProcessExit
from paddock.capabilities.request import CapabilityRequest
from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.errors import PluginError
from paddock.core.events.event import EventSink
from paddock.host.dev.author import rephrase_for_author
from paddock.manifest.model import CallableSpec, PythonRuntime
from paddock.rpc.errors import PeerLost
from paddock.runtime.calls import plan_call
from paddock.runtime.connection import PluginConnection
from paddock.runtime.deployment import Deployment, StartSpec
from paddock.runtime.diagnosis import diagnose_stderr
from paddock.runtime.endpoint import EndpointLauncher, PluginEndpoint
from paddock.runtime.exit_reason import KillReason
from paddock.runtime.process_run import attach_endpoint
from paddock.runtime.protocol_adapter import (
    Definition,
    HandshakeRejected,
    HandshakeResult,
    HandshakeTimeout,
    OutgoingMessage,
    ProtocolAdapter,
)
from paddock.runtime.protocols.native.adapter import CapabilityHandler
from paddock.runtime.protocols.python.adapter import PythonAdapter
from paddock.runtime.protocols.select import select_adapter

CALL_TIMEOUT_S = 30.0
_EXIT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class TrialExit:
    """How a plugin went when it was asked to."""

    seconds: float
    code: int | None
    signal: int | None
    in_time: bool


class TrialRun:
    """A process that was started and nothing more. Made by `on_trial`.

    Attributes:
        log: The lines of its log.
        asked: What it asked of the host, by method and without the namespace, in order.
        fatal: What it did that ends a plugin; empty while it behaves.
    """

    def __init__(
        self,
        deployment: Deployment,
        prepared: StartSpec,
        body: PluginEndpoint,
        wire: ProtocolAdapter,
        lines: list[str],
        asked: list[str],
        publish: EventSink,
        clock: Clock,
    ) -> None:
        self.manifest = deployment.manifest
        self.capabilities = deployment.capabilities
        self.log = lines
        self.host_requests = asked
        self.kill_reason = ""
        self._ending = False  # from then on it may close its output
        self._prepared = prepared
        self._endpoint = body
        self._adapter = wire
        self._exited = asyncio.ensure_future(body.wait())
        self._connection = PluginConnection(
            deployment,
            wire,
            publish=publish,
            clock=clock,
            on_fatal=self._on_kill_reason,
            on_notification=lambda _method, _params: None,
            on_log=self.log.append,
        )

    def attached(self) -> AbstractAsyncContextManager[None]:
        return attach_endpoint(self._connection, self._endpoint, self._misused_pipes)

    @property
    def noise(self) -> list[str]:
        """The first lines on its standard output that are no JSON-RPC."""
        return self._connection.noise_lines

    async def handshake(self) -> HandshakeResult:
        """The first exchange.

        Raises:
            PluginError: it did not answer as it should; says how.
        """
        try:
            introduced = await self._adapter.handshake(self._connection)
        except HandshakeRejected as refusal:
            raise self._rejection_error(refusal) from None
        except (HandshakeTimeout, PeerLost) as error:
            raise await self._crash_error(str(error)) from None
        self._connection.mark_ready()
        return introduced

    async def configure(self) -> Mapping[str, Any]:
        """Give it its configuration, and return which.

        Raises:
            PluginError: it does not take it.
        """
        try:
            await self._adapter.configure(self._connection, self._prepared.config, {})
        except HandshakeRejected as refusal:
            raise self._rejection_error(refusal) from None
        except PeerLost as gone:
            raise await self._crash_error(gone.reason) from None
        return self._prepared.config

    async def definitions(self) -> tuple[Definition, ...] | None:
        """What it says that it offers, where its manifest does not."""
        return await self._adapter.list_definitions(self._connection)

    async def ping(self) -> bool:
        """Whether it answers its protocol's ping.

        Raises:
            TimeoutError, PeerLost: it does not.
        """
        return await self._adapter.ping(self._connection)

    async def request(self, method: str, params: Mapping[str, Any], within: float) -> Any:
        """Its answer to any request.

        Raises:
            RpcFault: it is an error.
            TimeoutError, PeerLost: there is none.
        """
        return await self._connection.request(OutgoingMessage(method, dict(params)), within)

    async def call(self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, *, key: str = "") -> Any:
        """Call it without the gate, so that what the gate would stop arrives. Gives the answer as it came.

        Args:
            spec: What to call.
            payload: With what.
            context: For whom.
            key: The idempotency key, for those that are told one.

        Raises:
            PaddockError: it answered with an error, or not at all.
        """
        if isinstance(self._adapter, _RawPythonAdapter):
            self._adapter.key = key
        return await self._connection.call(plan_call(self.manifest, spec, CALL_TIMEOUT_S), payload, context)

    async def shut_down(self) -> TrialExit:
        """Ask it to end, and wait as long as its manifest says."""
        self._ending = True
        began, limit = time.monotonic(), float(self.manifest.timing.shutdown)
        self._adapter.request_shutdown(self._connection)
        await asyncio.wait({self._exited}, timeout=limit)
        in_time = self._exited.done()
        if not in_time:
            self._endpoint.kill()
            await asyncio.wait({self._exited}, timeout=_EXIT_TIMEOUT_S)
        ended = self._exited.result() if self._exited.done() else ProcessExit(None, None)
        return TrialExit(time.monotonic() - began, ended.code, ended.signal, in_time)

    async def close(self) -> None:
        self._endpoint.kill()
        self._connection.close("the trial is over")
        await asyncio.wait({self._exited}, timeout=_EXIT_TIMEOUT_S)
        self._endpoint.close()

    def _rejection_error(self, refusal: HandshakeRejected) -> PluginError:
        refused = refusal.rejection
        return PluginError(
            refused.reason, code=refused.code, hint=rephrase_for_author(refused.hint, self.manifest.name)
        )

    async def _crash_error(self, words: str) -> PluginError:
        """What became of a process that did not answer, with what it wrote about it."""
        self._endpoint.kill()
        await asyncio.wait({self._exited}, timeout=_EXIT_TIMEOUT_S)
        said = diagnose_stderr([*self.noise, *await self._endpoint.final_log()])
        last = next((line for line in reversed(self.log) if line.strip()), "")
        more = said.reason if said else last
        hint = rephrase_for_author(said.hint, self.manifest.name) if said else ""
        return PluginError(f"{words}: {more}" if more else words, code="plugin.crashed", hint=hint)

    def _misused_pipes(self, detail: str) -> None:
        self.kill_reason = self.kill_reason or f"it misused its pipes for artifacts: {detail}"

    def _on_kill_reason(self, fatal: KillReason) -> None:
        if not self._ending:
            self.kill_reason = self.kill_reason or fatal.reason


class _RawPythonAdapter(PythonAdapter):
    """A worker's wire that shows the whole envelope, and hands over an idempotency key."""

    key = ""

    def build_call(
        self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str, *, listens: bool
    ) -> OutgoingMessage:
        message = super().build_call(spec, payload, context, token, listens=listens)
        if self.key:
            message.params["envelope"]["idempotency_key"] = self.key
        return message

    def parse_result(self, spec: CallableSpec, raw: Any) -> Any:
        del spec
        return raw


@dataclass(frozen=True, slots=True)
class _RecordingDispatcher:
    """Notes what a plugin asks for, and passes it on."""

    door: CapabilityHandler
    asked: list[str] = field(default_factory=list[str])

    async def answer(self, request: CapabilityRequest, method: str, params: Mapping[str, Any]) -> Any:
        self.asked.append(method.partition(".")[2])
        return await self.door.answer(request, method, params)


@asynccontextmanager
async def open_trial_run(
    deployment: Deployment,
    prepared: StartSpec,
    bodies: EndpointLauncher,
    door: CapabilityHandler,
    *,
    publish: EventSink,
    clock: Clock,
) -> AsyncGenerator[TrialRun, None]:
    """A life that ends with the block.

    Raises:
        PaddockError: there is none, e.g. the cage could not be built.
    """
    lines: list[str] = []
    listening = _RecordingDispatcher(door)
    python = isinstance(deployment.manifest.runtime, PythonRuntime)
    wire = _RawPythonAdapter(deployment, listening) if python else select_adapter(deployment, capabilities=listening)
    body = await bodies.launch(prepared.target, lines.append)
    trial = TrialRun(deployment, prepared, body, wire, lines, listening.asked, publish, clock)
    try:
        async with trial.attached():
            yield trial
    finally:
        # Shielded: whoever cancels a trial must not leave a plugin running.
        with anyio.CancelScope(shield=True):
            await trial.close()
