"""Clean-ups that could not be made at once, or whose object may be committed late: they are retried."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

from paddock.core.errors import PaddockError, StoreUnavailable

CleanupAction: TypeAlias = Callable[[], Awaitable[None]]

_REPEAT_AFTER_S = (2.0, 15.0, 60.0)


class _PendingCleanup(NamedTuple):
    run: CleanupAction
    not_before: float


class DeferredCleanups:
    """Retries clean-ups that the store could not take, or whose commit is unknown.

    Args:
        repeat_after_s: Seconds after which a clean-up is repeated whose object may be committed late.
    """

    def __init__(self, repeat_after_s: Sequence[float] = _REPEAT_AFTER_S) -> None:
        self._repeat_after_s = repeat_after_s
        self._pending: list[_PendingCleanup] = []

    async def run(self, cleanup: CleanupAction) -> None:
        """Run a clean-up, or defer it where the store is unavailable. An object that is gone already is no error."""
        try:
            await cleanup()
        except StoreUnavailable:
            self._pending.append(_PendingCleanup(cleanup, 0.0))
        except PaddockError:
            pass

    async def run_repeatedly(self, cleanup: CleanupAction) -> None:
        """Run a clean-up now and a few times more: the commit of its object is unknown and may still happen."""
        await self.run(cleanup)
        now = asyncio.get_running_loop().time()
        self._pending += [_PendingCleanup(cleanup, now + delay) for delay in self._repeat_after_s]

    async def retry_due(self) -> None:
        """Run the clean-ups that are due.

        Raises:
            StoreUnavailable: the store still cannot take them.
        """
        now = asyncio.get_running_loop().time()
        for due in [one for one in self._pending if one.not_before <= now]:
            try:
                await due.run()
            except StoreUnavailable:
                raise
            except PaddockError:
                pass  # it is not there, or over
            self._pending.remove(due)
