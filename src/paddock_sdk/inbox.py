"""The host's messages that have not been handled yet.

Calls wait here in the order of their arrival. Three things do not wait, whatever the plugin is busy with: a ping, which
is answered on arrival, a response to a request of ours, and the cancellation of a call.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

from paddock_sdk.call import ActiveCall, JsonObject
from paddock_sdk.faults import Cancelled, HostGone, PluginFault
from paddock_sdk.framing import Lines
from paddock_sdk.log import Log
from paddock_sdk.message import Id, invalid_message_fault, is_id, is_valid_message, looks_like_answer

OK_RESULT = {"status": "ok"}
MAX_QUEUED_MESSAGES = 1024  # beyond it nothing is read while a call runs: backpressure for the host
POLL_INTERVAL_S = 0.005  # after a call that takes longer, new messages are read first


class AnswerReceiver(Protocol):
    """Receives the response to a request."""

    def arrived(self, message: JsonObject) -> None:
        """Deliver the response."""
        ...


class Inbox:
    """The host's messages, sorted on arrival.

    Args:
        lines: The connection; messages that need no handler are answered on it.
        log: The destination of warnings about ignored messages.
        cancel_method: The host's notification that a call is cancelled.
    """

    def __init__(self, lines: Lines, log: Log, cancel_method: str) -> None:
        self.open = False  # set after the handshake; before it even a ping is out of order
        self.calls: dict[Id, ActiveCall] = {}  # calls in progress
        self.waiting: deque[JsonObject] = deque()  # requests and notifications that are not started yet
        self.on_waiting: Callable[[], object] | None = None  # called when more messages wait
        self._lines = lines
        self._log = log
        self._cancel_method = cancel_method
        self._receivers: dict[Id, AnswerReceiver] = {}
        self._last_poll = 0.0

    def next(self) -> JsonObject:
        """Return the next request or notification; waits for it.

        Raises:
            HostGone: the host closed the pipe.
        """
        if self.waiting and time.monotonic() - self._last_poll > POLL_INTERVAL_S:
            self.poll()  # the next call may have been cancelled while the last one ran
        while not self.waiting:
            self.read()
        return self.waiting.popleft()

    def expect(self, request_id: Id, receiver: AnswerReceiver) -> None:
        """Register the receiver of the response to a request of ours."""
        self._receivers[request_id] = receiver

    def poll(self) -> None:
        """Read what has already arrived, without waiting.

        Raises:
            HostGone: the host no longer reads our responses.
        """
        while len(self.waiting) < MAX_QUEUED_MESSAGES and self._lines.arrived():
            try:
                self.read()
            except HostGone:
                return  # no more requests, but earlier ones may still be answered
        self._last_poll = time.monotonic()

    def read(self) -> None:
        """Read the next messages; waits for them.

        Raises:
            HostGone: the host closed the pipe.
        """
        before = len(self.waiting)
        for message in self._lines.read():
            self._dispatch(message)
        self._last_poll = time.monotonic()
        if self.on_waiting is not None and len(self.waiting) > before:
            self.on_waiting()

    def _dispatch(self, message: Any) -> None:
        if isinstance(message, PluginFault):
            self._lines.fail(None, message)
            return
        fields = cast("JsonObject", message) if isinstance(message, dict) else {}
        if not is_valid_message(fields):
            if looks_like_answer(fields):
                self._log.warning("an unsound answer was ignored")
            else:
                self._lines.fail(*invalid_message_fault(fields))
        elif "method" not in fields:
            receiver = self._receivers.pop(fields["id"], None)
            if receiver is not None:
                receiver.arrived(fields)
            else:
                self._log.warning("an answer to no question was ignored")
        elif fields["method"] == "ping" and self.open and "id" in fields:
            # Otherwise the host would take a busy plugin for a dead one.
            self._lines.answer(fields["id"], OK_RESULT)
        elif fields["method"] == self._cancel_method and "id" not in fields:
            self._cancel(fields.get("params"))
        else:
            self.waiting.append(fields)

    def _cancel(self, params: Any) -> None:
        """Cancel the call in progress, or answer one that still waits; any other has been answered already."""
        request_id = cast("JsonObject", params).get("id") if isinstance(params, dict) else None
        if not is_id(request_id):
            return
        active = self.calls.get(cast("Id", request_id))
        if active is not None:
            active.cancel()
            return
        for message in self.waiting:
            if message.get("id") == request_id:
                self.waiting.remove(message)
                self._lines.fail(message["id"], Cancelled())
                return
