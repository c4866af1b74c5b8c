"""The event loop of a plugin that serves one call at a time: its async handlers may await anything.

It is created for the first call that needs one, and kept for the next ones, so that connections stay usable between
calls. While a call waits, the loop reads the host's messages: responses, pings and the cancellation of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from paddock_sdk.call import ActiveCall
from paddock_sdk.faults import Cancelled, HostGone
from paddock_sdk.wire import Wire

T = TypeVar("T")


class CallLoop:
    """Runs the coroutines of calls, one call after the other."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def finish(self, wire: Wire, call: ActiveCall, work: Coroutine[Any, Any, T]) -> T:
        """Run the rest of a call and return its result.

        Raises:
            Cancelled: the call was cancelled, and the handler did not finish regardless.
            HostGone: the host closed the pipe.
        """
        asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(self._finish(wire, call, work))

    def close(self) -> None:
        """End what handlers left running."""
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _finish(self, wire: Wire, call: ActiveCall, work: Coroutine[Any, Any, T]) -> T:
        task = self._loop.create_task(work)
        call.on_cancel = task.cancel
        host_gone = False

        def read() -> None:
            nonlocal host_gone
            try:
                wire.inbox.read()
            except HostGone:
                host_gone = True
                self._loop.remove_reader(wire.lines.source)
                task.cancel()

        has_pipe = wire.lines.source >= 0  # an in-memory host answers before it is waited for
        if has_pipe:
            wire.loop = self._loop
            self._loop.add_reader(wire.lines.source, read)
        try:
            await asyncio.wait({task})
        finally:
            if has_pipe:
                self._loop.remove_reader(wire.lines.source)
            wire.loop = None
        if task.cancelled():
            raise HostGone if host_gone else Cancelled
        return task.result()
