"""Serves many calls concurrently on an event loop: for plugins whose code is async."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from paddock_sdk.call import ActiveCall, JsonObject
from paddock_sdk.coroutine_runner import run
from paddock_sdk.faults import Cancelled, HostGone
from paddock_sdk.wire import Wire
from paddock_sdk.worker.worker import CALL_METHODS, DESCRIBE_METHOD, Worker


def serve_async(
    worker: Worker, wire: Wire, message: JsonObject, call: ActiveCall, work: Coroutine[Any, Any, None]
) -> None:
    """Serve until the host sends shutdown or closes the pipe; earlier requests are still answered.

    Args:
        worker: The plugin.
        wire: The connection to the host.
        message: The call that requested a loop.
        call: The same call as it is in progress.
        work: The coroutine that handles it, to be continued.
    """
    asyncio.run(_AsyncServer(worker, wire).serve(message, call, work))


def finish_call(wire: Wire, message: JsonObject, call: ActiveCall, work: Coroutine[Any, Any, None]) -> None:
    """Continue a single call to its end, or until it is cancelled."""
    asyncio.run(_finish_call(wire, message, call, work))


async def _finish_call(wire: Wire, message: JsonObject, call: ActiveCall, work: Coroutine[Any, Any, None]) -> None:
    loop = wire.loop = asyncio.get_running_loop()
    loop.add_reader(wire.lines.source, wire.inbox.read)
    task = loop.create_task(work)
    call.on_cancel = task.cancel
    try:
        await asyncio.wait({task})
    finally:
        wire.loop = None
    if task.cancelled():
        wire.fail(message, Cancelled())
    else:
        task.result()


class _AsyncServer:
    def __init__(self, worker: Worker, wire: Wire) -> None:
        self._worker = worker
        self._wire = wire
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()

    async def serve(self, message: JsonObject, call: ActiveCall, work: Coroutine[Any, Any, None]) -> None:
        loop = self._wire.loop = asyncio.get_running_loop()
        # Also called when a handler read from the pipe itself, while it blocked in synchronous code.
        self._wire.inbox.on_waiting = lambda: loop.call_soon(self._start_waiting)
        loop.add_reader(self._wire.lines.source, self._read)
        self._run_task(message, call, work)
        self._start_waiting()
        await self._stopped.wait()
        loop.remove_reader(self._wire.lines.source)
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _read(self) -> None:
        try:
            self._wire.inbox.read()
        except HostGone:
            self._start_waiting()
            self._stopped.set()
            asyncio.get_running_loop().remove_reader(self._wire.lines.source)

    def _start_waiting(self) -> None:
        waiting = self._wire.inbox.waiting
        while waiting and not self._stopped.is_set():
            message = waiting.popleft()
            if message["method"] == "shutdown":
                self._stopped.set()
                return
            self._start(message)

    def _start(self, message: JsonObject) -> None:
        call = self._worker.accept(self._wire, message)
        work = self._worker.serve(self._wire, message, call)
        if message["method"] not in CALL_METHODS and message["method"] != DESCRIBE_METHOD:
            # Lifecycle requests are answered in order; they never wait.
            run(work)
        else:
            self._run_task(message, call, work)

    def _run_task(self, message: JsonObject, call: ActiveCall, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        call.on_cancel = task.cancel
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, message))

    def _ended(self, task: asyncio.Task[None], message: JsonObject) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._wire.inbox.calls.pop(message["id"], None)
            self._wire.fail(message, Cancelled())
        elif task.exception() is not None:
            self._stopped.set()  # the host is gone: all other exceptions were answered
