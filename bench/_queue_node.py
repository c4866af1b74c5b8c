"""A node that runs jobs until its input ends: one of ours, or of procrastinate as it comes.

Its jobs do nothing. One whose name begins with "wait" waits as one does that asks a plugin, and for one that begins
with "ping" it prints when it ran.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from pathlib import Path

import procrastinate

SLOTS = 16
KIND = "bench"
WAIT_S = 0.02


async def bare(address: str) -> None:
    logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=address, max_size=SLOTS))

    @app.task(name=KIND)
    async def run(key: str) -> None:
        await _run(key)

    async with app.open_async():
        worker = app.run_worker_async(
            concurrency=SLOTS, delete_jobs="always", install_signal_handlers=False, shutdown_graceful_timeout=1
        )
        task = asyncio.create_task(worker)
        await _until_input_ends()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ours(address: str, state: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
    from paddock.core.clock import SystemClock, SystemRandom
    from paddock.queue.job import Job
    from paddock.queue.lifespan import open_worker
    from paddock.queue.node import open_node
    from paddock.queue.worker import JobType, Worker
    from paddock.store.database import open_database

    async def run(job: Job) -> None:
        await _run(job.key)

    def publish_in(*_: object) -> object:
        raise AssertionError("no job is given up")

    clock, random = SystemClock(), SystemRandom()
    async with (
        open_database(address) as database,
        open_node(database, clock, random, state=state, daemon=True) as node,
    ):
        worker = Worker(database, node, clock, random, {KIND: JobType(run)}, publish_in, max_jobs=SLOTS)  # type: ignore[arg-type]
        async with open_worker(worker, node):
            await node.current_run()
            await _until_input_ends()


async def _run(key: str) -> None:
    if key.startswith("wait"):
        await asyncio.sleep(WAIT_S)
    if key.startswith("ping"):
        print(time.monotonic(), flush=True)


async def _until_input_ends() -> None:
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    way, where, folder = sys.argv[1:]
    Path(folder).mkdir()
    asyncio.run(bare(where) if way == "bare" else ours(where, Path(folder)))
