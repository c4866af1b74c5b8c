"""A trial run: one process of a plugin, driven step by step for contract checks. It is never restarted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import anyio
from msgspec import Struct
from msgspec.structs import replace

from paddock.cage.spec import ProcessExit
from paddock.capabilities.methods import effective_method, find_method
from paddock.capabilities.request import CapabilityRequest
from paddock.core.action import Action
from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.errors import NotFound, PluginError
from paddock.core.events.event import EventSink
from paddock.core.ids import CallId
from paddock.core.printable import printable
from paddock.gate.idempotency.fencing import EffectFencing
from paddock.manifest.model import CallableSpec, PythonRuntime
from paddock.plugins.tool_pinning.normalize import Definition
from paddock.rpc.errors import PeerLost
from paddock.runtime.calls import plan_call
from paddock.runtime.connection import PluginConnection
from paddock.runtime.deployment import Deployment, StartSpec
from paddock.runtime.diagnosis import DECLARE_IN_MANIFEST, GrantAdvice, diagnose_stderr
from paddock.runtime.endpoint import LaunchEndpoint, PluginEndpoint
from paddock.runtime.exit_reason import KillReason
from paddock.runtime.process_run import attach_endpoint
from paddock.runtime.protocol_adapter import (
    HandshakeRejected,
    HandshakeResult,
    HandshakeTimeout,
    OutgoingMessage,
    ProtocolAdapter,
)
from paddock.runtime.protocols.native.adapter import AnswerRequest
from paddock.runtime.protocols.python.adapter import PythonAdapter
from paddock.runtime.protocols.select import select_adapter

RewordRemedy: TypeAlias = Callable[[str, Action | None], tuple[str, Action | None]]

CALL_TIMEOUT_S = 30.0
TRIAL_CALL_PREFIX = "trial_"  # of the ids of calls; the gate's own begin with `call_`
_EXIT_TIMEOUT_S = 10.0


class TrialExit(Struct, frozen=True):
    """How a plugin ended after a shutdown request."""

    seconds: float
    code: int | None
    signal: int | None
    in_time: bool


class TrialFencing(EffectFencing):
    """Fencing that accepts the calls of trial runs: they bypass the gate, so they have no idempotency record."""

    async def require(self, request: CapabilityRequest) -> None:
        if request.call_id is None or not request.call_id.startswith(TRIAL_CALL_PREFIX):
            await super().require(request)


class TrialRun:
    """A process that was started and nothing more. Made by `open_trial_run`.

    Attributes:
        log: The lines of its log.
        host_requests: The methods that it requested of the host, without the namespace, in order.
        kill_reason: The fatal violation that it committed; empty while it behaves.
    """

    def __init__(
        self,
        deployment: Deployment,
        start_spec: StartSpec,
        endpoint: PluginEndpoint,
        adapter: ProtocolAdapter,
        log: list[str],
        host_requests: list[str],
        publish: EventSink,
        clock: Clock,
        reword: RewordRemedy,
        advice: GrantAdvice,
    ) -> None:
        self.manifest = deployment.manifest
        self.capabilities = deployment.capabilities
        self.log = log
        self.host_requests = host_requests
        self.kill_reason = ""
        self._ending = False  # it may close its output during shutdown
        self._start_spec = start_spec
        self._endpoint = endpoint
        self._adapter = adapter
        self._reword = reword
        self._advice = advice
        self._exited = asyncio.ensure_future(endpoint.wait())
        self._connection = PluginConnection(
            deployment,
            adapter,
            publish=publish,
            clock=clock,
            observer=self,
        )

    def attached(self) -> AbstractAsyncContextManager[None]:
        return attach_endpoint(self._connection, self._endpoint, self._misused_pipes)

    @property
    def noise(self) -> list[str]:
        """The first lines on its standard output that are not JSON-RPC."""
        return self._connection.noise_lines

    async def handshake(self) -> HandshakeResult:
        """Perform the handshake.

        Raises:
            PluginError: the handshake failed; says how.
        """
        try:
            result = await self._adapter.handshake(self._connection)
        except HandshakeRejected as rejected:
            raise self._rejection_error(rejected) from None
        except (HandshakeTimeout, PeerLost) as error:
            raise await self.crash_error(str(error)) from None
        self._connection.mark_ready()
        return result

    async def configure(self) -> Mapping[str, Any]:
        """Send it its configuration, and return that.

        Raises:
            PluginError: it rejects the configuration.
        """
        try:
            await self._adapter.configure(self._connection, self._start_spec.config, {})
        except HandshakeRejected as rejected:
            raise self._rejection_error(rejected) from None
        except PeerLost as lost:
            raise await self.crash_error(lost.reason) from None
        return self._start_spec.config

    async def definitions(self) -> tuple[Definition, ...] | None:
        """List the definitions that it offers, if the manifest declares none."""
        return await self._adapter.list_definitions(self._connection)

    async def ping(self) -> bool:
        """Return whether it answers its protocol's ping.

        Raises:
            TimeoutError, PeerLost: it does not answer.
        """
        return await self._adapter.ping(self._connection)

    async def request(self, method: str, params: Mapping[str, Any], timeout_s: float) -> Any:
        """Send any request and return the result.

        Raises:
            RpcFault: the response is an error.
            TimeoutError, PeerLost: there is no response.
        """
        return await self._connection.request(OutgoingMessage(method, dict(params)), timeout_s)

    async def call(self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, *, key: str = "") -> Any:
        """Call it bypassing the gate, so that calls which the gate would stop arrive. Returns the raw result.

        Args:
            spec: The callable.
            payload: Its parameters.
            context: The caller.
            key: The idempotency key, for callables that receive one.

        Raises:
            PaddockError: it responded with an error, or not at all.
        """
        if isinstance(self._adapter, _RawPythonAdapter):
            self._adapter.use_key(key)
        plan = plan_call(self.manifest, spec, CALL_TIMEOUT_S)
        if not plan.has_effect:
            return await self._connection.call(plan, payload, context)
        # As the gate claims it: a call with an effect has a key, and its changes of tables are recorded under its id.
        call = CallId(f"{TRIAL_CALL_PREFIX}{key or context.request}")
        claimed = replace(context, idempotency_key=key or context.request, fence=1, call=call)
        return await self._connection.call(plan, payload, claimed, call=call)

    async def shut_down(self) -> TrialExit:
        """Request a shutdown, and wait as long as its manifest allows."""
        self._ending = True
        started, timeout_s = time.monotonic(), float(self.manifest.timing.shutdown)
        self._adapter.request_shutdown(self._connection)
        await asyncio.wait({self._exited}, timeout=timeout_s)
        in_time = self._exited.done()
        if not in_time:
            self._endpoint.kill()
            await asyncio.wait({self._exited}, timeout=_EXIT_TIMEOUT_S)
        exit_status = self._exited.result() if self._exited.done() else ProcessExit(None, None)
        return TrialExit(time.monotonic() - started, exit_status.code, exit_status.signal, in_time)

    async def close(self) -> None:
        self._endpoint.kill()
        self._connection.close("the trial is over")
        await asyncio.wait({self._exited}, timeout=_EXIT_TIMEOUT_S)
        self._endpoint.close()

    def _rejection_error(self, rejected: HandshakeRejected) -> PluginError:
        rejection = rejected.rejection
        hint, action = self._reword(rejection.hint, None)
        return PluginError(rejection.reason, code=rejection.code, hint=hint, action=action)

    async def crash_error(self, message: str) -> PluginError:
        """Kill a process that did not answer, and build an error with what it wrote about the cause."""
        self._endpoint.kill()
        await asyncio.wait({self._exited}, timeout=_EXIT_TIMEOUT_S)
        lines = [*self.noise, *await self._endpoint.final_log()]
        diagnosis = diagnose_stderr(lines, self._advice)
        last_line = next((line for line in reversed(self.log) if line.strip()), "")
        cause = diagnosis.reason if diagnosis else last_line
        hint, action = self._reword(diagnosis.hint, diagnosis.action) if diagnosis else ("", None)
        text = f"{message}: {printable(cause, 400)}" if cause else message
        return PluginError(text, code="plugin.crashed", hint=hint, action=action)

    def _misused_pipes(self, detail: str) -> None:
        self.kill_reason = self.kill_reason or f"it misused its pipes for artifacts: {detail}"

    # --- the observer of its connection -------------------------------------------------------------------------------

    def on_fatal(self, reason: KillReason) -> None:
        if not self._ending:
            self.kill_reason = self.kill_reason or reason.reason

    def on_log_line(self, line: str) -> None:
        self.log.append(line)

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Do nothing: a trial does not judge notifications."""

    def on_list_changed(self) -> None:
        """Do nothing: a trial lists the definitions once."""


class _RawPythonAdapter(PythonAdapter):
    """An adapter for Python workers that returns the whole envelope, and sends an idempotency key."""

    _key = ""

    def use_key(self, key: str) -> None:
        """Send this idempotency key with the next calls; an empty one is not sent."""
        self._key = key

    def build_call(
        self, spec: CallableSpec, payload: Mapping[str, Any], context: CallContext, token: str, *, listens: bool
    ) -> OutgoingMessage:
        message = super().build_call(spec, payload, context, token, listens=listens)
        if self._key:
            message.params["envelope"]["idempotency_key"] = self._key
        return message

    def parse_result(self, spec: CallableSpec, raw: Any) -> Any:
        del spec
        return raw


def _requested_method(request: CapabilityRequest, method: str, params: Mapping[str, Any]) -> str:
    """Return the name as it would be recorded; of an unknown method, the name without the namespace."""
    try:
        return effective_method(request.manifest, find_method(request.manifest, method), params).recorded_name
    except NotFound:
        return method.partition(".")[2]


@asynccontextmanager
async def open_trial_run(
    deployment: Deployment,
    start_spec: StartSpec,
    launch: LaunchEndpoint,
    answer_request: AnswerRequest,
    *,
    mcp_timeout_s: float,
    publish: EventSink,
    clock: Clock,
    reword: RewordRemedy = lambda hint, action: (hint, action),
    advice: GrantAdvice = DECLARE_IN_MANIFEST,
) -> AsyncGenerator[TrialRun, None]:
    """Start a trial run that ends with the block.

    Hints are rephrased by `reword` for their reader; `advice` says how the plugin gets another capability.

    Raises:
        PaddockError: it cannot be started, e.g. the cage could not be built.
    """
    log: list[str] = []
    methods: list[str] = []

    async def record_and_answer(request: CapabilityRequest, method: str, params: Mapping[str, Any]) -> Any:
        methods.append(_requested_method(request, method, params))
        return await answer_request(request, method, params)

    python = isinstance(deployment.manifest.runtime, PythonRuntime)
    adapter = (
        _RawPythonAdapter(deployment, record_and_answer)
        if python
        else select_adapter(deployment, answer_request=record_and_answer, mcp_timeout_s=mcp_timeout_s)
    )
    endpoint = await launch(start_spec.target, log.append)
    trial = TrialRun(deployment, start_spec, endpoint, adapter, log, methods, publish, clock, reword, advice)
    try:
        async with trial.attached():
            yield trial
    finally:
        # Shielded: cancelling a trial must not leave a plugin running.
        with anyio.CancelScope(shield=True):
            await trial.close()
