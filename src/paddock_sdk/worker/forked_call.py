"""The life of a copy: secluded, the plugin loaded, one call served, and its end.

It speaks the ordinary wire with the worker instead of the host, and says `worker.ready` once it is loaded. A question
what the plugin offers is no call: after it the copy still waits for its one.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

from paddock_sdk.coroutine_runner import run_until_loop
from paddock_sdk.faults import HostGone
from paddock_sdk.framing import MAX_MESSAGE_BYTES, Lines
from paddock_sdk.log import Log
from paddock_sdk.wire import Wire
from paddock_sdk.worker.fork_server import ForkPipes, close_other_descriptors
from paddock_sdk.worker.load_plugin import load_worker
from paddock_sdk.worker.sandbox import SandboxUnavailable, enter_sandbox
from paddock_sdk.worker.worker import CALL_METHODS, NAMESPACE, Worker
from paddock_sdk.worker.worker_config import WorkerConfig

READY_METHOD = "worker.ready"
# A line is written in ASCII here, whatever the host wrote it in.
_MAX_MESSAGE_BYTES = 4 * MAX_MESSAGE_BYTES


def run_forked_call(orders: WorkerConfig, log: Log, ends: ForkPipes) -> NoReturn:
    """Serve one call and end, without running anything that was planned for the worker's own end."""
    status = 1
    try:
        lines = _take_pipes(ends)
        enter_sandbox()
        worker = load_worker(orders, log)
        worker.skip_handshake()
        _serve_one(worker, Wire(lines, log, NAMESPACE))
        status = 0
    except SandboxUnavailable as error:
        print(f"no agent can run on this machine: {error}", file=sys.stderr)
    except HostGone:
        pass
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _take_pipes(ends: ForkPipes) -> Lines:
    """Have nothing open that another process has too."""
    os.dup2(ends.log, 1)
    os.dup2(ends.log, 2)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    close_other_descriptors({0, 1, 2, ends.source, ends.sink})
    return Lines(ends.source, ends.sink, max_line_bytes=_MAX_MESSAGE_BYTES)


def _serve_one(worker: Worker, wire: Wire) -> None:
    wire.inbox.open = True
    wire.notify(READY_METHOD, {})
    while True:
        message = wire.inbox.next()
        call = worker.accept(wire, message)
        serving = worker.serve(wire, message, call)
        if not run_until_loop(serving):
            from paddock_sdk.worker.serve_async import finish_call  # late: only who needs a loop loads one

            finish_call(wire, message, call, serving)
        if message["method"] in CALL_METHODS:
            return
