"""The conversation with one plugin process, from `initialize` to its end: what it is asked, told and called for.

What it sends by itself is judged in `incoming.py`. Neither knows of processes: when something happens that the process
must not survive, they say so through `on_fatal`, and whoever owns the process ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from paddock.capabilities.asking import Tally
from paddock.capabilities.storage.place import within_transaction
from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError, TimedOut, Unavailable
from paddock.core.event import Publish
from paddock.core.events_host import PluginMethodCalled, PluginMethodReturned
from paddock.core.ids import CallId
from paddock.plugins.supervision.answers import did_nothing, error_of
from paddock.plugins.supervision.call_plan import CallPlan
from paddock.plugins.supervision.deployment import Deployment
from paddock.plugins.supervision.diagnosis import Diagnosis, see_its_log
from paddock.plugins.supervision.ending import EXIT_GRACE, Fatal
from paddock.plugins.supervision.flight import Fate, Flight, Flights, OnEvent
from paddock.plugins.supervision.incoming import Incoming
from paddock.plugins.supervision.questions import Ask
from paddock.plugins.supervision.wire import FollowUp, Message, Wire
from paddock.rpc.faults import INTERNAL_ERROR, PeerLost, RpcFault
from paddock.rpc.peer import Peer, Pending
from paddock.rpc.transport import Transport
from paddock.secrets.declared import operation_of

CANCEL_GRACE = 5.0
MOST_ROUNDS = 10  # how often a plugin may want something more before it answers one call

# The request that tells of a moment in a session, given the token that names it.
Hooked: TypeAlias = Callable[[str], Message]


class Conversation:
    """The host's end of one plugin's wire."""

    def __init__(
        self,
        deployment: Deployment,
        wire: Wire,
        *,
        publish: Publish,
        clock: Clock,
        on_fatal: Callable[[Fatal], None],
        on_notification: Callable[[str, Mapping[str, Any]], None],
        on_log: Callable[[str], None] = lambda _line: None,
        on_redefined: Callable[[], None] = lambda: None,
    ) -> None:
        self.wire = wire
        self._name = deployment.name
        self._manifest = deployment.manifest
        self._publish = publish.publish
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        self._flights = Flights(self._loop, self._expired)
        self._incoming = Incoming(
            deployment.name,
            wire,
            self._flights,
            publish=publish,
            clock=clock,
            tell=self.tell,
            on_fatal=on_fatal,
            on_notification=on_notification,
            on_log=on_log,
            on_redefined=on_redefined,
        )
        self._peer = Peer(self._incoming, passes=within_transaction)
        self._why: asyncio.Future[Diagnosis] = self._loop.create_future()  # it ended
        self._calls = 0
        self._looks: set[asyncio.Task[None]] = set()  # after calls that were stopped

    # --- for the owner of the process -------------------------------------------------------------------------------

    @property
    def peer(self) -> Peer:
        """What a transport delivers frames to."""
        return self._peer

    def attach(self, transport: Transport) -> None:
        self._peer.attach(transport)

    def open(self) -> None:
        """The first exchange is over: calls and notifications may pass."""
        self._incoming.phase = "open"

    def explain(self, diagnosis: Diagnosis) -> None:
        """Say why the process ended, for those whose calls end with it. The first to know is believed."""
        if not self._why.done():
            self._why.set_result(diagnosis)

    def close(self, reason: str) -> None:
        """End the conversation; every call under way fails as unavailable."""
        self.explain(Diagnosis(reason))
        self._incoming.phase = "over"
        self._flights.close()
        for look in self._looks:
            look.cancel()
        self._peer.close(reason)

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    @property
    def noise_lines(self) -> list[str]:
        """The first lines on its output that were no JSON-RPC."""
        return self._incoming.noise_lines

    def used_network(self) -> None:
        """The process used a connection of its own."""
        self._flights.used_network()

    def end_effects(self, why: str) -> None:
        """Have the process ended where a call under way may change something."""
        if self._flights.acting:
            self._end(Fatal("host_lost", why, spends_budget=False), why)

    async def drained(self) -> None:
        """Wait until no call is under way."""
        await self._flights.all_landed()

    async def ask(self, message: Message, within: float) -> Any:
        """A request of the host's own; see `Talk`."""
        pending = self._peer.request(message.method, message.params)
        try:
            async with asyncio.timeout(within):
                return await pending.future
        except (TimeoutError, asyncio.CancelledError):
            self._peer.forget(pending)
            raise

    def tell(self, message: Message) -> None:
        """A notification of the host's own; see `Talk`."""
        with contextlib.suppress(PeerLost, RpcFault):
            self._peer.notify(message.method, message.params)

    def follow(self, message: Message, over: Callable[[BaseException | None], None]) -> None:
        """A request that is answered when it is over; see `Talk`."""
        try:
            pending = self._peer.request(message.method, message.params)
        except (PeerLost, RpcFault) as error:
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
        ask: Ask | None = None,
        tally: Tally | None = None,
        fate: Fate | None = None,
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
        self._calls += 1
        token = self.wire.token(self._calls)
        sent = self.wire.call(plan.spec, payload, context, token, listens=on_event is not None)
        started = self._loop.time()
        try:
            pending = self._requested(sent)
        except PeerLost as gone:
            raise await self._ended(gone.reason) from None
        fate = Fate() if fate is None else fate
        fate.sent = True
        tally = {} if tally is None else tally
        flight = Flight(
            pending,
            context,
            token,
            started,
            plan.idle,
            plan.effect,
            on_event,
            ask,
            effects=plan.effects,
            tally=tally,
            atomic=plan.spec.recovery == "atomic",
            call=call or context.call,
            callable_name=plan.spec.name,
            operation=operation_of(self._manifest, plan.spec, payload) if self._manifest.operation_auth else None,
        )
        self._flights.add(flight)
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
        more: FollowUp | None = None
        try:
            raw = await pending.future
            begun = True
            more = self.wire.follow_up(sent, raw)
            if more is not None:
                raw = await self._after_questions(flight, more)
            result = self.wire.result(plan.spec, raw)
        except RpcFault as fault:
            # Whoever wanted to know something more, or has asked the host for something, did not refuse at the door.
            refusals = self.wire.refusals if not begun and not tally else frozenset[int]()
            error = error_of(self._name, fault, refusals)
            fate.refused = did_nothing(error)
            raise error from None
        except PaddockError as error:
            fate.refused = did_nothing(error)
            raise
        except PeerLost as gone:
            raise await self._ended(gone.reason) from None
        except asyncio.CancelledError:
            # Its caller may have gone in the very moment in which the answer came; then there is nothing to stop.
            if not _has_result(flight.pending.future):
                self._abandoned(flight)
            else:
                answered = more is None
            raise
        else:
            answered = True
            return result
        finally:
            self._flights.land(flight)
            self._publish(
                PluginMethodReturned(
                    name=self._name,
                    method=plan.method,
                    request_id=context.request,
                    duration_ms=int((self._loop.time() - started) * 1e6) / 1000,
                    success=answered,
                )
            )

    def _requested(self, message: Message) -> Pending:
        try:
            return self._peer.request(message.method, message.params)
        except RpcFault as fault:
            raise error_of(self._name, fault) from None

    async def _after_questions(self, flight: Flight, wanted: FollowUp) -> Any:
        """The answer that a plugin gives once it knows what it wants to."""
        more: FollowUp | None = wanted
        for _ in range(MOST_ROUNDS):
            answers = [await self._flights.asked(flight, question) for question in more.questions]
            await asyncio.sleep(more.pause)
            sent = more.again(answers)
            self._flights.renew(flight, self._requested(sent))
            raw = await flight.pending.future
            more = self.wire.follow_up(sent, raw)
            if more is None:
                return raw
        raise RpcFault(INTERNAL_ERROR, f"it asked back {MOST_ROUNDS} times and gave no answer")

    async def hook(self, told: Hooked, context: CallContext, within: float) -> Any:
        """Tell the plugin of a moment in a session. It counts as being under way, and its time is the caller's to end.

        Raises:
            RpcFault, TimeoutError, PeerLost: as for `ask`.
        """
        self._calls += 1
        token = self.wire.token(self._calls)
        method, params = told(token)
        pending = self._peer.request(method, params)
        flight = Flight(pending, context, token, self._loop.time(), float("inf"), effect=False, on_event=None)
        self._flights.add(flight)
        try:
            async with asyncio.timeout(within):
                return await pending.future
        except (TimeoutError, asyncio.CancelledError):
            self._peer.forget(pending)
            if self.wire.stoppable:
                self.tell(self.wire.stop(pending.id, token))
            raise
        finally:
            self._flights.land(flight)

    def _expired(self, flight: Flight) -> None:
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
        hung = Fatal("hung", f"a {unanswered}")
        if self.wire.stoppable and self._may_go_on(flight):
            self._end_unless_it_stops(flight, hung, f"another {unanswered}")
        else:  # a plugin that cannot be asked to stop has had its time
            self._end_at_once(flight, hung, f"another {unanswered}")

    def _abandoned(self, flight: Flight) -> None:
        unstoppable = Fatal("cancelled", "a cancelled call did not stop", spends_budget=False)
        if self._may_go_on(flight):
            self._end_unless_it_stops(flight, unstoppable, "another call was cancelled and did not stop")
        else:
            self._end_at_once(flight, unstoppable, "another call was cancelled, which has effects")

    def _may_go_on(self, flight: Flight) -> bool:
        """Whether a call that nobody waits for may have a moment to stop: every second of an effect may do more."""
        return not flight.effect or (self.wire.stoppable and self._flights.any_ahead_of(flight))

    def _end_at_once(self, flight: Flight, fatal: Fatal, told: str) -> None:
        self._peer.forget(flight.pending)
        self._end(fatal, told)

    def _end_unless_it_stops(self, flight: Flight, fatal: Fatal, told: str) -> None:
        if self.wire.stoppable:
            self.tell(self.wire.stop(flight.pending.id, flight.token))
        late: asyncio.Future[Any] | None = None
        if self.wire.answers_stops:
            late = self._peer.detach(flight.pending)
        else:
            self._peer.forget(flight.pending)
        look = self._loop.create_task(self._look_after_stop(flight, late, fatal, told))
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)

    async def _look_after_stop(self, flight: Flight, late: asyncio.Future[Any] | None, fatal: Fatal, told: str) -> None:
        while not await (self._well() if late is None else _comes(late)):
            if flight.effect or not self._flights.any_ahead_of(flight):
                self._end(fatal, told)
                return
            # It may not have had its turn. It gets the same grace again once it must have.
            await self._flights.none_ahead_of(flight)

    async def _well(self) -> bool:
        """A plugin that does not say whether it stopped may go on if it can still say that it is well."""
        try:
            async with asyncio.timeout(CANCEL_GRACE):
                return await self.wire.well(self)
        except (TimeoutError, PeerLost):
            return False

    def _end(self, fatal: Fatal, told: str) -> None:
        """Have the process ended for one call; `told` says why to those whose calls end with it."""
        self.explain(Diagnosis(f"{told}, and this one ended with its process", "call again: the plugin is restarted"))
        self._on_fatal(fatal)

    async def _ended(self, reason: str) -> Unavailable:
        """What a caller meets whose plugin is gone. Why it went is known a moment after it went."""
        await asyncio.wait({self._why}, timeout=EXIT_GRACE)
        why = self._why.result() if self._why.done() else Diagnosis(reason)
        return Unavailable(
            f"{self._name} ended before it answered: {why.reason}",
            hint=why.hint or see_its_log(self._name),
            details={"plugin": self._name},
        )


def _has_result(future: asyncio.Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


async def _comes(late: asyncio.Future[Any]) -> bool:
    """Whether an answer comes within the time that a plugin has to stop."""
    await asyncio.wait({late}, timeout=CANCEL_GRACE)
    return late.done()
