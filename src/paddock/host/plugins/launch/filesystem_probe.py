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
from paddock.cage.plan.host_filesystem import FileKind, HostFilesystem

T = TypeVar("T")

PROBE_TIMEOUT_S = 10.0
MAX_CONCURRENT_PROBES = 256


class FilesystemProbe:
    """Runs looks beside everything else.

    Args:
        machine: What is looked at.
        within: Seconds that each may take.
        most: How many may be under way, those that hang included. The next is refused at once.
    """

    def __init__(
        self, machine: HostFilesystem, *, within: float = PROBE_TIMEOUT_S, most: int = MAX_CONCURRENT_PROBES
    ) -> None:
        self._machine = machine
        self._within = within
        self._most = most
        self._running: dict[Hashable, _RunningProbe] = {}  # by whom it is for

    async def run(self, whose: Hashable, look: Callable[[HostFilesystem], T]) -> T:
        """What the look finds, once the last one for the same plugin is over.

        Raises:
            CageUnavailable: a place of this plugin does not answer (`cage.place_hangs`), there are too many looks
                for others (`cage.looks_busy`), or whatever the look itself raises.
        """
        await self._wait_for_previous(whose)
        if len(self._running) >= self._most:
            raise CageUnavailable(
                "too many places of other plugins do not answer",
                code="cage.looks_busy",
                hint="look whether the file systems that plugins may read still answer (ls)",
            )
        noting = _PathRecorder(self._machine)
        found = self._start_thread(whose, look, noting)
        try:
            async with asyncio.timeout(self._within):
                return await found
        except TimeoutError:
            raise _path_hangs_error(noting) from None

    async def _wait_for_previous(self, whose: Hashable) -> None:
        """Wait for a look that nobody waits for any more, and not for one that hangs."""
        while last := self._running.get(whose):
            try:
                async with asyncio.timeout_at(last.since + self._within):
                    await last.finished.wait()
            except TimeoutError:
                raise _path_hangs_error(last.recorder) from None

    def _start_thread(
        self, whose: Hashable, look: Callable[[HostFilesystem], T], noting: _PathRecorder
    ) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[T] = loop.create_future()
        self._running[whose] = _RunningProbe(noting, since=loop.time())

        def work() -> None:
            try:
                settle = partial(found.set_result, look(noting))
            except Exception as error:
                settle = partial(found.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody asks any more
                loop.call_soon_threadsafe(self._finish, whose, found, settle)

        try:
            threading.Thread(target=work, name="paddock-look", daemon=True).start()
        except RuntimeError:  # the machine has no thread left
            self._finish(whose, found, found.cancel)
            raise
        return found

    def _finish(self, whose: Hashable, found: asyncio.Future[Any], settle: Callable[[], object]) -> None:
        self._running.pop(whose).finished.set()
        if not found.done():  # whoever waited may have gone
            settle()


def _path_hangs_error(noting: _PathRecorder) -> CageUnavailable:
    return CageUnavailable(
        f"{noting.last_path or 'a place that was granted'} does not answer",
        code="cage.place_hangs",
        hint="look whether its file system still answers (ls), or take the grant back",
    )


@dataclass(frozen=True, slots=True)
class _RunningProbe:
    recorder: _PathRecorder
    since: float
    finished: asyncio.Event = field(default_factory=asyncio.Event)


class _PathRecorder:
    """A machine that remembers which path was looked at last."""

    def __init__(self, machine: HostFilesystem) -> None:
        self._machine = machine
        self.last_path = ""

    def kind(self, path: str) -> FileKind | None:
        self.last_path = path
        return self._machine.kind(path)

    def link(self, path: str) -> str:
        self.last_path = path
        return self._machine.link(path)

    def entries(self, path: str) -> list[str]:
        self.last_path = path
        return self._machine.entries(path)

    def runnable(self, path: str) -> bool:
        self.last_path = path
        return self._machine.runnable(path)

    def read_head(self, path: str) -> bytes:
        self.last_path = path
        return self._machine.read_head(path)
