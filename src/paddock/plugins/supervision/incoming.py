"""What a plugin sends without having been asked: requests, notifications, noise, and everything it must not send.

Nothing here waits for the plugin and nothing of it ends the host: what is too much is dropped and told once, what is
wrong is recorded a few times a second at most, and what the process must not survive is said through `on_fatal`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal

from paddock.core.clock import Clock
from paddock.core.event import Publish
from paddock.core.events_contracts import OversizeMessage
from paddock.core.events_host import (
    PluginNotification,
    PluginNotificationFlood,
    PluginProtocolViolation,
    PluginStdoutNoise,
)
from paddock.core.flow import RateWindow
from paddock.core.ids import PluginName
from paddock.core.printable import printable
from paddock.plugins.supervision.ending import Fatal
from paddock.plugins.supervision.flight import Flight, Flights
from paddock.plugins.supervision.questions import Answer, Question
from paddock.plugins.supervision.wire import Announced, Logged, Message, Nothing, Progress, Redefined, Wire
from paddock.rpc.faults import RpcFault
from paddock.rpc.message import MAX_FRAME
from paddock.rpc.peer import Asked

NOTIFICATIONS_A_SECOND = 100
EVENTS_A_SECOND = 5_000
TOLD_A_SECOND = 10  # lines of noise that are recorded, and as many violations

_SEVERE = frozenset({"oversize_message", "too_dense"})


class Incoming:
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
        wire: Wire,
        flights: Flights,
        *,
        publish: Publish,
        clock: Clock,
        tell: Callable[[Message], None],
        on_fatal: Callable[[Fatal], None],
        on_notification: Callable[[str, Mapping[str, Any]], None],
        on_log: Callable[[str], None],
        on_redefined: Callable[[], None],
    ) -> None:
        self.phase: Literal["greeting", "open", "over"] = "greeting"
        self.noise_lines: list[str] = []  # the first ones
        self._name = name
        self._wire = wire
        self._flights = flights
        self._under_way = _UnderWay(flights)
        self._publish = publish.publish
        self._clock = clock
        self._tell = tell
        self._on_fatal = on_fatal
        self._on_notification = on_notification
        self._on_log = on_log
        self._on_redefined = on_redefined
        self._loop = asyncio.get_running_loop()
        self._notifications = RateWindow(NOTIFICATIONS_A_SECOND)
        self._events = RateWindow(EVENTS_A_SECOND)
        # Apart from each other: a flood of noise must not hide that it also broke the rules.
        self._noise_told = RateWindow(TOLD_A_SECOND)
        self._violations_told = RateWindow(TOLD_A_SECOND)

    async def serve(self, method: str, params: Mapping[str, Any], asked: Asked) -> Any:
        """A request from the plugin."""
        if self._too_early:
            self._on_fatal(Fatal("spoke_first", f"it asked for {printable(method, 80)} before the handshake was over"))
            raise RpcFault(-32002, "the handshake is not over")
        return await self._wire.serve(method, params, self._under_way, asked.early)

    @property
    def _too_early(self) -> bool:
        return self.phase == "greeting" and not self._wire.forgiving

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        if self._too_early:
            self._on_fatal(Fatal("spoke_first", f"it sent {printable(method, 80)} before the handshake was over"))
            return
        heard = self._wire.heard(method, params)
        match heard:
            case Progress():
                self._progressed(heard)
            case Announced():
                self._announced(method, params)
            case Logged(line, event):
                if self._events.take(self._clock.monotonic()):
                    self._on_log(line)
                    alone = self._flights.only()  # while there is one call, what it says belongs to that
                    if event is not None and alone is not None and alone.on_event is not None:
                        alone.on_event(event)
            case Redefined():
                if self._passes():
                    self._on_redefined()
            case Nothing():
                pass

    def _announced(self, method: str, params: Mapping[str, Any]) -> None:
        if self._passes():
            self._publish(PluginNotification(name=self._name, notification_type=printable(method, 128)))
            self._on_notification(method, params)

    def _passes(self) -> bool:
        """Whether there is room for one more notification in this second."""
        if self._notifications.take(self._clock.monotonic()):
            return True
        if self._notifications.just_exceeded:
            self._publish(PluginNotificationFlood(name=self._name, rate=float(self._notifications.count)))
            told = self._wire.slow_down(NOTIFICATIONS_A_SECOND)
            if told is not None:
                self._tell(told)
        return False

    def _progressed(self, heard: Progress) -> None:
        call = heard.call
        flight = self._flights.get(call) if isinstance(call, int) else self._flights.under(call)
        if flight is None or not self._events.take(self._clock.monotonic()):
            return  # late, or too many: the result is what counts
        flight.progressed(self._loop.time(), heard.event)

    def noise(self, line: bytes) -> None:
        if len(self.noise_lines) < TOLD_A_SECOND:
            self.noise_lines.append(_shown(line))
        if self._noise_told.take(self._clock.monotonic()):
            self._publish(PluginStdoutNoise(name=self._name, line=printable(_shown(line), 200)))
            self._on_log(f"[stdout] {_shown(line)}")
        elif self._noise_told.just_exceeded:
            self._on_log("[stdout] [more was written than is kept; lines are missing here]")

    def violated(self, kind: str, detail: str) -> None:
        if kind == "oversize_message":
            self._publish(OversizeMessage(name=self._name, limit_bytes=MAX_FRAME))
        # After a severe one nothing more is read, so it is recorded however much came before.
        if self._violations_told.take(self._clock.monotonic()) or kind in _SEVERE:
            self._publish(PluginProtocolViolation(name=self._name, violation_type=kind, detail=printable(detail, 500)))
        if self._too_early or kind in _SEVERE:
            self._on_fatal(Fatal(kind, detail))

    def stalled(self) -> None:
        if self._flights:
            return  # it does one thing at a time, perhaps; what it works on has a deadline of its own
        self._on_fatal(Fatal("stdin_not_read", "it does not read what is sent to it"))

    def lost(self, reason: str) -> None:
        self._on_fatal(Fatal("output_closed", reason or "it closed its output"))


class _UnderWay:
    """See `CallOf`."""

    def __init__(self, flights: Flights) -> None:
        self._flights = flights

    def __call__(self, token: str) -> Flight | None:
        return self._flights.under(token)

    @property
    def effects(self) -> frozenset[str] | None:
        return self._flights.effects

    def used_network(self) -> None:
        self._flights.used_network()

    async def ask(self, request: int | None, question: Question) -> Answer:
        flight = self._flights.get(request) if request is not None else self._flights.only()
        return await self._flights.asked(flight, question) if flight is not None else Answer("cancel")


def _shown(line: bytes) -> str:
    return line[:400].decode("utf-8", "replace")
