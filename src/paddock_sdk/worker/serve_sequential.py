"""One call after the other, in the order in which they came, until one needs an event loop: then all share it."""

from __future__ import annotations

from contextlib import suppress

from paddock_sdk.coroutine_runner import run_until_loop
from paddock_sdk.faults import HostGone
from paddock_sdk.wire import Wire
from paddock_sdk.worker.worker import Worker


def serve_sequential(worker: Worker, wire: Wire) -> None:
    """Serve until the host says shutdown or closes the pipe."""
    with suppress(HostGone):
        while (message := wire.inbox.next())["method"] != "shutdown":
            call = worker.accept(wire, message)
            serving = worker.serve(wire, message, call)
            if not run_until_loop(serving):
                from paddock_sdk.worker.serve_async import serve_async  # late: only who needs a loop loads one

                serve_async(worker, wire, message, call, serving)
                return
