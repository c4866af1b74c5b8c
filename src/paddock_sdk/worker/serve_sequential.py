"""Serves one call after the other, until one needs an event loop: then all calls share the loop."""

from __future__ import annotations

from contextlib import suppress

from paddock_sdk.coroutine_runner import run_until_loop
from paddock_sdk.faults import HostGone
from paddock_sdk.wire import Wire
from paddock_sdk.worker.worker import Worker


def serve_sequential(worker: Worker, wire: Wire) -> None:
    """Serve until the host sends shutdown or closes the pipe."""
    with suppress(HostGone):
        while (message := wire.inbox.next())["method"] != "shutdown":
            call = worker.accept(wire, message)
            work = worker.serve(wire, message, call)
            if not run_until_loop(work):
                from paddock_sdk.worker.serve_async import (
                    serve_async,
                )  # late: only plugins that need a loop load asyncio

                serve_async(worker, wire, message, call, work)
                return
