"""Tasks that must finish even when their caller stops waiting, and tasks bound to a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

T = TypeVar("T")


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. A caller cancelled meanwhile raises only after that, whatever the result.

    For short, bounded work such as units of work: a caller that left early could not know whether they were committed.
    """
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as cancelled:
            cancellation = cancelled
    if cancellation is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # mark it as retrieved: no caller is left
    raise cancellation


@asynccontextmanager
async def scoped_tasks() -> AsyncGenerator[TaskGroup, None]:
    """A task group whose tasks are cancelled when the block ends.

    A plain task group wraps an error of the block in an exception group; a caller that catches `NotFound` around our
    block must get `NotFound`. Errors of the tasks still arrive as a group.
    """
    raised: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:
            raised = error
        finally:
            tasks.cancel_scope.cancel()
    if raised is not None:
        raise raised
