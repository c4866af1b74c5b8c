"""Runs every call in its own process, so that a call leaves nothing for the next: for the Kernel's agents.

This is the side of the worker that talks with the host. No code of the plugin ever runs here. It answers lifecycle
requests, gives each call to a process from the fork server (`fork_server.py`, `forked_call.py`), forwards requests to
the host and responses back, cancels calls and kills processes that do not stop, and answers for a process that died.

One idle process has the plugin loaded already, so that a call need not wait. It is created when no call runs: a process
loading beside a call could observe that call, and tell the next. Only concurrent calls ever run beside each other; each
of those but the first waits until the plugin is loaded for it.
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

MAX_FORKS = 8  # concurrent processes; further calls wait
EVENT_METHOD = f"{NAMESPACE}.event"
CANCEL_METHOD = f"{NAMESPACE}.cancel"
STOP_TIMEOUT_S = 2.0  # the host waits five, then kills the worker with all its calls
# Lets the host distinguish a dead process from a failing plugin.
ENDED_DATA = {"code": "plugin.unavailable"}


def serve_forked(config: WorkerConfig, wire: Wire) -> None:
    """Serve until the host sends shutdown or closes the pipe; calls in progress are still answered.

    Raises:
        SystemExit: the plugin cannot be loaded; the log says why.
    """
    entry_factory(config)  # modules that every process needs are loaded once
    gc.collect()
    gc.freeze()
    try:
        fork_server = ForkServer(partial(run_forked_call, config, wire.log))
    except SandboxUnavailable as error:
        print(f"no agent can run on this machine: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    forks = _ForkPool(Worker(config, {}, wire.log), wire, fork_server)
    try:
        with suppress(HostGone):
            forks.serve()
    finally:
        forks.end()
        fork_server.close()


class _ForwardedRequest:
    """Routes the response to a fork's request back to it."""

    def __init__(self, fork: ForkHandle, request: JsonObject) -> None:
        self._fork = fork
        self._id = request["id"]

    def arrived(self, message: JsonObject) -> None:
        if not self._fork.ended:
            self._fork.send(encode_line({**message, "id": self._id}))


class _ForkPool:
    def __init__(self, worker: Worker, wire: Wire, fork_server: ForkServer) -> None:
        self._worker = worker
        self._wire = wire
        self._fork_server = fork_server
        self._forks: list[ForkHandle] = []  # busy ones, and at most one idle
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
            if self._listening or self._busy():  # an idle fork sends nothing more
                self._wait()

    def end(self) -> None:
        for fork in self._forks:
            fork.end()

    def _busy(self) -> bool:
        return any(fork.message for fork in self._forks)

    # --- listening -----------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait until a descriptor is ready, and handle it."""
        callbacks: dict[int, Callable[[], object]] = {}
        poll = select.poll()

        def register(descriptor: int, events: int, callback: Callable[[], object]) -> None:
            poll.register(descriptor, events)
            callbacks[descriptor] = callback

        if self._listening and len(self._wire.inbox.waiting) < MAX_QUEUED_MESSAGES:
            register(self._wire.lines.source, select.POLLIN, self._read)
        printing = [fork for fork in self._forks if not fork.log.over]
        if printing and not log_is_writable():
            register(STDERR, select.POLLOUT, lambda: None)
            printing = []
        for fork in printing:
            register(fork.log.source, select.POLLIN, partial(_ignore_if_ended, fork, fork.log.forward_page))
        for fork in self._forks:
            register(fork.lines.source, select.POLLIN, partial(_ignore_if_ended, fork, partial(self._read_fork, fork)))
            if fork.has_unsent:
                register(fork.lines.sink, select.POLLOUT, partial(_ignore_if_ended, fork, fork.flush))
        for descriptor, _ in poll.poll(self._poll_timeout()):
            callbacks[descriptor]()
        self._kill_overdue()

    def _poll_timeout(self) -> float | None:
        """Return the poll timeout in milliseconds; None means forever."""
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
        messages = fork.read_messages()
        if messages is None:
            self._handle_lost_fork(fork)
            return
        for sent in messages:
            if isinstance(sent, dict) and not fork.ended:
                self._handle_message(fork, cast("JsonObject", sent))

    def _handle_message(self, fork: ForkHandle, sent: JsonObject) -> None:
        message = fork.message
        if sent.get("method") == READY_METHOD:
            fork.ready = True
        elif message is None:
            return  # it has no request to answer
        else:
            try:
                self._forward_message(fork, message, sent)
            except (TypeError, ValueError, RecursionError) as error:
                self._finish_fork(fork)
                self._wire.fail(message, error)

    def _forward_message(self, fork: ForkHandle, message: JsonObject, sent: JsonObject) -> None:
        """Forward a fork's message about its own call to the host; anything else is dropped."""
        if "method" in sent and "id" in sent:
            self._wire.forward_request(sent, _ForwardedRequest(fork, sent))
        elif "method" in sent:
            params = sent.get("params")
            if sent["method"] == EVENT_METHOD and isinstance(params, dict) and params.get("id") == message.get("id"):  # pyright: ignore[reportUnknownMemberType]
                self._wire.lines.write(sent)
        elif sent.get("id") == message.get("id"):
            fork.log.forward_all()  # output printed before the result is logged before it
            self._wire.lines.write(sent)
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
                waiting.append(message)  # every message is visited once, so their order stays

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
        fork = ForkHandle(self._fork_server.fork_process())
        self._forks.append(fork)
        return fork

    def _handle_lost_fork(self, fork: ForkHandle) -> None:
        """Answer for a fork that died without a result."""
        message = fork.message
        exit_code = os.waitstatus_to_exitcode(self._end_fork(fork))
        if message is None:
            return  # the next call gets another one
        ending = f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with {exit_code}"
        self._wire.fail(message, PluginFault(f"the process of this call {ending}", ENDED_DATA, code=INTERNAL_ERROR))
        self._ensure_idle_fork()

    def _finish_fork(self, fork: ForkHandle) -> None:
        """Dispose of a fork whose work is done, and prepare the next."""
        if fork.message is not None and fork.message["method"] == DESCRIBE_METHOD and len(self._forks) == 1:
            fork.message = None  # it has served no call yet
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


def _ignore_if_ended(fork: ForkHandle, callback: Callable[[], object]) -> None:
    if not fork.ended:
        callback()
