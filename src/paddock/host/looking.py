"""Looking at the machine's files where a look may never return: on threads of its own, each with a deadline.

A dead network mount holds whoever asks about it, and nothing can be done about that but to ask elsewhere and to wait no
longer. A thread that hangs is left alone: it ends when the mount answers or is taken away, and keeps nobody from going.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from paddock.cage.launcher import CageUnavailable
from paddock.cage.plan.machine import Kind, Machine

T = TypeVar("T")

LONGEST_LOOK = 10.0
MOST_AT_ONCE = 8


class Looks:
    """Runs looks beside everything else, a few at a time.

    Args:
        machine: What is looked at.
        within: Seconds that each may take.
        most: How many may be under way. When so many hang, the next is refused at once.
    """

    def __init__(self, machine: Machine, *, within: float = LONGEST_LOOK, most: int = MOST_AT_ONCE) -> None:
        self._machine = machine
        self._within = within
        self._most = most
        self._free = asyncio.Semaphore(most)
        self._under_way: dict[_Noting, float] = {}  # since when

    async def run(self, look: Callable[[Machine], T]) -> T:
        """What the look finds.

        Raises:
            CageUnavailable: a place does not answer (`cage.place_hangs`), or whatever the look itself raises.
        """
        loop = asyncio.get_running_loop()
        if len(self._hanging(loop.time())) >= self._most:
            raise self._place_hangs("")
        noting = _Noting(self._machine)
        try:
            async with asyncio.timeout(self._within):
                await self._free.acquire()
                return await self._begin(look, noting, loop)
        except TimeoutError:
            raise self._place_hangs(noting.at) from None

    def _begin(
        self, look: Callable[[Machine], T], noting: _Noting, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[T]:
        found: asyncio.Future[T] = loop.create_future()
        self._under_way[noting] = loop.time()

        def work() -> None:
            try:
                settle = partial(found.set_result, look(noting))
            except Exception as error:
                settle = partial(found.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody asks any more
                loop.call_soon_threadsafe(self._over, noting, found, settle)

        try:
            threading.Thread(target=work, name="paddock-look", daemon=True).start()
        except RuntimeError:  # the machine has no thread left
            self._over(noting, found, found.cancel)
            raise
        return found

    def _over(self, noting: _Noting, found: asyncio.Future[Any], settle: Callable[[], object]) -> None:
        del self._under_way[noting]
        self._free.release()
        if not found.done():  # whoever waited may have gone
            settle()

    def _hanging(self, now: float) -> list[_Noting]:
        return [noting for noting, since in self._under_way.items() if now - since >= self._within]

    def _place_hangs(self, place: str) -> CageUnavailable:
        hanging = {noting.at for noting in self._under_way}
        places = place or ", ".join(sorted(hanging)[:3]) or "a place that was granted"
        return CageUnavailable(
            f"{places} {'do' if not place and len(hanging) > 1 else 'does'} not answer",
            code="cage.place_hangs",
            hint="look whether its file system still answers (ls), or take the grant back",
        )


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
