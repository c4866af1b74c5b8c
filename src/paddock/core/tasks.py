"""Work that must finish even when its caller stops waiting, and tasks bound to a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

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


class DeferredCancellation:
    """A block at whose end a cancellation is raised that arrived while work of the block had to be finished.

    Given to waits that end only with their work, such as `Database.write`. It costs no task, as `run_to_completion`
    does.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: asyncio.CancelledError | None = None

    def hold(self, cancellation: asyncio.CancelledError) -> None:
        """Hold a cancellation back until the block ends."""
        self._held = cancellation

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._held is not None:
            raise self._held


async def take_slot(slots: asyncio.Semaphore, deferral: DeferredCancellation | None) -> None:
    """Take a slot; with `deferral`, also for a caller who is cancelled while none is free."""
    if deferral is None or not slots.locked():
        await slots.acquire()
        return
    taking = asyncio.ensure_future(slots.acquire())
    while not taking.done():
        try:
            await asyncio.wait({taking})
        except asyncio.CancelledError as cancellation:
            deferral.hold(cancellation)


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
