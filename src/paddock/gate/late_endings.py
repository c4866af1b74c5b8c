"""What has to be ended and could not be at its time, or of which nobody knows whether it has begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

from paddock.core.errors import PaddockError, StoreUnavailable

Ending: TypeAlias = Callable[[], Awaitable[None]]

_LOOKS = (2.0, 15.0, 60.0)


class _Late(NamedTuple):
    ending: Ending
    not_before: float


class LateEndings:
    """Ends things, now or as soon as the store takes it.

    Args:
        looks: When to look again for what may be written although nobody heard of it, in seconds.
    """

    def __init__(self, looks: Sequence[float] = _LOOKS) -> None:
        self._looks = looks
        self._left: list[_Late] = []

    async def end(self, ending: Ending) -> None:
        """End something, unless it is not there, or over; later where the store cannot take it now."""
        try:
            await ending()
        except StoreUnavailable:
            self._left.append(_Late(ending, 0.0))
        except PaddockError:
            pass

    async def end_unsure(self, ending: Ending) -> None:
        """End something that may not be there yet, since nobody heard of its commit: now, and a few times more."""
        await self.end(ending)
        now = asyncio.get_running_loop().time()
        self._left += [_Late(ending, now + pause) for pause in self._looks]

    async def again(self) -> None:
        """End what is due by now.

        Raises:
            StoreUnavailable: the store cannot take it now either.
        """
        now = asyncio.get_running_loop().time()
        for late in [one for one in self._left if one.not_before <= now]:
            try:
                await late.ending()
            except StoreUnavailable:
                raise
            except PaddockError:
                pass  # it is not there, or over
            self._left.remove(late)
