"""What the host has said and nobody has handled yet.

Calls wait here in the order in which they came. Three things do not wait, whatever the plugin is busy with: a ping,
which is answered on arrival, the answer to a question of ours, and the word that a call is no longer wanted.
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
MAX_QUEUED_MESSAGES = 1024  # beyond it nothing more is read while a call runs, and the host feels it
POLL_INTERVAL_S = 0.005  # seconds; a call that takes longer is worth a look at what came meanwhile


class AnswerReceiver(Protocol):
    """Who waits for an answer of the host."""

    def arrived(self, message: JsonObject) -> None:
        """Here it is."""
        ...


class Inbox:
    """The host's messages, sorted as they arrive.

    Args:
        lines: Where they come from, and where what needs no handler is answered.
        log: Told of what is ignored.
        cancel_method: How the host says that a call is no longer wanted.
    """

    def __init__(self, lines: Lines, log: Log, cancel_method: str) -> None:
        self.open = False  # once the handshake is over; before it a ping is out of order too
        self.calls: dict[Id, ActiveCall] = {}  # what handlers are working on
        self.waiting: deque[JsonObject] = deque()  # requests and notifications that nobody has taken yet
        self.on_waiting: Callable[[], object] | None = None  # told when something more waits
        self._lines = lines
        self._log = log
        self._cancel_method = cancel_method
        self._askers: dict[Id, AnswerReceiver] = {}
        self._last_poll = 0.0

    def next(self) -> JsonObject:
        """The next request or notification; waits for it.

        Raises:
            HostGone: there will be none.
        """
        if self.waiting and time.monotonic() - self._last_poll > POLL_INTERVAL_S:
            self.poll()  # the next call may have been cancelled while the last one ran
        while not self.waiting:
            self.read()
        return self.waiting.popleft()

    def expect(self, question: Id, asker: AnswerReceiver) -> None:
        """The answer to this question of ours goes to whoever asked."""
        self._askers[question] = asker

    def poll(self) -> None:
        """Take in what has already arrived, without waiting.

        Raises:
            HostGone: nobody reads our answers any more.
        """
        while len(self.waiting) < MAX_QUEUED_MESSAGES and self._lines.arrived():
            try:
                self.read()
            except HostGone:
                return  # no more questions, but what was asked may still be answered
        self._last_poll = time.monotonic()

    def read(self) -> None:
        """Take in what arrives next; waits for it.

        Raises:
            HostGone: nothing will.
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
            asker = self._askers.pop(fields["id"], None)
            if asker is not None:
                asker.arrived(fields)
            else:
                self._log.warning("an answer to no question was ignored")
        elif fields["method"] == "ping" and self.open and "id" in fields:
            # The host would take a plugin that is only busy for a dead one.
            self._lines.answer(fields["id"], OK_RESULT)
        elif fields["method"] == self._cancel_method and "id" not in fields:
            self._cancel(fields.get("params"))
        else:
            self.waiting.append(fields)

    def _cancel(self, params: Any) -> None:
        """Tell the call that is under way, or answer one that waits; any other was answered already."""
        unwanted = cast("JsonObject", params).get("id") if isinstance(params, dict) else None
        if not is_id(unwanted):
            return
        underway = self.calls.get(cast("Id", unwanted))
        if underway is not None:
            underway.cancel()
            return
        for message in self.waiting:
            if message.get("id") == unwanted:
                self.waiting.remove(message)
                self._lines.fail(message["id"], Cancelled())
                return
