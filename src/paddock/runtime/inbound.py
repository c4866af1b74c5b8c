"""What a plugin sends without having been asked: requests, notifications, noise, and everything it must not send.

Nothing here waits for the plugin and nothing of it ends the host: what is too much is dropped and told once, what is
wrong is recorded a few times a second at most, and what the process must not survive is said through `on_fatal`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal

from paddock.core.clock import Clock
from paddock.core.events.contracts import OversizeMessage
from paddock.core.events.event import EventSink
from paddock.core.events.plugin_runtime import (
    PluginNotification,
    PluginNotificationFlood,
    PluginProtocolViolation,
    PluginStdoutNoise,
)
from paddock.core.ids import PluginName
from paddock.core.printable import printable
from paddock.core.rate import RateWindow
from paddock.rpc.errors import RpcError
from paddock.rpc.message import MAX_FRAME_BYTES
from paddock.rpc.peer import InboundRequest
from paddock.runtime.calls import InFlightCall, InFlightCalls, Question, QuestionAnswer
from paddock.runtime.exit_reason import KillReason
from paddock.runtime.protocol_adapter import (
    Broadcast,
    CallProgress,
    IgnoredNotification,
    ListChanged,
    LogNotification,
    OutgoingMessage,
    ProtocolAdapter,
)

MAX_NOTIFICATIONS_PER_S = 100
MAX_EVENTS_PER_S = 5_000
MAX_RECORDED_PER_S = 10  # lines of noise that are recorded, and as many violations

_FATAL_VIOLATIONS = frozenset({"oversize_message", "too_dense"})


class InboundHandler:
    """The `PeerOwner` of one plugin's wire.

    Args:
        name: The plugin's.
        wire: Says what its words mean, and answers its requests.
        flights: The calls under way, which its events and requests may belong to.
        publish: Where what happened is recorded.
        clock: Says when a second is over.
        tell: Sends it a notification.
        on_fatal: Told what the process must not survive.
        on_notification: Told of its notifications.
        on_log: Told of lines for its log.
        on_redefined: Told when it says that it offers something else now.
    """

    def __init__(
        self,
        name: PluginName,
        wire: ProtocolAdapter,
        flights: InFlightCalls,
        *,
        publish: EventSink,
        clock: Clock,
        tell: Callable[[OutgoingMessage], None],
        on_fatal: Callable[[KillReason], None],
        on_notification: Callable[[str, Mapping[str, Any]], None],
        on_log: Callable[[str], None],
        on_redefined: Callable[[], None],
    ) -> None:
        self.phase: Literal["greeting", "open", "over"] = "greeting"
        self.noise_lines: list[str] = []  # the first ones
        self._name = name
        self._adapter = wire
        self._in_flight_calls = flights
        self._active_calls = _ActiveCallsView(flights)
        self._publish = publish.publish
        self._clock = clock
        self._notify = tell
        self._on_fatal = on_fatal
        self._on_notification = on_notification
        self._on_log = on_log
        self._on_list_changed = on_redefined
        self._loop = asyncio.get_running_loop()
        self._notifications = RateWindow(MAX_NOTIFICATIONS_PER_S)
        self._events = RateWindow(MAX_EVENTS_PER_S)
        # Apart from each other: a flood of noise must not hide that it also broke the rules.
        self._noise_window = RateWindow(MAX_RECORDED_PER_S)
        self._violation_window = RateWindow(MAX_RECORDED_PER_S)

    async def serve(self, method: str, params: Mapping[str, Any], asked: InboundRequest) -> Any:
        """A request from the plugin."""
        if self._before_handshake:
            self._on_fatal(
                KillReason("spoke_first", f"it asked for {printable(method, 80)} before the handshake was over")
            )
            raise RpcError(-32002, "the handshake is not over")
        return await self._adapter.serve(method, params, self._active_calls, asked.reply_early)

    @property
    def _before_handshake(self) -> bool:
        return self.phase == "greeting" and not self._adapter.allows_early_messages

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        if self._before_handshake:
            self._on_fatal(KillReason("spoke_first", f"it sent {printable(method, 80)} before the handshake was over"))
            return
        heard = self._adapter.classify(method, params)
        match heard:
            case CallProgress():
                self._forward_progress(heard)
            case Broadcast():
                self._publish_notification(method, params)
            case LogNotification(line, event):
                if self._events.take(self._clock.monotonic()):
                    self._on_log(line)
                    alone = self._in_flight_calls.only_call()  # while there is one call, what it says belongs to that
                    if event is not None and alone is not None and alone.on_event is not None:
                        alone.on_event(event)
            case ListChanged():
                if self._admit_notification():
                    self._on_list_changed()
            case IgnoredNotification():
                pass

    def _publish_notification(self, method: str, params: Mapping[str, Any]) -> None:
        if self._admit_notification():
            self._publish(PluginNotification(name=self._name, notification_type=printable(method, 128)))
            self._on_notification(method, params)

    def _admit_notification(self) -> bool:
        """Whether there is room for one more notification in this second."""
        if self._notifications.take(self._clock.monotonic()):
            return True
        if self._notifications.just_exceeded:
            self._publish(PluginNotificationFlood(name=self._name, rate=float(self._notifications.count)))
            told = self._adapter.build_rate_limit_notice(MAX_NOTIFICATIONS_PER_S)
            if told is not None:
                self._notify(told)
        return False

    def _forward_progress(self, heard: CallProgress) -> None:
        call = heard.call
        flight = self._in_flight_calls.get(call) if isinstance(call, int) else self._in_flight_calls.by_token(call)
        if flight is None or not self._events.take(self._clock.monotonic()):
            return  # late, or too many: the result is what counts
        flight.on_progress(self._loop.time(), heard.event)

    def noise(self, line: bytes) -> None:
        if len(self.noise_lines) < MAX_RECORDED_PER_S:
            self.noise_lines.append(_decode_line(line))
        if self._noise_window.take(self._clock.monotonic()):
            self._publish(PluginStdoutNoise(name=self._name, line=printable(_decode_line(line), 200)))
            self._on_log(f"[stdout] {_decode_line(line)}")
        elif self._noise_window.just_exceeded:
            self._on_log("[stdout] [more was written than is kept; lines are missing here]")

    def violated(self, kind: str, detail: str) -> None:
        if kind == "oversize_message":
            self._publish(OversizeMessage(name=self._name, limit_bytes=MAX_FRAME_BYTES))
        # After a severe one nothing more is read, so it is recorded however much came before.
        if self._violation_window.take(self._clock.monotonic()) or kind in _FATAL_VIOLATIONS:
            self._publish(PluginProtocolViolation(name=self._name, violation_type=kind, detail=printable(detail, 500)))
        if self._before_handshake or kind in _FATAL_VIOLATIONS:
            self._on_fatal(KillReason(kind, detail))

    def stalled(self) -> None:
        if self._in_flight_calls:
            return  # it does one thing at a time, perhaps; what it works on has a deadline of its own
        self._on_fatal(KillReason("stdin_not_read", "it does not read what is sent to it"))

    def lost(self, reason: str) -> None:
        self._on_fatal(KillReason("output_closed", reason or "it closed its output"))


class _ActiveCallsView:
    """See `CallOf`."""

    def __init__(self, flights: InFlightCalls) -> None:
        self._in_flight_calls = flights

    def __call__(self, token: str) -> InFlightCall | None:
        return self._in_flight_calls.by_token(token)

    @property
    def effects(self) -> frozenset[str] | None:
        return self._in_flight_calls.effects

    def note_network_use(self) -> None:
        self._in_flight_calls.note_network_use()

    async def ask(self, request: int | None, question: Question) -> QuestionAnswer:
        flight = self._in_flight_calls.get(request) if request is not None else self._in_flight_calls.only_call()
        return (
            await self._in_flight_calls.ask_caller(flight, question) if flight is not None else QuestionAnswer("cancel")
        )


def _decode_line(line: bytes) -> str:
    return line[:400].decode("utf-8", "replace")
