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
from paddock_sdk.coroutine_runner import run
from paddock_sdk.faults import INTERNAL_ERROR, Cancelled, HostGone, PluginFault
from paddock_sdk.framing import encode_line
from paddock_sdk.inbox import MAX_QUEUED_MESSAGES
from paddock_sdk.wire import Wire
from paddock_sdk.worker.fork import STDERR, ForkHandle, log_is_writable
from paddock_sdk.worker.fork_server import ForkFailed, ForkServer
from paddock_sdk.worker.forked_call import READY_METHOD, run_forked_call
from paddock_sdk.worker.load_plugin import entry_factory
from paddock_sdk.worker.sandbox import SandboxUnavailable
from paddock_sdk.worker.worker import CALL_METHODS, DESCRIBE_METHOD, NAMESPACE, Worker
from paddock_sdk.worker.worker_config import WorkerConfig

MAX_FORKS = 8  # at a time; further calls wait
EVENT_METHOD = f"{NAMESPACE}.event"
CANCEL_METHOD = f"{NAMESPACE}.cancel"
STOP_TIMEOUT_S = 2.0  # seconds; the host waits for five, and then ends the worker with all of its calls
# What makes the host tell a process that died from a plugin that fails.
ENDED_DATA = {"code": "plugin.unavailable"}


def serve_forked(orders: WorkerConfig, wire: Wire) -> None:
    """Serve until the host says shutdown or closes the pipe; calls under way are still answered.

    Raises:
        SystemExit: the plugin cannot be loaded; the log says why.
    """
    entry_factory(orders)  # what all copies need is loaded once
    gc.collect()
    gc.freeze()
    try:
        nursery = ForkServer(partial(run_forked_call, orders, wire.log))
    except SandboxUnavailable as error:
        print(f"no agent can run on this machine: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    forks = _ForkPool(Worker(orders, {}, wire.log), wire, nursery)
    try:
        with suppress(HostGone):
            forks.serve()
    finally:
        forks.end()
        nursery.close()


class _ForwardedRequest:
    """Where the answer to a question of a fork goes."""

    def __init__(self, fork: ForkHandle, question: JsonObject) -> None:
        self._fork = fork
        self._id = question["id"]

    def arrived(self, message: JsonObject) -> None:
        if not self._fork.ended:
            self._fork.send(encode_line({**message, "id": self._id}))


class _ForkPool:
    def __init__(self, worker: Worker, wire: Wire, nursery: ForkServer) -> None:
        self._worker = worker
        self._wire = wire
        self._nursery = nursery
        self._forks: list[ForkHandle] = []  # with a call, and at most one that waits for the next
        self._listening = False

    def serve(self) -> None:
        first = self._new_fork()
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

        if self._listening and len(self._wire.inbox.waiting) < MAX_QUEUED_MESSAGES:
            when(self._wire.lines.source, select.POLLIN, self._read)
        printing = [fork for fork in self._forks if not fork.log.over]
        if printing and not log_is_writable():
            when(STDERR, select.POLLOUT, lambda: None)
            printing = []
        for fork in printing:
            when(fork.log.source, select.POLLIN, partial(_ignore_if_ended, fork, fork.log.forward_page))
        for fork in self._forks:
            when(fork.lines.source, select.POLLIN, partial(_ignore_if_ended, fork, partial(self._read_fork, fork)))
            if fork.has_unsent:
                when(fork.lines.sink, select.POLLOUT, partial(_ignore_if_ended, fork, fork.flush))
        for descriptor, _ in poll.poll(self._poll_timeout()):
            ready[descriptor]()
        self._kill_overdue()

    def _poll_timeout(self) -> float | None:
        """For how long nothing has to be done, in milliseconds; None is forever."""
        ends = [fork.ends_at for fork in self._forks if fork.ends_at is not None]
        return max(0.0, min(ends) - time.monotonic()) * 1000 + 1 if ends else None

    def _kill_overdue(self) -> None:
        now = time.monotonic()
        for fork in [fork for fork in self._forks if fork.ends_at is not None and fork.ends_at <= now]:
            message = fork.message
            self._finish_fork(fork)
            if message is not None:
                self._wire.fail(message, Cancelled())

    def _read(self) -> None:
        try:
            self._wire.inbox.read()
        except HostGone:
            self._listening = False

    def _read_fork(self, fork: ForkHandle) -> None:
        heard = fork.read_messages()
        if heard is None:
            self._handle_lost_fork(fork)
            return
        for said in heard:
            if isinstance(said, dict) and not fork.ended:
                self._handle_message(fork, cast("JsonObject", said))

    def _handle_message(self, fork: ForkHandle, said: JsonObject) -> None:
        message = fork.message
        if said.get("method") == READY_METHOD:
            fork.ready = True
        elif message is None:
            return  # nobody asked it anything
        else:
            try:
                self._forward_message(fork, message, said)
            except (TypeError, ValueError, RecursionError) as error:
                self._finish_fork(fork)
                self._wire.fail(message, error)

    def _forward_message(self, fork: ForkHandle, message: JsonObject, said: JsonObject) -> None:
        """What a fork says to the host about its own call; anything else is not its affair."""
        if "method" in said and "id" in said:
            self._wire.forward_request(said, _ForwardedRequest(fork, said))
        elif "method" in said:
            about = said.get("params")
            if said["method"] == EVENT_METHOD and isinstance(about, dict) and about.get("id") == message.get("id"):  # pyright: ignore[reportUnknownMemberType]
                self._wire.lines.write(said)
        elif said.get("id") == message.get("id"):
            fork.log.forward_all()  # what was printed before the answer is read before it
            self._wire.lines.write(said)
            self._finish_fork(fork)

    # --- calls ---------------------------------------------------------------------------------------------------

    def _start_waiting(self) -> None:
        waiting = self._wire.inbox.waiting
        for _ in range(len(waiting)):
            message = waiting.popleft()
            if message["method"] == "shutdown":
                waiting.clear()
                self._listening = False
                return
            if message["method"] not in (*CALL_METHODS, DESCRIBE_METHOD) or not self._wire.inbox.open:
                run(self._worker.serve(self._wire, message, self._worker.accept(self._wire, message)))
            elif self._idle_fork() or len(self._forks) < MAX_FORKS:
                self._start(message)
            else:
                waiting.append(message)  # all of them are looked at, so their order stays

    def _start(self, message: JsonObject) -> None:
        try:
            fork = self._idle_fork() or self._new_fork()
            fork.assign(message)
        except (ForkFailed, TypeError, ValueError, RecursionError) as error:
            self._wire.fail(message, PluginFault(str(error), code=INTERNAL_ERROR))
            return
        self._worker.accept(self._wire, message).on_cancel = partial(fork.stop, CANCEL_METHOD, STOP_TIMEOUT_S)

    def _idle_fork(self) -> ForkHandle | None:
        return next((fork for fork in self._forks if fork.message is None), None)

    def _new_fork(self) -> ForkHandle:
        fork = ForkHandle(self._nursery.fork_process())
        self._forks.append(fork)
        return fork

    def _handle_lost_fork(self, fork: ForkHandle) -> None:
        """It ended without a word."""
        message = fork.message
        how = os.waitstatus_to_exitcode(self._end_fork(fork))
        if message is None:
            return  # whoever calls next gets another one
        words = f"was ended by signal {-how}" if how < 0 else f"ended with {how}"
        self._wire.fail(message, PluginFault(f"the process of this call {words}", ENDED_DATA, code=INTERNAL_ERROR))
        self._ensure_idle_fork()

    def _finish_fork(self, fork: ForkHandle) -> None:
        """Its work is done."""
        if fork.message is not None and fork.message["method"] == DESCRIBE_METHOD and len(self._forks) == 1:
            fork.message = None  # it has served no call yet, and saw none
            return
        self._end_fork(fork)
        self._ensure_idle_fork()

    def _end_fork(self, fork: ForkHandle) -> int:
        if fork.message is not None:
            self._wire.inbox.calls.pop(fork.message.get("id", ""), None)
        self._forks.remove(fork)
        return fork.end()

    def _ensure_idle_fork(self) -> None:
        if not self._forks and self._listening:
            with suppress(ForkFailed):
                self._new_fork()


def _ignore_if_ended(fork: ForkHandle, do: Callable[[], object]) -> None:
    if not fork.ended:
        do()
