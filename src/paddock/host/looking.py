"""Looking at the machine's files where a look may never return: on threads of its own, each with a deadline.

A dead network mount holds whoever asks about it, and nothing can be done about that but to ask elsewhere and to wait no
longer. A thread that hangs is left alone: it ends when the mount answers or is taken away, and keeps nobody from going.

Each plugin has one look at a time. So one whose places hang leaves one thread behind, and not one for each try, and
those that have nothing to do with that mount do not notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from paddock.cage.launcher import CageUnavailable
from paddock.cage.plan.machine import Kind, Machine

T = TypeVar("T")

LONGEST_LOOK = 10.0
MOST_AT_ONCE = 256


class Looks:
    """Runs looks beside everything else.

    Args:
        machine: What is looked at.
        within: Seconds that each may take.
        most: How many may be under way, those that hang included. The next is refused at once.
    """

    def __init__(self, machine: Machine, *, within: float = LONGEST_LOOK, most: int = MOST_AT_ONCE) -> None:
        self._machine = machine
        self._within = within
        self._most = most
        self._under_way: dict[Hashable, _UnderWay] = {}  # by whom it is for

    async def run(self, whose: Hashable, look: Callable[[Machine], T]) -> T:
        """What the look finds, once the last one for the same plugin is over.

        Raises:
            CageUnavailable: a place of this plugin does not answer (`cage.place_hangs`), there are too many looks
                for others (`cage.looks_busy`), or whatever the look itself raises.
        """
        await self._last_is_over(whose)
        if len(self._under_way) >= self._most:
            raise CageUnavailable(
                "too many places of other plugins do not answer",
                code="cage.looks_busy",
                hint="look whether the file systems that plugins may read still answer (ls)",
            )
        noting = _Noting(self._machine)
        found = self._begin(whose, look, noting)
        try:
            async with asyncio.timeout(self._within):
                return await found
        except TimeoutError:
            raise _place_hangs(noting) from None

    async def _last_is_over(self, whose: Hashable) -> None:
        """Wait for a look that nobody waits for any more, and not for one that hangs."""
        while last := self._under_way.get(whose):
            try:
                async with asyncio.timeout_at(last.since + self._within):
                    await last.over.wait()
            except TimeoutError:
                raise _place_hangs(last.noting) from None

    def _begin(self, whose: Hashable, look: Callable[[Machine], T], noting: _Noting) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[T] = loop.create_future()
        self._under_way[whose] = _UnderWay(noting, since=loop.time())

        def work() -> None:
            try:
                settle = partial(found.set_result, look(noting))
            except Exception as error:
                settle = partial(found.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody asks any more
                loop.call_soon_threadsafe(self._over, whose, found, settle)

        try:
            threading.Thread(target=work, name="paddock-look", daemon=True).start()
        except RuntimeError:  # the machine has no thread left
            self._over(whose, found, found.cancel)
            raise
        return found

    def _over(self, whose: Hashable, found: asyncio.Future[Any], settle: Callable[[], object]) -> None:
        self._under_way.pop(whose).over.set()
        if not found.done():  # whoever waited may have gone
            settle()


def _place_hangs(noting: _Noting) -> CageUnavailable:
    return CageUnavailable(
        f"{noting.at or 'a place that was granted'} does not answer",
        code="cage.place_hangs",
        hint="look whether its file system still answers (ls), or take the grant back",
    )


@dataclass(frozen=True, slots=True)
class _UnderWay:
    noting: _Noting
    since: float
    over: asyncio.Event = field(default_factory=asyncio.Event)


class _Noting:
    """A machine that remembers which path was looked at last."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.at = ""

    def kind(self, path: str) -> Kind | None:
        self.at = path
        return self._machine.kind(path)

    def link(self, path: str) -> str:
        self.at = path
        return self._machine.link(path)

    def entries(self, path: str) -> list[str]:
        self.at = path
        return self._machine.entries(path)

    def runnable(self, path: str) -> bool:
        self.at = path
        return self._machine.runnable(path)

    def opening(self, path: str) -> bytes:
        self.at = path
        return self._machine.opening(path)
