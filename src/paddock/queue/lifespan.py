"""Runs a worker for as long as a block runs, with the loop of the engine that its database has."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from paddock.queue import worker as workers
from paddock.queue.node import Node
from paddock.queue.row_worker import run_row_worker
from paddock.queue.worker import Worker

_log = logging.getLogger("paddock.queue")


@asynccontextmanager
async def open_worker(worker: Worker, node: Node) -> AsyncGenerator[Worker, None]:
    """Run the worker for as long as the block runs."""
    run = run_row_worker
    if worker.database.engine == "postgresql":
        from paddock.queue.engine_worker import run_engine_worker as run  # lazily: it imports procrastinate
    node.subscribe(after_lease_ended=worker.wake)
    task = asyncio.create_task(_run_forever(run, worker), name="do what is due")
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _run_forever(run: Callable[[Worker], Awaitable[None]], worker: Worker) -> None:
    while True:
        try:
            await run(worker)
            _log.error("the worker ended; it starts again")
        except Exception:  # whatever it was, jobs must not wait until the daemon is restarted
            _log.exception("the worker failed; it starts again")
        await asyncio.sleep(workers.POLL_INTERVAL_S)
