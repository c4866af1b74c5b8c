"""Runs a worker for as long as a block runs, with the loop of the engine that its database has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from paddock.queue.node import Node
from paddock.queue.row_worker import run_row_worker
from paddock.queue.worker import Worker


@asynccontextmanager
async def open_worker(worker: Worker, node: Node) -> AsyncGenerator[Worker, None]:
    """Run the worker for as long as the block runs."""
    run = run_row_worker
    if worker.database.engine == "postgresql":
        from paddock.queue.engine_worker import run_engine_worker as run  # lazily: it imports procrastinate
    node.subscribe(after_lease_ended=worker.wake)
    task = asyncio.create_task(run(worker), name="do what is due")
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
