"""The conversation with one plugin process, from `initialize` to its end: what it is asked, told and called for.

What it sends by itself is judged in `incoming.py`. Neither knows of processes: when something happens that the process
must not survive, they say so through `on_fatal`, and whoever owns the process ends it.
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
from paddock.core.ids import CallId
from paddock.rpc.errors import INTERNAL_ERROR, PeerLost, RpcError
from paddock.rpc.peer import JsonRpcPeer, PendingRequest
from paddock.rpc.transport import Transport
from paddock.runtime.calls import AskCaller, CallPlan, DeliveryStatus, InFlightCall, InFlightCalls, OnEvent
from paddock.runtime.deployment import Deployment
from paddock.runtime.diagnosis import Diagnosis, see_log_hint
from paddock.runtime.errors import had_no_effect, to_paddock_error
from paddock.runtime.exit_reason import EXIT_GRACE_S, KillReason
from paddock.runtime.inbound import InboundHandler
from paddock.runtime.protocol_adapter import InputRequired, OutgoingMessage, ProtocolAdapter
from paddock.secrets.requirements import called_operation

CANCEL_GRACE_S = 5.0
MAX_INPUT_ROUNDS = 10  # how often a plugin may want something more before it answers one call

# The request that tells of a moment in a session, given the token that names it.
HookRequestBuilder: TypeAlias = Callable[[str], OutgoingMessage]


class PluginConnection:
    """The host's end of one plugin's wire."""

    def __init__(
        self,
        deployment: Deployment,
        wire: ProtocolAdapter,
        *,
        publish: EventSink,
        clock: Clock,
        on_fatal: Callable[[KillReason], None],
        on_notification: Callable[[str, Mapping[str, Any]], None],
        on_log: Callable[[str], None] = lambda _line: None,
        on_redefined: Callable[[], None] = lambda: None,
    ) -> None:
        self.adapter = wire
        self._name = deployment.name
        self._manifest = deployment.manifest
        self._publish = publish.publish
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        self._in_flight_calls = InFlightCalls(self._loop, self._on_timeout)
        self._inbound = InboundHandler(
            deployment.name,
            wire,
            self._in_flight_calls,
            publish=publish,
            clock=clock,
            tell=self.notify,
            on_fatal=on_fatal,
            on_notification=on_notification,
            on_log=on_log,
            on_redefined=on_redefined,
        )
        self._peer = JsonRpcPeer(self._inbound, passes=belongs_to_transaction)
        self._exit_diagnosis: asyncio.Future[Diagnosis] = self._loop.create_future()  # it ended
        self._call_count = 0
        self._cancel_watchers: set[asyncio.Task[None]] = set()  # after calls that were stopped

    # --- for the owner of the process -------------------------------------------------------------------------------

    @property
    def peer(self) -> JsonRpcPeer:
        """What a transport delivers frames to."""
        return self._peer

    def attach(self, transport: Transport) -> None:
        self._peer.attach(transport)

    def mark_ready(self) -> None:
        """The first exchange is over: calls and notifications may pass."""
        self._inbound.phase = "open"

    def set_exit_diagnosis(self, diagnosis: Diagnosis) -> None:
        """Say why the process ended, for those whose calls end with it. The first to know is believed."""
        if not self._exit_diagnosis.done():
            self._exit_diagnosis.set_result(diagnosis)

    def close(self, reason: str) -> None:
        """End the conversation; every call under way fails as unavailable."""
        self.set_exit_diagnosis(Diagnosis(reason))
        self._inbound.phase = "over"
        self._in_flight_calls.close()
        for look in self._cancel_watchers:
            look.cancel()
        self._peer.close(reason)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight_calls)

    @property
    def noise_lines(self) -> list[str]:
        """The first lines on its output that were no JSON-RPC."""
        return self._inbound.noise_lines

    def note_network_use(self) -> None:
        """The process used a connection of its own."""
        self._in_flight_calls.note_network_use()

    def abort_effects(self, why: str) -> None:
        """Have the process ended where a call under way may change something."""
        if self._in_flight_calls.has_effects:
            self._kill_process(KillReason("host_lost", why, spends_budget=False), why)

    async def drain(self) -> None:
        """Wait until no call is under way."""
        await self._in_flight_calls.wait_empty()

    async def request(self, message: OutgoingMessage, within: float) -> Any:
        """A request of the host's own; see `Talk`."""
        pending = self._peer.request(message.method, message.params)
        try:
            async with asyncio.timeout(within):
                return await pending.future
        except (TimeoutError, asyncio.CancelledError):
            self._peer.forget(pending)
            raise

    def notify(self, message: OutgoingMessage) -> None:
        """A notification of the host's own; see `Talk`."""
        with contextlib.suppress(PeerLost, RpcError):
            self._peer.notify(message.method, message.params)

    def subscribe(self, message: OutgoingMessage, over: Callable[[BaseException | None], None]) -> None:
        """A request that is answered when it is over; see `Talk`."""
        try:
            pending = self._peer.request(message.method, message.params)
        except (PeerLost, RpcError) as error:
            over(error)
        else:
            pending.future.add_done_callback(lambda done: over(done.exception()) if not done.cancelled() else None)

    def finish(self) -> None:
        """Say nothing more; see `Talk`."""
        self._peer.finish()

    # --- calls ------------------------------------------------------------------------------------------------------

    async def call(
        self,
        plan: CallPlan,
        payload: Mapping[str, Any],
        context: CallContext,
        *,
        call: CallId | None = None,
        on_event: OnEvent | None = None,
        ask: AskCaller | None = None,
        tally: MethodCounts | None = None,
        fate: DeliveryStatus | None = None,
    ) -> Any:
        """Call the plugin and wait for its answer; what it wants to know meanwhile is asked of `ask`, and what it asks
        of the host is counted in `tally` and done for the call with the id `call`. How far it got is told in `fate`.

        A caller that is cancelled, or whose time is up, leaves the plugin a moment to stop by itself; one that does
        not is ended, and at once where the call has an effect. It is not ended while calls are under way that were sent
        before that one: the plugin may not have got to it.

        Raises:
            TimedOut: no answer, and no sign of progress, in the time that the plan gives it.
            Unavailable: the plugin ended meanwhile.
            PaddockError: the plugin answered with an error; see `answers.py`.
        """
        self._call_count += 1
        token = self.adapter.call_token(self._call_count)
        sent = self.adapter.build_call(plan.spec, payload, context, token, listens=on_event is not None)
        started = self._loop.time()
        try:
            pending = self._send_request(sent)
        except PeerLost as gone:
            raise await self._exited_error(gone.reason) from None
        fate = DeliveryStatus() if fate is None else fate
        fate.sent = True
        tally = {} if tally is None else tally
        flight = InFlightCall(
            pending,
            context,
            token,
            started,
            plan.idle_timeout_s,
            plan.has_effect,
            on_event,
            ask,
            effects=plan.effects,
            tally=tally,
            atomic=plan.spec.recovery == "atomic",
            call=call or context.call,
            callable_name=plan.spec.name,
            operation=called_operation(self._manifest, plan.spec, payload) if self._manifest.operation_auth else None,
        )
        self._in_flight_calls.add(flight)
        self._publish(
            PluginMethodCalled(
                name=self._name,
                method=plan.method,
                request_id=context.request,
                operator_id=context.operator,
                project_id=context.project,
            )
        )
        answered, begun = False, False
        more: InputRequired | None = None
        try:
            raw = await pending.future
            begun = True
            more = self.adapter.parse_input_required(sent, raw)
            if more is not None:
                raw = await self._answer_input_requests(flight, more)
            result = self.adapter.parse_result(plan.spec, raw)
        except RpcError as fault:
            # Whoever wanted to know something more, or has asked the host for something, did not refuse at the door.
            refusals = self.adapter.not_started_codes if not begun and not tally else frozenset[int]()
            error = to_paddock_error(self._name, fault, refusals)
            fate.refused = had_no_effect(error)
            raise error from None
        except PaddockError as error:
            fate.refused = had_no_effect(error)
            raise
        except PeerLost as gone:
            raise await self._exited_error(gone.reason) from None
        except asyncio.CancelledError:
            # Its caller may have gone in the very moment in which the answer came; then there is nothing to stop.
            if not _has_result(flight.pending.future):
                self._on_cancelled(flight)
            else:
                answered = more is None
            raise
        else:
            answered = True
            return result
        finally:
            self._in_flight_calls.remove(flight)
            self._publish(
                PluginMethodReturned(
                    name=self._name,
                    method=plan.method,
                    request_id=context.request,
                    duration_ms=int((self._loop.time() - started) * 1e6) / 1000,
                    success=answered,
                )
            )

    def _send_request(self, message: OutgoingMessage) -> PendingRequest:
        try:
            return self._peer.request(message.method, message.params)
        except RpcError as fault:
            raise to_paddock_error(self._name, fault) from None

    async def _answer_input_requests(self, flight: InFlightCall, wanted: InputRequired) -> Any:
        """The answer that a plugin gives once it knows what it wants to."""
        more: InputRequired | None = wanted
        for _ in range(MAX_INPUT_ROUNDS):
            answers = [await self._in_flight_calls.ask_caller(flight, question) for question in more.questions]
            await asyncio.sleep(more.delay_s)
            sent = more.build_retry(answers)
            self._in_flight_calls.rebind(flight, self._send_request(sent))
            raw = await flight.pending.future
            more = self.adapter.parse_input_required(sent, raw)
            if more is None:
                return raw
        raise RpcError(INTERNAL_ERROR, f"it asked back {MAX_INPUT_ROUNDS} times and gave no answer")

    async def call_hook(self, told: HookRequestBuilder, context: CallContext, within: float) -> Any:
        """Tell the plugin of a moment in a session. It counts as being under way, and its time is the caller's to end.

        Raises:
            RpcFault, TimeoutError, PeerLost: as for `ask`.
        """
        self._call_count += 1
        token = self.adapter.call_token(self._call_count)
        method, params = told(token)
        pending = self._peer.request(method, params)
        flight = InFlightCall(pending, context, token, self._loop.time(), float("inf"), effect=False, on_event=None)
        self._in_flight_calls.add(flight)
        try:
            async with asyncio.timeout(within):
                return await pending.future
        except (TimeoutError, asyncio.CancelledError):
            self._peer.forget(pending)
            if self.adapter.supports_cancel:
                self.notify(self.adapter.build_cancel(pending.id, token))
            raise
        finally:
            self._in_flight_calls.remove(flight)

    def _on_timeout(self, flight: InFlightCall) -> None:
        waiting = flight.pending.future
        if waiting.done():
            return
        waiting.set_exception(
            TimedOut(
                f"{self._name} did not answer within {flight.idle:g} s",
                hint="a callable that needs longer can declare timeout_sec",
                details={"plugin": self._name, "timeout_sec": flight.idle},
            )
        )
        unanswered = f"call was not answered within {flight.idle:g} s"
        hung = KillReason("hung", f"a {unanswered}")
        if self.adapter.supports_cancel and self._gets_cancel_grace(flight):
            self._kill_unless_stopped(flight, hung, f"another {unanswered}")
        else:  # a plugin that cannot be asked to stop has had its time
            self._kill_now(flight, hung, f"another {unanswered}")

    def _on_cancelled(self, flight: InFlightCall) -> None:
        unstoppable = KillReason("cancelled", "a cancelled call did not stop", spends_budget=False)
        if self._gets_cancel_grace(flight):
            self._kill_unless_stopped(flight, unstoppable, "another call was cancelled and did not stop")
        else:
            self._kill_now(flight, unstoppable, "another call was cancelled, which has effects")

    def _gets_cancel_grace(self, flight: InFlightCall) -> bool:
        """Whether a call that nobody waits for may have a moment to stop: every second of an effect may do more."""
        return not flight.effect or (self.adapter.supports_cancel and self._in_flight_calls.has_earlier(flight))

    def _kill_now(self, flight: InFlightCall, fatal: KillReason, told: str) -> None:
        self._peer.forget(flight.pending)
        self._kill_process(fatal, told)

    def _kill_unless_stopped(self, flight: InFlightCall, fatal: KillReason, told: str) -> None:
        if self.adapter.supports_cancel:
            self.notify(self.adapter.build_cancel(flight.pending.id, flight.token))
        late: asyncio.Future[Any] | None = None
        if self.adapter.confirms_cancel:
            late = self._peer.detach(flight.pending)
        else:
            self._peer.forget(flight.pending)
        look = self._loop.create_task(self._await_cancel(flight, late, fatal, told))
        self._cancel_watchers.add(look)
        look.add_done_callback(self._cancel_watchers.discard)

    async def _await_cancel(
        self, flight: InFlightCall, late: asyncio.Future[Any] | None, fatal: KillReason, told: str
    ) -> None:
        while not await (self._ping() if late is None else _answers_in_time(late)):
            if flight.effect or not self._in_flight_calls.has_earlier(flight):
                self._kill_process(fatal, told)
                return
            # It may not have had its turn. It gets the same grace again once it must have.
            await self._in_flight_calls.wait_earlier_done(flight)

    async def _ping(self) -> bool:
        """A plugin that does not say whether it stopped may go on if it can still say that it is well."""
        try:
            async with asyncio.timeout(CANCEL_GRACE_S):
                return await self.adapter.ping(self)
        except (TimeoutError, PeerLost):
            return False

    def _kill_process(self, fatal: KillReason, told: str) -> None:
        """Have the process ended for one call; `told` says why to those whose calls end with it."""
        self.set_exit_diagnosis(
            Diagnosis(f"{told}, and this one ended with its process", "call again: the plugin is restarted")
        )
        self._on_fatal(fatal)

    async def _exited_error(self, reason: str) -> Unavailable:
        """What a caller meets whose plugin is gone. Why it went is known a moment after it went."""
        await asyncio.wait({self._exit_diagnosis}, timeout=EXIT_GRACE_S)
        why = self._exit_diagnosis.result() if self._exit_diagnosis.done() else Diagnosis(reason)
        return Unavailable(
            f"{self._name} ended before it answered: {why.reason}",
            hint=why.hint or see_log_hint(self._name),
            details={"plugin": self._name},
        )


def _has_result(future: asyncio.Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


async def _answers_in_time(late: asyncio.Future[Any]) -> bool:
    """Whether an answer comes within the time that a plugin has to stop."""
    await asyncio.wait({late}, timeout=CANCEL_GRACE_S)
    return late.done()
