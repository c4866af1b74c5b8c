"""The main function of a forked process: enter the sandbox, load the plugin, serve one call, exit.

It speaks the ordinary protocol with the worker instead of the host, and sends `worker.ready` once the plugin is loaded.
A describe request does not count as its call: afterwards the process still waits for one.
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
# Lines are re-encoded in ASCII here, which may be longer than what the host sent.
_MAX_MESSAGE_BYTES = 4 * MAX_MESSAGE_BYTES


def run_forked_call(config: WorkerConfig, log: Log, pipes: ForkPipes) -> NoReturn:
    """Serve one call and exit, without running the worker's own exit handlers."""
    status = 1
    try:
        lines = _take_pipes(pipes)
        enter_sandbox()
        worker = load_worker(config, log)
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


def _take_pipes(pipes: ForkPipes) -> Lines:
    """Close every descriptor shared with another process, and return the connection to the worker."""
    os.dup2(pipes.log, 1)
    os.dup2(pipes.log, 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    close_other_descriptors({0, 1, 2, pipes.source, pipes.sink})
    return Lines(pipes.source, pipes.sink, max_line_bytes=_MAX_MESSAGE_BYTES)


def _serve_one(worker: Worker, wire: Wire) -> None:
    wire.inbox.open = True
    wire.notify(READY_METHOD, {})
    while True:
        message = wire.inbox.next()
        call = worker.accept(wire, message)
        work = worker.serve(wire, message, call)
        if not run_until_loop(work):
            from paddock_sdk.worker.serve_async import finish_call  # late: only plugins that need a loop load asyncio

            finish_call(wire, message, call, work)
        if message["method"] in CALL_METHODS:
            return
