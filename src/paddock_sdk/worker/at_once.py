"""Many calls at once on an event loop: for plugins that use asyncio themselves."""

from __future__ import annotations

import asyncio

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import Cancelled, HostGone
from paddock_sdk.running import run
from paddock_sdk.wire import Wire
from paddock_sdk.worker.worker import CALLS, Worker


def serve_at_once(worker: Worker, wire: Wire) -> None:
    """Serve until the host says shutdown or closes the pipe; what was asked before is still answered."""
    asyncio.run(_AtOnce(worker, wire).serve())


def serve_one(worker: Worker, wire: Wire, message: JsonObject) -> None:
    """Serve a single call, and end."""
    asyncio.run(_AtOnce(worker, wire).serve_one(message))


class _AtOnce:
    def __init__(self, worker: Worker, wire: Wire) -> None:
        self._worker = worker
        self._wire = wire
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()

    async def serve(self) -> None:
        loop = self._wire.loop = asyncio.get_running_loop()
        # Also told when a call read from the pipe itself, waiting in code that is not async.
        self._wire.inbox.on_waiting = lambda: loop.call_soon(self._start_waiting)
        loop.add_reader(self._wire.lines.source, self._read)
        await self._over.wait()
        loop.remove_reader(self._wire.lines.source)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def serve_one(self, message: JsonObject) -> None:
        loop = self._wire.loop = asyncio.get_running_loop()
        loop.add_reader(self._wire.lines.source, self._wire.inbox.read)
        await self._worker.serve(self._wire, message, self._worker.accept(self._wire, message))

    def _read(self) -> None:
        try:
            self._wire.inbox.read()
        except HostGone:
            self._start_waiting()
            self._over.set()
            asyncio.get_running_loop().remove_reader(self._wire.lines.source)

    def _start_waiting(self) -> None:
        waiting = self._wire.inbox.waiting
        while waiting and not self._over.is_set():
            message = waiting.popleft()
            if message["method"] == "shutdown":
                self._over.set()
                return
            self._start(message)

    def _start(self, message: JsonObject) -> None:
        call = self._worker.accept(self._wire, message)
        serving = self._worker.serve(self._wire, message, call)
        if message["method"] not in CALLS and message["method"] != "worker.describe":
            # The host's own requests are answered in their order; nothing in them waits.
            run(serving)
            return
        task = asyncio.get_running_loop().create_task(serving)
        call.on_cancel = task.cancel
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, message))

    def _ended(self, task: asyncio.Task[None], message: JsonObject) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._wire.inbox.calls.pop(message["id"], None)
            self._wire.fail(message, Cancelled())
        elif task.exception() is not None:
            self._over.set()  # the host is gone: every other exception was answered
