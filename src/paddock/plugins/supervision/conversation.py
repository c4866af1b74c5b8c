"""The conversation with one plugin process, from `initialize` to its end: everything that crosses the wire.

It knows nothing of processes. When something happens that the process must not survive, it says so once, through
`on_fatal`, and whoever owns the process ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.errors import NotFound, PaddockError, TimedOut, Unavailable
from paddock.core.event import Publish
from paddock.core.events_contracts import OversizeMessage
from paddock.core.events_host import (
    PluginMethodCalled,
    PluginMethodReturned,
    PluginNotification,
    PluginNotificationFlood,
    PluginProtocolViolation,
    PluginStdoutNoise,
)
from paddock.core.printable import printable
from paddock.plugins.supervision.answers import error_of
from paddock.plugins.supervision.deployment import Asking, Deployment, Door
from paddock.plugins.supervision.flight import Flight, Flights, OnEvent
from paddock.plugins.supervision.flood import RateWindow
from paddock.plugins.supervision.wire_names import (
    CALL_TOKENS,
    CANCEL,
    EVENTS,
    RATE_LIMITED,
    cancel_method,
    event_method,
)
from paddock.rpc.faults import PeerLost, RpcFault
from paddock.rpc.message import MAX_FRAME
from paddock.rpc.peer import Peer
from paddock.rpc.transport import Transport

CANCEL_GRACE = 5.0
NOTIFICATIONS_A_SECOND = 100
EVENTS_A_SECOND = 5_000
TOLD_A_SECOND = 10  # noise and violations that are recorded; the rest is only counted

_SEVERE = frozenset({"oversize_message", "too_dense"})


@dataclass(frozen=True, slots=True)
class Fatal:
    """Why the process has to end."""

    kind: str
    reason: str
    spends_budget: bool = True


class Conversation:
    """The host's end of one plugin's wire."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        publish: Publish,
        door: Door,
        clock: Clock,
        on_fatal: Callable[[Fatal], None],
        on_notification: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self._deployment = deployment
        self._name = deployment.name
        self._publish = publish.publish
        self._door = door
        self._clock = clock
        self._on_fatal = on_fatal
        self._on_notification = on_notification
        self._loop = asyncio.get_running_loop()
        self._peer = Peer(self)
        self._phase: Literal["greeting", "open", "over"] = "greeting"
        self._features: frozenset[str] = frozenset()
        self._flights = Flights(self._loop, self._expired)
        self._tokens: dict[str, Flight] = {}
        self._notifications = RateWindow(NOTIFICATIONS_A_SECOND)
        self._events = RateWindow(EVENTS_A_SECOND)
        self._told = RateWindow(TOLD_A_SECOND)
        self._event_method = event_method(deployment.manifest)
        self._cancel_method = cancel_method(deployment.manifest)
        self._last_token = 0
        self.noise_lines: list[str] = []

    # --- for the owner of the process -------------------------------------------------------------------------------

    @property
    def peer(self) -> Peer:
        """What a transport delivers frames to."""
        return self._peer

    def attach(self, transport: Transport) -> None:
        self._peer.attach(transport)

    def open(self, features: frozenset[str]) -> None:
        """The handshake is over: calls and notifications may pass."""
        self._features = features
        self._phase = "open"

    def close(self, reason: str) -> None:
        """End the conversation; every call under way fails as unavailable."""
        self._phase = "over"
        self._flights.close()
        self._peer.close(reason)

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    async def drained(self) -> None:
        """Wait until no call is under way."""
        await self._flights.all_landed()

    async def ask(self, method: str, params: Mapping[str, Any], within: float) -> Any:
        """A request of the host's own: the handshake, a ping, a new configuration.

        Raises:
            RpcFault: the plugin answered with an error.
            TimeoutError: it did not answer in time.
            PeerLost: it is gone.
        """
        pending = self._peer.request(method, dict(params))
        try:
            async with asyncio.timeout(within):
                return await pending.future
        except (TimeoutError, asyncio.CancelledError):
            self._peer.forget(pending)
            raise

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """A notification to the plugin; lost when the plugin is, or when it does not read."""
        with contextlib.suppress(PeerLost, RpcFault):
            self._peer.notify(method, dict(params))

    # --- calls ------------------------------------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        payload: Mapping[str, Any],
        context: CallContext,
        *,
        idle: float,
        effect: bool = False,
        on_event: OnEvent | None = None,
    ) -> Any:
        """Call a method of the plugin and wait for its answer.

        A caller that is cancelled, or whose time is up, leaves the plugin a moment to stop by itself; one that does
        not is ended, and at once where the call has an effect.

        Raises:
            TimedOut: no answer, and no sign of progress, within `idle` seconds.
            Unavailable: the plugin ended meanwhile.
            PaddockError: the plugin answered with an error; see `answers.py`.
        """
        params, token = self._addressed(payload, context)
        started = self._loop.time()
        try:
            pending = self._peer.request(method, params)
        except RpcFault as fault:
            raise error_of(self._name, fault) from None
        except PeerLost as gone:
            raise self._unavailable(gone.reason) from None
        flight = Flight(pending, context, started, idle, effect, on_event)
        self._fly(flight, token)
        self._publish(
            PluginMethodCalled(
                name=self._name,
                method=method,
                request_id=context.request,
                operator_id=context.operator,
                project_id=context.project,
            )
        )
        answered = False
        try:
            result = await pending.future
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
            self._landed(flight, token)
            self._publish(
                PluginMethodReturned(
                    name=self._name,
                    method=method,
                    request_id=context.request,
                    duration_ms=int((self._loop.time() - started) * 1e6) / 1000,
                    success=answered,
                )
            )

    async def hook(self, method: str, payload: Mapping[str, Any], context: CallContext, within: float) -> Any:
        """Tell the plugin of a moment in a session. It counts as being under way, and its time is the caller's to end.

        Raises:
            RpcFault, TimeoutError, PeerLost: as for `ask`.
        """
        params, token = self._addressed(payload, context)
        pending = self._peer.request(method, params)
        flight = Flight(pending, context, self._loop.time(), float("inf"), effect=False, on_event=None)
        self._fly(flight, token)
        try:
            async with asyncio.timeout(within):
                return await pending.future
        except (TimeoutError, asyncio.CancelledError):
            self._peer.forget(pending)
            if CANCEL in self._features:
                self.tell(self._cancel_method, {"id": pending.id})
            raise
        finally:
            self._landed(flight, token)

    def _addressed(self, payload: Mapping[str, Any], context: CallContext) -> tuple[dict[str, Any], str]:
        """What goes over the wire for a call, and the token that names it there; empty where there is none."""
        params: dict[str, Any] = {**payload, "_context": context.plugin_context()}
        if CALL_TOKENS not in self._features:
            return params, ""
        # Need not be unguessable: it counts on this plugin's own pipe only, and only while the call is under way.
        self._last_token += 1
        token = params["_call"] = f"call-{self._last_token}"
        return params, token

    def _fly(self, flight: Flight, token: str) -> None:
        self._flights.add(flight)
        if token:
            self._tokens[token] = flight

    def _landed(self, flight: Flight, token: str) -> None:
        self._flights.land(flight)
        if token:
            self._tokens.pop(token, None)

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
        self._end_unless_it_stops(flight, late, hung, at_once=flight.effect or CANCEL not in self._features)

    def _abandoned(self, flight: Flight) -> None:
        late = self._peer.detach(flight.pending)
        unstoppable = Fatal("cancelled", "a cancelled call did not stop", spends_budget=False)
        self._end_unless_it_stops(flight, late, unstoppable, at_once=flight.effect)

    def _end_unless_it_stops(self, flight: Flight, late: asyncio.Future[Any], fatal: Fatal, *, at_once: bool) -> None:
        if at_once:
            self._on_fatal(fatal)
            return
        if CANCEL in self._features:
            self.tell(self._cancel_method, {"id": flight.pending.id})
        timer = self._loop.call_later(CANCEL_GRACE, self._on_fatal, fatal)
        late.add_done_callback(lambda done: (timer.cancel(), done.cancelled() or done.exception()))

    def _unavailable(self, reason: str) -> Unavailable:
        return Unavailable(
            f"{self._name} ended before it answered: {reason}",
            hint="it is started again by itself; try again in a moment",
            details={"plugin": self._name},
        )

    # --- what the plugin sends (PeerOwner) --------------------------------------------------------------------------

    async def serve(self, method: str, params: Mapping[str, Any], request_id: int | str) -> Any:
        """A request from the plugin."""
        del request_id
        if self._phase == "greeting":
            self._on_fatal(Fatal("spoke_first", f"it asked for {printable(method, 80)} before the handshake was over"))
            raise RpcFault(-32002, "the handshake is not over")
        own = {key: value for key, value in params.items() if key != "_call"}
        token = params.get("_call")
        flight = self._tokens.get(token) if isinstance(token, str) else None
        if token is not None and flight is None:
            raise NotFound("no call with this token is under way", code="call.unknown_token")
        asking = Asking(self._deployment.key, self._deployment.manifest, flight.context if flight else None)
        return await self._door.answer(asking, method, own)

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        if self._phase == "greeting":
            self._on_fatal(Fatal("spoke_first", f"it sent {printable(method, 80)} before the handshake was over"))
            return
        if method == self._event_method and EVENTS in self._features:
            self._progress(params)
            return
        if not self._notifications.take(self._clock.monotonic()):
            if self._notifications.just_exceeded:
                rate = float(self._notifications.count)
                self._publish(PluginNotificationFlood(name=self._name, rate=rate))
                self.tell(RATE_LIMITED, {"limit_per_second": NOTIFICATIONS_A_SECOND})
            return
        self._publish(PluginNotification(name=self._name, notification_type=printable(method, 128)))
        self._on_notification(method, params)

    def _progress(self, params: Mapping[str, Any]) -> None:
        event = params.get("event")
        number = params.get("id")
        flight = self._flights.get(number) if isinstance(number, int) else None
        if flight is None or not isinstance(event, dict) or not self._events.take(self._clock.monotonic()):
            return  # late, or too many: the result is what counts
        flight.progressed(self._loop.time(), cast("Mapping[str, Any]", event))

    def noise(self, line: bytes) -> None:
        shown = line[:400].decode("utf-8", "replace")
        if len(self.noise_lines) < TOLD_A_SECOND:
            self.noise_lines.append(shown)
        if self._told.take(self._clock.monotonic()):
            self._publish(PluginStdoutNoise(name=self._name, line=printable(shown, 200)))

    def violated(self, kind: str, detail: str) -> None:
        if kind == "oversize_message":
            self._publish(OversizeMessage(name=self._name, limit_bytes=MAX_FRAME))
        if self._told.take(self._clock.monotonic()):
            self._publish(PluginProtocolViolation(name=self._name, violation_type=kind, detail=printable(detail, 500)))
        if self._phase == "greeting" or kind in _SEVERE:
            self._on_fatal(Fatal(kind, detail))

    def stalled(self) -> None:
        if self._flights:
            return  # it does one thing at a time, perhaps; what it works on has a deadline of its own
        self._on_fatal(Fatal("stdin_not_read", "it does not read what is sent to it"))

    def lost(self, reason: str) -> None:
        self._on_fatal(Fatal("output_closed", reason or "it closed its output"))


def _has_result(future: asyncio.Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def fault_words(error: Exception) -> str:
    """A failed request of the host's own, in a few words."""
    if isinstance(error, RpcFault):
        return f"error {error.code}: {printable(error.message, 200)}"
    if isinstance(error, PaddockError):
        return error.message
    return "no answer in time" if isinstance(error, TimeoutError) else printable(str(error), 200)
