"""One call after the other, in the order in which they came: for plugins that need no event loop."""

from __future__ import annotations

from contextlib import suppress

from paddock_sdk.faults import HostGone
from paddock_sdk.running import run
from paddock_sdk.wire import Wire
from paddock_sdk.worker.worker import Worker


def serve_in_turn(worker: Worker, wire: Wire) -> None:
    """Serve until the host says shutdown or closes the pipe."""
    with suppress(HostGone):
        while (message := wire.inbox.next())["method"] != "shutdown":
            run(worker.serve(wire, message, worker.accept(wire, message)))
