"""Work that has to come to its end, whoever stops waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

T = TypeVar("T")


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """What comes of this. Whoever is cancelled while it goes on is so once it has ended, whatever came of it.

    For what is short and bounded: units of work, of which nobody who left early could say whether they were committed.
    """
    task = asyncio.ensure_future(work)
    gone: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as cancelled:
            gone = cancelled
    if gone is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # nobody is there to hear of it
    raise gone


@asynccontextmanager
async def scoped_tasks() -> AsyncGenerator[TaskGroup, None]:
    """A task group whose tasks are cancelled when the block ends.

    A plain task group dresses an error of the block as a group of errors; a caller that catches `NotFound` around our
    block must get `NotFound`. What the tasks raise still arrives as a group.
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
