"""Every call in a process of its own, so that nothing of one call is left for the next: for the Kernel's agents.

This is the side of the worker that talks with the host. No code of the plugin ever runs here. It answers the host's own
requests, hands each call to a process from the nursery (`nursery.py`, `one_call.py`), carries questions to the host and
answers back, tells a process that its call is cancelled and ends it if it does not stop, and answers for one that died.

One process waits with the plugin loaded, so that a call need not. It is made when no call runs: a process that would be
loaded beside a call could look at what that call does, and tell the next. Only calls that run at once are ever beside
each other; each of those but the first waits until the plugin is loaded for it.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import cast

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import INTERNAL_ERROR, Cancelled, HostGone, PluginFault
from paddock_sdk.framing import line_of
from paddock_sdk.inbox import MOST_WAITING
from paddock_sdk.running import run
from paddock_sdk.wire import Wire
from paddock_sdk.worker.entries import entry_maker
from paddock_sdk.worker.fork import Fork
from paddock_sdk.worker.fork_log import LOG, can_log
from paddock_sdk.worker.nursery import NoChild, Nursery
from paddock_sdk.worker.one_call import READY, live
from paddock_sdk.worker.orders import Orders
from paddock_sdk.worker.seclusion import CannotSeclude
from paddock_sdk.worker.worker import CALLS, DESCRIBE, NAMESPACE, Worker

MOST_FORKS = 8  # at a time; further calls wait
EVENT = f"{NAMESPACE}.event"
CANCEL = f"{NAMESPACE}.cancel"
STOP_WITHIN = 2.0  # seconds; the host waits for five, and then ends the worker with all of its calls
# What makes the host tell a process that died from a plugin that fails.
ENDED = {"code": "plugin.unavailable"}


def serve_in_forks(orders: Orders, wire: Wire) -> None:
    """Serve until the host says shutdown or closes the pipe; calls under way are still answered.

    Raises:
        SystemExit: the plugin cannot be loaded; the log says why.
    """
    entry_maker(orders)  # what all copies need is loaded once
    gc.collect()
    gc.freeze()
    try:
        nursery = Nursery(partial(live, orders, wire.log))
    except CannotSeclude as error:
        print(f"no agent can run on this machine: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    forks = _Forks(Worker(orders, {}, wire.log), wire, nursery)
    try:
        with suppress(HostGone):
            forks.serve()
    finally:
        forks.end()
        nursery.close()


class _Question:
    """Where the answer to a question of a fork goes."""

    def __init__(self, fork: Fork, question: JsonObject) -> None:
        self._fork = fork
        self._id = question["id"]

    def arrived(self, message: JsonObject) -> None:
        if not self._fork.ended:
            self._fork.send(line_of({**message, "id": self._id}))


class _Forks:
    def __init__(self, worker: Worker, wire: Wire, nursery: Nursery) -> None:
        self._worker = worker
        self._wire = wire
        self._nursery = nursery
        self._forks: list[Fork] = []  # with a call, and at most one that waits for the next
        self._listening = False

    def serve(self) -> None:
        first = self._new()
        while not first.ready and not first.ended:
            self._wait()
        if first.ended:
            raise SystemExit(1)
        self._listening = True
        while self._listening or self._wire.inbox.waiting or self._busy():
            self._start_waiting()
            if self._listening or self._busy():  # the one that waits for the next call says nothing more
                self._wait()

    def end(self) -> None:
        for fork in self._forks:
            fork.end()

    def _busy(self) -> bool:
        return any(fork.message for fork in self._forks)

    # --- listening -----------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait until something can be read or written, and do it."""
        ready: dict[int, Callable[[], object]] = {}
        poll = select.poll()

        def when(descriptor: int, what: int, then: Callable[[], object]) -> None:
            poll.register(descriptor, what)
            ready[descriptor] = then

        if self._listening and len(self._wire.inbox.waiting) < MOST_WAITING:
            when(self._wire.lines.source, select.POLLIN, self._read)
        printing = [fork for fork in self._forks if not fork.log.over]
        if printing and not can_log():
            when(LOG, select.POLLOUT, lambda: None)
            printing = []
        for fork in printing:
            when(fork.log.source, select.POLLIN, partial(_unless_ended, fork, fork.log.pass_on))
        for fork in self._forks:
            when(fork.lines.source, select.POLLIN, partial(_unless_ended, fork, partial(self._hear, fork)))
            if fork.has_unsent:
                when(fork.lines.sink, select.POLLOUT, partial(_unless_ended, fork, fork.flush))
        for descriptor, _ in poll.poll(self._patience()):
            ready[descriptor]()
        self._end_the_unstoppable()

    def _patience(self) -> float | None:
        """For how long nothing has to be done, in milliseconds; None is forever."""
        ends = [fork.ends_at for fork in self._forks if fork.ends_at is not None]
        return max(0.0, min(ends) - time.monotonic()) * 1000 + 1 if ends else None

    def _end_the_unstoppable(self) -> None:
        now = time.monotonic()
        for fork in [fork for fork in self._forks if fork.ends_at is not None and fork.ends_at <= now]:
            message = fork.message
            self._over(fork)
            if message is not None:
                self._wire.fail(message, Cancelled())

    def _read(self) -> None:
        try:
            self._wire.inbox.read()
        except HostGone:
            self._listening = False

    def _hear(self, fork: Fork) -> None:
        heard = fork.heard()
        if heard is None:
            self._lose(fork)
            return
        for said in heard:
            if isinstance(said, dict) and not fork.ended:
                self._take(fork, cast("JsonObject", said))

    def _take(self, fork: Fork, said: JsonObject) -> None:
        message = fork.message
        if said.get("method") == READY:
            fork.ready = True
        elif message is None:
            return  # nobody asked it anything
        else:
            try:
                self._pass_on(fork, message, said)
            except (TypeError, ValueError, RecursionError) as error:
                self._over(fork)
                self._wire.fail(message, error)

    def _pass_on(self, fork: Fork, message: JsonObject, said: JsonObject) -> None:
        """What a fork says to the host about its own call; anything else is not its affair."""
        if "method" in said and "id" in said:
            self._wire.pass_on(said, _Question(fork, said))
        elif "method" in said:
            about = said.get("params")
            if said["method"] == EVENT and isinstance(about, dict) and about.get("id") == message.get("id"):  # pyright: ignore[reportUnknownMemberType]
                self._wire.lines.write(said)
        elif said.get("id") == message.get("id"):
            fork.log.pass_on_all()  # what was printed before the answer is read before it
            self._wire.lines.write(said)
            self._over(fork)

    # --- calls ---------------------------------------------------------------------------------------------------

    def _start_waiting(self) -> None:
        waiting = self._wire.inbox.waiting
        for _ in range(len(waiting)):
            message = waiting.popleft()
            if message["method"] == "shutdown":
                waiting.clear()
                self._listening = False
                return
            if message["method"] not in (*CALLS, DESCRIBE) or not self._wire.inbox.open:
                run(self._worker.serve(self._wire, message, self._worker.accept(self._wire, message)))
            elif self._spare() or len(self._forks) < MOST_FORKS:
                self._start(message)
            else:
                waiting.append(message)  # all of them are looked at, so their order stays

    def _start(self, message: JsonObject) -> None:
        try:
            fork = self._spare() or self._new()
            fork.give(message)
        except (NoChild, TypeError, ValueError, RecursionError) as error:
            self._wire.fail(message, PluginFault(str(error), code=INTERNAL_ERROR))
            return
        self._worker.accept(self._wire, message).on_cancel = partial(fork.stop, CANCEL, STOP_WITHIN)

    def _spare(self) -> Fork | None:
        return next((fork for fork in self._forks if fork.message is None), None)

    def _new(self) -> Fork:
        fork = Fork(self._nursery.new())
        self._forks.append(fork)
        return fork

    def _lose(self, fork: Fork) -> None:
        """It ended without a word."""
        message = fork.message
        how = os.waitstatus_to_exitcode(self._end(fork))
        if message is None:
            return  # whoever calls next gets another one
        words = f"was ended by signal {-how}" if how < 0 else f"ended with {how}"
        self._wire.fail(message, PluginFault(f"the process of this call {words}", ENDED, code=INTERNAL_ERROR))
        self._have_a_spare()

    def _over(self, fork: Fork) -> None:
        """Its work is done."""
        if fork.message is not None and fork.message["method"] == DESCRIBE and len(self._forks) == 1:
            fork.message = None  # it has served no call yet, and saw none
            return
        self._end(fork)
        self._have_a_spare()

    def _end(self, fork: Fork) -> int:
        if fork.message is not None:
            self._wire.inbox.calls.pop(fork.message.get("id", ""), None)
        self._forks.remove(fork)
        return fork.end()

    def _have_a_spare(self) -> None:
        if not self._forks and self._listening:
            with suppress(NoChild):
                self._new()


def _unless_ended(fork: Fork, do: Callable[[], object]) -> None:
    if not fork.ended:
        do()
