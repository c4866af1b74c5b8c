"""What the host has said and nobody has handled yet.

Calls wait here in the order in which they came. Three things do not wait, whatever the plugin is busy with: a ping,
which is answered on arrival, the answer to a question of ours, and the word that a call is no longer wanted.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, cast

from paddock_sdk.call import JsonObject, Underway
from paddock_sdk.faults import Cancelled, HostGone, PluginFault
from paddock_sdk.framing import Lines
from paddock_sdk.log import Log
from paddock_sdk.message import Id, is_id, meant_as_answer, refusal, sound

OK = {"status": "ok"}
MOST_WAITING = 1024  # beyond it nothing more is read while a call runs, and the host feels it
A_MOMENT = 0.005  # seconds; a call that takes longer is worth a look at what came meanwhile


class Inbox:
    """The host's messages, sorted as they arrive.

    Args:
        lines: Where they come from, and where what needs no handler is answered.
        log: Told of what is ignored.
        cancel_method: How the host says that a call is no longer wanted.
    """

    def __init__(self, lines: Lines, log: Log, cancel_method: str) -> None:
        self.open = False  # once the handshake is over; before it a ping is out of order too
        self.underway: Underway | None = None  # the call that a handler is working on
        self._lines = lines
        self._log = log
        self._cancel_method = cancel_method
        self._waiting: deque[JsonObject] = deque()
        self._question: Id | None = None
        self._answer: JsonObject | None = None
        self._looked = 0.0

    def next(self) -> JsonObject:
        """The next request or notification; waits for it.

        Raises:
            HostGone: there will be none.
        """
        if self._waiting and time.monotonic() - self._looked > A_MOMENT:
            self.look()  # the next call may have been cancelled while the last one ran
        while not self._waiting:
            self._read()
        return self._waiting.popleft()

    def answer_to(self, question: Id) -> JsonObject:
        """The host's answer to a request of ours; waits for it.

        Raises:
            HostGone: it will never come.
        """
        self._question, self._answer = question, None
        while self._answer is None:
            self._read()
        answer, self._question, self._answer = self._answer, None, None
        return answer

    def look(self) -> None:
        """Take in what has already arrived, without waiting.

        Raises:
            HostGone: nobody reads our answers any more.
        """
        while len(self._waiting) < MOST_WAITING and self._lines.arrived():
            try:
                self._read()
            except HostGone:
                return  # no more questions, but what was asked may still be answered
        self._looked = time.monotonic()

    def _read(self) -> None:
        for message in self._lines.read():
            self._sort(message)
        self._looked = time.monotonic()

    def _sort(self, message: Any) -> None:
        if isinstance(message, PluginFault):
            self._lines.fail(None, message)
            return
        fields = cast("JsonObject", message) if isinstance(message, dict) else {}
        if not sound(fields):
            if meant_as_answer(fields):
                self._log.warning("an unsound answer was ignored")
            else:
                self._lines.fail(*refusal(fields))
        elif "method" not in fields:
            if fields["id"] == self._question:
                self._answer = fields
            else:
                self._log.warning("an answer to no question was ignored")
        elif fields["method"] == "ping" and self.open and "id" in fields:
            # The host would take a plugin that is only busy for a dead one.
            self._lines.answer(fields["id"], OK)
        elif fields["method"] == self._cancel_method and "id" not in fields:
            self._cancel(fields.get("params"))
        else:
            self._waiting.append(fields)

    def _cancel(self, params: Any) -> None:
        """Mark the call under way, or answer one that waits; any other was answered already."""
        unwanted = cast("JsonObject", params).get("id") if isinstance(params, dict) else None
        if not is_id(unwanted):
            return
        if self.underway is not None and self.underway.id == unwanted:
            self.underway.cancelled = True
            return
        for message in self._waiting:
            if message.get("id") == unwanted:
                self._waiting.remove(message)
                self._lines.fail(message["id"], Cancelled())
                return
