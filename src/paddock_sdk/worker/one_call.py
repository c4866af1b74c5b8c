"""The life of a copy: secluded, the plugin loaded, one call served, and its end.

It speaks the ordinary wire with the worker instead of the host, and says `worker.ready` once it is loaded. A question
what the plugin offers is no call: after it the copy still waits for its one.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

from paddock_sdk.faults import HostGone
from paddock_sdk.framing import LIMIT, Lines
from paddock_sdk.log import Log
from paddock_sdk.running import begin
from paddock_sdk.wire import Wire
from paddock_sdk.worker.entries import load_worker
from paddock_sdk.worker.nursery import Ends, keep_only
from paddock_sdk.worker.orders import Orders
from paddock_sdk.worker.seclusion import CannotSeclude, seclude
from paddock_sdk.worker.worker import CALLS, NAMESPACE, Worker

READY = "worker.ready"
# A line is written in ASCII here, whatever the host wrote it in.
_LONGEST = 4 * LIMIT


def live(orders: Orders, log: Log, ends: Ends) -> NoReturn:
    """Serve one call and end, without running anything that was planned for the worker's own end."""
    status = 1
    try:
        lines = _settle(ends)
        seclude()
        worker = load_worker(orders, log)
        worker.greeted()
        _serve(worker, Wire(lines, log, NAMESPACE))
        status = 0
    except CannotSeclude as error:
        print(f"no agent can run on this machine: {error}", file=sys.stderr)
    except HostGone:
        pass
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _settle(ends: Ends) -> Lines:
    """Have nothing open that another process has too."""
    os.dup2(ends.log, 1)
    os.dup2(ends.log, 2)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    keep_only({0, 1, 2, ends.source, ends.sink})
    return Lines(ends.source, ends.sink, longest=_LONGEST)


def _serve(worker: Worker, wire: Wire) -> None:
    wire.inbox.open = True
    wire.tell(READY, {})
    while True:
        message = wire.inbox.next()
        call = worker.accept(wire, message)
        serving = worker.serve(wire, message, call)
        if not begin(serving):
            from paddock_sdk.worker.at_once import finish  # late: only who needs a loop loads one

            finish(wire, message, call, serving)
        if message["method"] in CALLS:
            return
