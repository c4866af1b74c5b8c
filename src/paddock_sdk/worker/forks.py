"""Every call in a fork of the warm worker, so that nothing of one call is left for the next: for the Kernel's agents.

The parent never runs the plugin's code again once it is loaded. It answers the host's own requests, carries questions
of the forks to the host and the answers back, ends a fork whose call is cancelled, and answers for one that died.

What this does not buy: names of empty files in a writable place, and processes that leave their group, outlive a call.
The agent's cage has to have neither; see `fork.py` for what is closed here.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress
from typing import cast

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import INTERNAL_ERROR, Cancelled, HostGone, PluginFault
from paddock_sdk.framing import line_of
from paddock_sdk.inbox import MOST_WAITING
from paddock_sdk.running import begin, run
from paddock_sdk.wire import Wire
from paddock_sdk.worker.fork import Fork
from paddock_sdk.worker.worker import CALLS, NAMESPACE, Worker

MOST_FORKS = 8  # at a time; further calls wait


def serve_in_forks(worker: Worker, wire: Wire) -> None:
    """Serve until the host says shutdown or closes the pipe; calls under way are still answered."""
    with suppress(HostGone):
        _Forks(worker, wire).serve()


class _Question:
    """Where the answer to a question of a fork goes."""

    def __init__(self, fork: Fork, question: JsonObject) -> None:
        self._fork = fork
        self._id = question["id"]

    def arrived(self, message: JsonObject) -> None:
        if not self._fork.answered:
            self._fork.send(line_of({**message, "id": self._id}))


class _Forks:
    def __init__(self, worker: Worker, wire: Wire) -> None:
        self._worker = worker
        self._wire = wire
        self._forks: dict[int, Fork] = {}  # by the descriptor that it is heard with
        self._listening = True

    def serve(self) -> None:
        waiting = self._wire.inbox.waiting
        while self._listening or self._forks or waiting:
            self._start_waiting()
            for descriptor in self._ready():
                if descriptor == self._wire.lines.source:
                    self._read()
                elif (fork := self._forks.get(descriptor)) is not None:
                    self._hear(fork)

    def _ready(self) -> list[int]:
        """The descriptors with something to read; waits for one, and writes on the way what forks can take."""
        poll = select.poll()
        writers = {fork.lines.sink: fork for fork in self._forks.values() if fork.has_unsent}
        if self._listening and len(self._wire.inbox.waiting) < MOST_WAITING:
            poll.register(self._wire.lines.source, select.POLLIN)
        for descriptor in self._forks:
            poll.register(descriptor, select.POLLIN)
        for descriptor in writers:
            poll.register(descriptor, select.POLLOUT)
        found = [descriptor for descriptor, _ in poll.poll()] if self._listening or self._forks else []
        for descriptor in found:
            if descriptor in writers:
                writers[descriptor].flush()
        return [descriptor for descriptor in found if descriptor not in writers]

    def _read(self) -> None:
        try:
            self._wire.inbox.read()
        except HostGone:
            self._listening = False

    def _start_waiting(self) -> None:
        waiting = self._wire.inbox.waiting
        for _ in range(len(waiting)):
            message = waiting.popleft()
            if message["method"] == "shutdown":
                waiting.clear()
                self._listening = False
                return
            if message["method"] not in CALLS:
                run(self._worker.serve(self._wire, message, self._worker.accept(self._wire, message)))
            elif len(self._forks) < MOST_FORKS:
                self._start(message)
            else:
                waiting.append(message)  # all of them are looked at, so their order stays

    def _start(self, message: JsonObject) -> None:
        call = self._worker.accept(self._wire, message)
        others = [end for fork in self._forks.values() for end in (fork.lines.source, fork.lines.sink)]
        ours = [self._wire.lines.source, self._wire.lines.sink, *others]
        log = self._wire.log
        fork = Fork(message, lambda lines: _serve_one(self._worker, Wire(lines, log, NAMESPACE), message), ours)
        self._forks[fork.lines.source] = fork
        call.on_cancel = lambda: self._cancel(fork)

    def _hear(self, fork: Fork) -> None:
        heard = fork.heard()
        if heard is None:
            how = os.waitstatus_to_exitcode(self._end(fork))
            words = f"was ended by signal {-how}" if how < 0 else f"ended with {how}"
            self._wire.fail(fork.message, PluginFault(f"the process of this call {words}", code=INTERNAL_ERROR))
            return
        for said in heard:
            if isinstance(said, dict) and not fork.answered:
                self._pass_on(fork, cast("JsonObject", said))

    def _pass_on(self, fork: Fork, said: JsonObject) -> None:
        if "method" in said and "id" in said:
            self._wire.pass_on(said, _Question(fork, said))
        elif "method" in said:
            self._wire.lines.write(said)
        elif said.get("id") == fork.message.get("id"):
            self._wire.lines.write(said)
            self._end(fork)

    def _cancel(self, fork: Fork) -> None:
        self._end(fork)
        self._wire.fail(fork.message, Cancelled())

    def _end(self, fork: Fork) -> int:
        fork.answered = True
        self._wire.inbox.calls.pop(fork.message["id"], None)
        self._forks.pop(fork.lines.source, None)
        return fork.end()


def _serve_one(worker: Worker, wire: Wire, message: JsonObject) -> None:
    serving = worker.serve(wire, message, worker.accept(wire, message))
    if not begin(serving):
        from paddock_sdk.worker.at_once import finish  # late: only who needs a loop loads one

        finish(wire, serving)
