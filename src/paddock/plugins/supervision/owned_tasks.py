"""Tasks that live as long as a block, without changing what the block itself raises."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def owned_tasks() -> AsyncGenerator[TaskGroup, None]:
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
