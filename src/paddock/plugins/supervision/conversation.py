"""The conversation with one plugin process, from `initialize` to its end: what it is asked, told and called for.

What it sends by itself is judged in `incoming.py`. Neither knows of processes: when something happens that the process
must not survive, they say so through `on_fatal`, and whoever owns the process ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.errors import TimedOut, Unavailable
from paddock.core.event import Publish
from paddock.core.events_host import PluginMethodCalled, PluginMethodReturned
from paddock.plugins.supervision.answers import error_of
from paddock.plugins.supervision.call_plan import CallPlan
from paddock.plugins.supervision.deployment import Deployment
from paddock.plugins.supervision.ending import Fatal
from paddock.plugins.supervision.flight import Flight, Flights, OnEvent
from paddock.plugins.supervision.incoming import Incoming
from paddock.plugins.supervision.wire import Message, Wire
from paddock.rpc.faults import PeerLost, RpcFault
from paddock.rpc.peer import Peer
from paddock.rpc.transport import Transport

CANCEL_GRACE = 5.0

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
        on_redefined: Callable[[], None] = lambda: None,
    ) -> None:
        self.wire = wire
        self._name = deployment.name
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
            on_redefined=on_redefined,
        )
        self._peer = Peer(self._incoming)
        self._calls = 0

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

    def close(self, reason: str) -> None:
        """End the conversation; every call under way fails as unavailable."""
        self._incoming.phase = "over"
        self._flights.close()
        self._peer.close(reason)

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    @property
    def noise_lines(self) -> list[str]:
        """The first lines on its output that were no JSON-RPC."""
        return self._incoming.noise_lines

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

    # --- calls ------------------------------------------------------------------------------------------------------

    async def call(
        self,
        plan: CallPlan,
        payload: Mapping[str, Any],
        context: CallContext,
        *,
        on_event: OnEvent | None = None,
    ) -> Any:
        """Call the plugin and wait for its answer.

        A caller that is cancelled, or whose time is up, leaves the plugin a moment to stop by itself; one that does
        not is ended, and at once where the call has an effect.

        Raises:
            TimedOut: no answer, and no sign of progress, in the time that the plan gives it.
            Unavailable: the plugin ended meanwhile.
            PaddockError: the plugin answered with an error; see `answers.py`.
        """
        self._calls += 1
        token = self.wire.token(self._calls)
        method, params = self.wire.call(plan.spec, payload, context, token)
        started = self._loop.time()
        try:
            pending = self._peer.request(method, params)
        except RpcFault as fault:
            raise error_of(self._name, fault) from None
        except PeerLost as gone:
            raise self._unavailable(gone.reason) from None
        flight = Flight(pending, context, token, started, plan.idle, plan.effect, on_event)
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
        answered = False
        try:
            result = self.wire.result(plan.spec, await pending.future)
        except RpcFault as fault:
            raise error_of(self._name, fault) from None
        except PeerLost as gone:
            raise self._unavailable(gone.reason) from None
        except asyncio.CancelledError:
            # Its caller may have gone in the very moment in which the answer came; then there is nothing to stop.
            answered = _has_result(pending.future)
            if not answered:
                self._abandoned(flight)
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
        late = self._peer.detach(flight.pending)
        waiting.set_exception(
            TimedOut(
                f"{self._name} did not answer within {flight.idle:g} s",
                hint="the plugin is being restarted; a callable that needs longer can declare timeout_sec",
                details={"plugin": self._name, "timeout_sec": flight.idle},
            )
        )
        hung = Fatal("hung", f"a call was not answered within {flight.idle:g} s")
        # A plugin that cannot be asked to stop has had its time.
        self._end_unless_it_stops(flight, late, hung, at_once=flight.effect or not self.wire.stoppable)

    def _abandoned(self, flight: Flight) -> None:
        late = self._peer.detach(flight.pending)
        unstoppable = Fatal("cancelled", "a cancelled call did not stop", spends_budget=False)
        self._end_unless_it_stops(flight, late, unstoppable, at_once=flight.effect)

    def _end_unless_it_stops(self, flight: Flight, late: asyncio.Future[Any], fatal: Fatal, *, at_once: bool) -> None:
        if at_once:
            self._on_fatal(fatal)
            return
        if self.wire.stoppable:
            self.tell(self.wire.stop(flight.pending.id, flight.token))
        timer = self._loop.call_later(CANCEL_GRACE, self._on_fatal, fatal)
        late.add_done_callback(lambda done: (timer.cancel(), done.cancelled() or done.exception()))

    def _unavailable(self, reason: str) -> Unavailable:
        return Unavailable(
            f"{self._name} ended before it answered: {reason}",
            hint="it is started again by itself; try again in a moment",
            details={"plugin": self._name},
        )


def _has_result(future: asyncio.Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
