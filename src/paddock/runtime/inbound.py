"""Handles the messages that a plugin sends unasked: requests, notifications, noise and protocol violations.

Nothing here waits for the plugin, and no input of it ends the host. Excess messages are dropped and reported once,
violations are recorded a few times a second at most, and what the process must not survive is reported through
its observer.
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
from paddock.runtime.calls import InFlightCalls
from paddock.runtime.exit_reason import KillReason
from paddock.runtime.observer import ConnectionObserver
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
MAX_RECORDED_PER_S = 10  # recorded lines of noise, and as many violations

_FATAL_VIOLATIONS = frozenset({"oversize_message", "too_dense"})


class InboundHandler:
    """The `PeerHandler` of one plugin's connection.

    Args:
        name: The plugin's name.
        adapter: Classifies its notifications and answers its requests.
        calls: The in-flight calls that its events and requests may belong to.
        publish: Records audit events.
        clock: Measures the rate limits.
        notify: Sends it a notification.
        observer: Gets everything that concerns the owner of the process.
    """

    def __init__(
        self,
        name: PluginName,
        adapter: ProtocolAdapter,
        calls: InFlightCalls,
        *,
        publish: EventSink,
        clock: Clock,
        notify: Callable[[OutgoingMessage], None],
        observer: ConnectionObserver,
    ) -> None:
        self._phase: Literal["handshake", "open", "closed"] = "handshake"
        self.noise_lines: list[str] = []  # only the first lines
        self._name = name
        self._adapter = adapter
        self._in_flight_calls = calls
        self._publish = publish.publish
        self._clock = clock
        self._notify = notify
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._notifications = RateWindow(MAX_NOTIFICATIONS_PER_S)
        self._events = RateWindow(MAX_EVENTS_PER_S)
        # Separate windows: a flood of noise must not hide protocol violations.
        self._noise_window = RateWindow(MAX_RECORDED_PER_S)
        self._violation_window = RateWindow(MAX_RECORDED_PER_S)

    async def serve(self, method: str, params: Mapping[str, Any], asked: InboundRequest) -> Any:
        """Answer a request from the plugin."""
        if self._before_handshake:
            self._observer.on_fatal(
                KillReason("spoke_first", f"it asked for {printable(method, 80)} before the handshake was over")
            )
            raise RpcError(-32002, "the handshake is not over")
        return await self._adapter.serve(method, params, self._in_flight_calls, asked.reply_early)

    def open(self) -> None:
        """Handle everything from now on: the handshake is done."""
        self._phase = "open"

    def close(self) -> None:
        self._phase = "closed"

    @property
    def _before_handshake(self) -> bool:
        return self._phase == "handshake" and not self._adapter.allows_early_messages

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        if self._before_handshake:
            self._observer.on_fatal(
                KillReason("spoke_first", f"it sent {printable(method, 80)} before the handshake was over")
            )
            return
        notification = self._adapter.classify(method, params)
        match notification:
            case CallProgress():
                self._forward_progress(notification)
            case Broadcast():
                self._publish_notification(method, params)
            case LogNotification(line, event):
                if self._events.take(self._clock.monotonic()):
                    self._observer.on_log_line(line)
                    only_call = self._in_flight_calls.only_call()  # with a single call, its log belongs to that call
                    if event is not None and only_call is not None and only_call.on_event is not None:
                        only_call.on_event(event)
            case ListChanged():
                if self._admit_notification():
                    self._observer.on_list_changed()
            case IgnoredNotification():
                pass

    def _publish_notification(self, method: str, params: Mapping[str, Any]) -> None:
        if self._admit_notification():
            self._publish(PluginNotification(name=self._name, notification_type=printable(method, 128)))
            self._observer.on_notification(method, params)

    def _admit_notification(self) -> bool:
        """Whether the rate limit admits one more notification in this second."""
        if self._notifications.take(self._clock.monotonic()):
            return True
        if self._notifications.just_exceeded:
            self._publish(PluginNotificationFlood(name=self._name, rate=float(self._notifications.count)))
            notice = self._adapter.build_rate_limit_notice(MAX_NOTIFICATIONS_PER_S)
            if notice is not None:
                self._notify(notice)
        return False

    def _forward_progress(self, progress: CallProgress) -> None:
        call_ref = progress.call
        in_flight_call = (
            self._in_flight_calls.get(call_ref)
            if isinstance(call_ref, int)
            else self._in_flight_calls.by_token(call_ref)
        )
        if in_flight_call is None or not self._events.take(self._clock.monotonic()):
            return  # late, or over the rate limit: only the result counts
        in_flight_call.on_progress(self._loop.time(), progress.event)

    def noise(self, line: bytes) -> None:
        if len(self.noise_lines) < MAX_RECORDED_PER_S:
            self.noise_lines.append(_decode_line(line))
        if self._noise_window.take(self._clock.monotonic()):
            self._publish(PluginStdoutNoise(name=self._name, line=printable(_decode_line(line), 200)))
            self._observer.on_log_line(f"[stdout] {_decode_line(line)}")
        elif self._noise_window.just_exceeded:
            self._observer.on_log_line("[stdout] [more was written than is kept; lines are missing here]")

    def violated(self, kind: str, detail: str) -> None:
        if kind == "oversize_message":
            self._publish(OversizeMessage(name=self._name, limit_bytes=MAX_FRAME_BYTES))
        # After a fatal violation nothing more is read, so it is recorded regardless of the rate limit.
        if self._violation_window.take(self._clock.monotonic()) or kind in _FATAL_VIOLATIONS:
            self._publish(PluginProtocolViolation(name=self._name, violation_type=kind, detail=printable(detail, 500)))
        if self._before_handshake or kind in _FATAL_VIOLATIONS:
            self._observer.on_fatal(KillReason(kind, detail))

    def stalled(self) -> None:
        if self._in_flight_calls:
            return  # it may process one call at a time; that call has a deadline of its own
        self._observer.on_fatal(KillReason("stdin_not_read", "it does not read what is sent to it"))

    def lost(self, reason: str) -> None:
        self._observer.on_fatal(KillReason("output_closed", reason or "it closed its output"))


def _decode_line(line: bytes) -> str:
    return line[:400].decode("utf-8", "replace")
