"""The connection to one plugin process: handshake requests, calls, cancellation and timeouts.

`inbound.py` handles the messages that the plugin sends unasked. Neither module knows of processes: if something happens
that the process must not survive, they report it to their observer, the owner of the process, which kills it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from paddock.capabilities.request import MethodCounts
from paddock.capabilities.sql.plugin_database import belongs_to_transaction
from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError, TimedOut, Unavailable
from paddock.core.events.event import EventSink
from paddock.core.events.plugin_runtime import PluginMethodCalled, PluginMethodReturned
from paddock.core.ids import CallId, RequestId
from paddock.rpc.errors import NO_ANSWER, PeerLost, RpcError
from paddock.rpc.peer import JsonRpcPeer, PendingRequest
from paddock.rpc.transport import Transport
from paddock.runtime.calls import AskCaller, CallPlan, DeliveryStatus, InFlightCall, InFlightCalls, OnEvent
from paddock.runtime.deployment import Deployment
from paddock.runtime.diagnosis import Diagnosis, read_log
from paddock.runtime.errors import had_no_effect, is_answered, to_paddock_error
from paddock.runtime.exit_reason import EXIT_GRACE_S, KillReason
from paddock.runtime.inbound import InboundHandler
from paddock.runtime.observer import ConnectionObserver
from paddock.runtime.protocol_adapter import InputRequired, OutgoingMessage, ProtocolAdapter
from paddock.secrets.requirements import called_operation

CANCEL_GRACE_S = 5.0
MAX_INPUT_ROUNDS = 10  # how often a plugin may want something more before it answers one call

# Builds the hook request, given the call token.
HookRequestBuilder: TypeAlias = Callable[[str], OutgoingMessage]


class PluginConnection:
    """The host's end of the JSON-RPC connection to one plugin process."""

    def __init__(
        self,
        deployment: Deployment,
        adapter: ProtocolAdapter,
        *,
        publish: EventSink,
        clock: Clock,
        observer: ConnectionObserver,
        publish_calls: bool = False,
    ) -> None:
        self.adapter = adapter
        self._name = deployment.name
        self._manifest = deployment.manifest
        self._publish_call = publish.publish if publish_calls else None
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._in_flight_calls = InFlightCalls(self._loop, self._on_timeout)
        self._inbound = InboundHandler(
            deployment.name,
            adapter,
            self._in_flight_calls,
            publish=publish,
            clock=clock,
            notify=self.notify,
            observer=observer,
        )
        self._peer = JsonRpcPeer(self._inbound, passes=belongs_to_transaction)
        self._exit_diagnosis: asyncio.Future[Diagnosis] = self._loop.create_future()  # set once the process ended
        self._call_count = 0
        self._cancel_watchers: set[asyncio.Task[None]] = set()  # wait for cancelled calls to stop
        self._is_ending = False

    # --- for the owner of the process ---------------------------------------------------------------------------------

    @property
    def peer(self) -> JsonRpcPeer:
        """The JSON-RPC peer that a transport delivers frames to."""
        return self._peer

    def attach(self, transport: Transport) -> None:
        self._peer.attach(transport)

    def mark_ready(self) -> None:
        """Mark the handshake as done: calls and notifications may pass."""
        self._inbound.open()

    def set_exit_diagnosis(self, diagnosis: Diagnosis) -> None:
        """Record why the process ended, for the callers whose calls end with it. The first diagnosis wins."""
        if not self._exit_diagnosis.done():
            self._exit_diagnosis.set_result(diagnosis)

    def close(self, reason: str) -> None:
        """Close the connection; every in-flight call fails as unavailable."""
        self.set_exit_diagnosis(Diagnosis(reason))
        self._inbound.close()
        self._in_flight_calls.close()
        for watcher in self._cancel_watchers:
            watcher.cancel()
        self._peer.close(reason)

    @property
    def is_ending(self) -> bool:
        """Whether the process is about to be killed, so that a call sent now would end with it."""
        return self._is_ending

    async def wait_cancelled_stopped(self) -> None:
        """Wait until the cancelled calls have stopped, or the process is about to be killed because one did not.

        Bounded: a cancelled call may be queued in the plugin behind calls that take minutes.
        """
        if self._cancel_watchers:
            await asyncio.wait(set(self._cancel_watchers), timeout=2 * CANCEL_GRACE_S)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight_calls)

    @property
    def noise_lines(self) -> list[str]:
        """The first lines on its stdout that were not JSON-RPC."""
        return self._inbound.noise_lines

    def request_of_log_line(self) -> RequestId | None:
        """Return the request that a line of its standard error belongs to, if that is certain."""
        return self._in_flight_calls.request_of_log_line()

    def note_network_use(self) -> None:
        """Record that the process used a network connection of its own."""
        self._in_flight_calls.note_network_use()

    def abort_effects(self, why: str) -> None:
        """Have the process killed if an in-flight call may change something."""
        if self._in_flight_calls.has_effects:
            self._kill_process(KillReason("host_lost", why, spends_budget=False), why)

    async def drain(self) -> None:
        """Wait until no call is in flight."""
        await self._in_flight_calls.wait_empty()

    async def request(self, message: OutgoingMessage, timeout_s: float) -> Any:
        """Send a request of the host's own; see `RequestSender`."""
        pending = self._peer.request(message.method, message.params)
        try:
            async with asyncio.timeout(timeout_s):
                return await pending.future
        except (TimeoutError, asyncio.CancelledError):
            self._peer.forget(pending)
            raise

    def notify(self, message: OutgoingMessage) -> None:
        """Send a notification of the host's own; see `RequestSender`."""
        with contextlib.suppress(PeerLost, RpcError):
            self._peer.notify(message.method, message.params)

    def subscribe(self, message: OutgoingMessage, on_over: Callable[[BaseException | None], None]) -> None:
        """Send a request that is answered only when it is over; see `RequestSender`."""
        try:
            pending = self._peer.request(message.method, message.params)
        except (PeerLost, RpcError) as error:
            on_over(error)
        else:
            pending.future.add_done_callback(lambda done: on_over(done.exception()) if not done.cancelled() else None)

    def finish(self) -> None:
        """Close the sending side; see `RequestSender`."""
        self._peer.finish()

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call(
        self,
        plan: CallPlan,
        payload: Mapping[str, Any],
        context: CallContext,
        *,
        call: CallId | None = None,
        on_event: OnEvent | None = None,
        ask: AskCaller | None = None,
        method_counts: MethodCounts | None = None,
        status: DeliveryStatus | None = None,
    ) -> Any:
        """Call the plugin and wait for its result.

        `ask` answers the plugin's questions. `method_counts` counts the host methods that the plugin uses for the call
        with the id `call`. `status` records how far the call got.

        If the caller is cancelled or the deadline passes, the plugin gets a moment to stop by itself. A plugin that
        does not stop is killed, at once if the call has an effect. It is not killed while earlier calls are in flight:
        it may not have got to this one.

        Raises:
            TimedOut: no answer, and no progress event, within the plan's timeout.
            Unavailable: the plugin ended meanwhile.
            PaddockError: the plugin answered with an error; see `errors.py`.
        """
        self._call_count += 1
        token = self.adapter.call_token(self._call_count)
        sent = self.adapter.build_call(plan.spec, payload, context, token, listens=on_event is not None)
        started_at = self._loop.time()
        try:
            pending = self._send_request(sent)
        except PeerLost as lost:
            raise await self._exited_error(lost.reason) from None
        status = DeliveryStatus() if status is None else status
        status.sent = True
        method_counts = {} if method_counts is None else method_counts
        in_flight_call = InFlightCall(
            pending,
            context,
            token,
            started_at,
            plan.idle_timeout_s,
            plan.has_effect,
            on_event,
            ask,
            effects=plan.effects,
            method_counts=method_counts,
            atomic=plan.spec.recovery == "atomic",
            call=call or context.call,
            callable_name=plan.spec.name,
            operation=called_operation(self._manifest, plan.spec, payload) if self._manifest.operation_auth else None,
        )
        self._in_flight_calls.add(in_flight_call)
        if self._publish_call is not None:
            self._publish_call(
                PluginMethodCalled(
                    name=self._name,
                    method=plan.method,
                    request_id=context.request,
                    operator_id=context.operator,
                    project_id=context.project,
                )
            )
        succeeded, started_work = False, False
        input_required: InputRequired | None = None
        try:
            raw = await pending.future
            started_work = True
            input_required = self.adapter.parse_input_required(sent, raw)
            if input_required is not None:
                raw = await self._answer_input_requests(in_flight_call, input_required)
            result = self.adapter.parse_result(plan.spec, raw)
        except RpcError as rpc_error:
            # A plugin that asked for input, or used a host method, has started and did not reject the call.
            refusals = self.adapter.not_started_codes if not started_work and not method_counts else frozenset[int]()
            error = to_paddock_error(self._name, rpc_error, refusals)
            status.refused, status.answered = had_no_effect(error), is_answered(error)
            raise error from None
        except PaddockError as error:
            status.refused, status.answered = had_no_effect(error), is_answered(error)
            raise
        except PeerLost as lost:
            raise await self._exited_error(lost.reason) from None
        except asyncio.CancelledError:
            # The caller may be cancelled in the moment in which the answer arrives; then there is nothing to stop.
            if not _has_result(in_flight_call.pending.future):
                self._on_cancelled(in_flight_call)
            else:
                succeeded = input_required is None
            raise
        else:
            succeeded = True
            return result
        finally:
            self._in_flight_calls.remove(in_flight_call)
            if self._publish_call is not None:
                self._publish_call(
                    PluginMethodReturned(
                        name=self._name,
                        method=plan.method,
                        request_id=context.request,
                        duration_ms=int((self._loop.time() - started_at) * 1e6) / 1000,
                        success=succeeded,
                    )
                )

    def _send_request(self, message: OutgoingMessage) -> PendingRequest:
        try:
            return self._peer.request(message.method, message.params)
        except RpcError as fault:
            raise to_paddock_error(self._name, fault) from None

    async def _answer_input_requests(self, in_flight_call: InFlightCall, input_required: InputRequired) -> Any:
        """Ask the caller for the input that the plugin requires, retry the call with it, and return the raw result."""
        pending_input: InputRequired | None = input_required
        for _ in range(MAX_INPUT_ROUNDS):
            answers = [
                await self._in_flight_calls.ask_caller(in_flight_call, question) for question in pending_input.questions
            ]
            await asyncio.sleep(pending_input.delay_s)
            sent = pending_input.build_retry(answers)
            self._in_flight_calls.rebind(in_flight_call, self._send_request(sent))
            raw = await in_flight_call.pending.future
            pending_input = self.adapter.parse_input_required(sent, raw)
            if pending_input is None:
                return raw
        raise RpcError(NO_ANSWER, f"{self._name} asked back {MAX_INPUT_ROUNDS} times and gave no answer")

    async def call_hook(self, build_request: HookRequestBuilder, context: CallContext, timeout_s: float) -> Any:
        """Send a hook request. It counts as in flight, and its timeout is the caller's.

        Raises:
            RpcError, TimeoutError, PeerLost: as for `request`.
        """
        self._call_count += 1
        token = self.adapter.call_token(self._call_count)
        method, params = build_request(token)
        pending = self._peer.request(method, params)
        in_flight_call = InFlightCall(
            pending, context, token, self._loop.time(), float("inf"), effect=False, on_event=None
        )
        self._in_flight_calls.add(in_flight_call)
        try:
            async with asyncio.timeout(timeout_s):
                return await pending.future
        except (TimeoutError, asyncio.CancelledError):
            self._peer.forget(pending)
            if self.adapter.supports_cancel:
                self.notify(self.adapter.build_cancel(pending.id, token))
            raise
        finally:
            self._in_flight_calls.remove(in_flight_call)

    def _on_timeout(self, in_flight_call: InFlightCall) -> None:
        future = in_flight_call.pending.future
        if future.done():
            return
        future.set_exception(
            TimedOut(
                f"{self._name} did not answer within {in_flight_call.idle_timeout_s:g} s",
                hint="a callable that needs longer can declare timeout_sec",
                details={"plugin": self._name, "timeout_sec": in_flight_call.idle_timeout_s},
            )
        )
        description = f"call was not answered within {in_flight_call.idle_timeout_s:g} s"
        kill_reason = KillReason("hung", f"a {description}")
        if self.adapter.supports_cancel and self._gets_cancel_grace(in_flight_call):
            self._kill_unless_stopped(in_flight_call, kill_reason, f"another {description}")
        else:  # a plugin without cancellation has had its time
            self._kill_now(in_flight_call, kill_reason, f"another {description}")

    def _on_cancelled(self, in_flight_call: InFlightCall) -> None:
        kill_reason = KillReason("cancelled", "a cancelled call did not stop", spends_budget=False)
        if self._gets_cancel_grace(in_flight_call):
            self._kill_unless_stopped(in_flight_call, kill_reason, "another call was cancelled and did not stop")
        else:
            self._kill_now(in_flight_call, kill_reason, "another call was cancelled, which has effects")

    def _gets_cancel_grace(self, in_flight_call: InFlightCall) -> bool:
        """Whether an abandoned call gets a moment to stop. One with an effect does not: every second may do more."""
        return not in_flight_call.effect or (
            self.adapter.supports_cancel and self._in_flight_calls.has_earlier(in_flight_call)
        )

    def _kill_now(self, in_flight_call: InFlightCall, kill_reason: KillReason, description: str) -> None:
        self._peer.forget(in_flight_call.pending)
        self._kill_process(kill_reason, description)

    def _kill_unless_stopped(self, in_flight_call: InFlightCall, kill_reason: KillReason, description: str) -> None:
        if self.adapter.supports_cancel:
            self.notify(self.adapter.build_cancel(in_flight_call.pending.id, in_flight_call.token))
        late_answer: asyncio.Future[Any] | None = None
        if self.adapter.confirms_cancel:
            late_answer = self._peer.detach(in_flight_call.pending)
        else:
            self._peer.forget(in_flight_call.pending)
        watcher = self._loop.create_task(self._await_cancel(in_flight_call, late_answer, kill_reason, description))
        self._cancel_watchers.add(watcher)
        watcher.add_done_callback(self._cancel_watchers.discard)

    async def _await_cancel(
        self,
        in_flight_call: InFlightCall,
        late_answer: asyncio.Future[Any] | None,
        kill_reason: KillReason,
        description: str,
    ) -> None:
        while not await (self._ping() if late_answer is None else _answers_in_time(late_answer)):
            if in_flight_call.effect or not self._in_flight_calls.has_earlier(in_flight_call):
                self._kill_process(kill_reason, description)
                return
            # The call may still be queued in the plugin. It gets the same grace again once it must have been reached.
            await self._in_flight_calls.wait_earlier_done(in_flight_call)

    async def _ping(self) -> bool:
        """Ping a plugin that does not confirm cancellation: it may go on if it still answers."""
        try:
            async with asyncio.timeout(CANCEL_GRACE_S):
                return await self.adapter.ping(self)
        except (TimeoutError, PeerLost):
            return False

    def _kill_process(self, kill_reason: KillReason, description: str) -> None:
        """Have the process killed because of one call; `description` explains it to callers whose calls end with it."""
        self._is_ending = True
        self.set_exit_diagnosis(
            Diagnosis(f"{description}, and this one ended with its process", "repeat the call: the plugin restarts")
        )
        self._observer.on_fatal(kill_reason)

    async def _exited_error(self, reason: str) -> Unavailable:
        """Build the error for a caller whose plugin is gone. The diagnosis arrives a moment after the exit."""
        await asyncio.wait({self._exit_diagnosis}, timeout=EXIT_GRACE_S)
        diagnosis = self._exit_diagnosis.result() if self._exit_diagnosis.done() else Diagnosis(reason)
        return Unavailable(
            f"{self._name} ended before it answered: {diagnosis.reason}",
            hint=diagnosis.hint,
            action=diagnosis.action or (None if diagnosis.hint else read_log(self._name)),
            details={"plugin": self._name},
        )


def _has_result(future: asyncio.Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


async def _answers_in_time(late_answer: asyncio.Future[Any]) -> bool:
    """Whether an answer arrives within the cancellation grace period."""
    await asyncio.wait({late_answer}, timeout=CANCEL_GRACE_S)
    return late_answer.done()
