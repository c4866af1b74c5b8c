"""Probes the machine's file system on separate threads, each with a deadline, because a probe may never return.

A dead network mount blocks the thread that asks about it. All one can do is to ask on another thread and stop waiting.
A thread that hangs is left alone: it ends when the mount answers or is unmounted, and does not keep the process alive.

Each plugin has one probe at a time. So a plugin whose paths hang leaves one thread behind, not one for each try, and
plugins that do not use that mount are not affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct, field

from paddock.cage.errors import CageUnavailable
from paddock.cage.plan.host_filesystem import FileKind, HostFilesystem

T = TypeVar("T")

PROBE_TIMEOUT_S = 10.0
MAX_CONCURRENT_PROBES = 256


class FilesystemProbe:
    """Runs file system probes on threads of their own.

    Args:
        filesystem: The file system to probe.
        timeout_s: Deadline of each probe in seconds.
        max_concurrent: Maximum number of running probes, hanging ones included. The next is rejected at once.
    """

    def __init__(
        self,
        filesystem: HostFilesystem,
        *,
        timeout_s: float = PROBE_TIMEOUT_S,
        max_concurrent: int = MAX_CONCURRENT_PROBES,
    ) -> None:
        self._filesystem = filesystem
        self._timeout_s = timeout_s
        self._max_concurrent = max_concurrent
        self._running: dict[Hashable, _RunningProbe] = {}  # by owner: the plugin instance

    async def run(self, owner: Hashable, probe: Callable[[HostFilesystem], T]) -> T:
        """Run a probe, once the previous one for the same owner is over.

        Raises:
            CageUnavailable: a path of this plugin does not answer (`cage.place_hangs`), too many probes of others
                run (`cage.looks_busy`), or whatever the probe itself raises.
        """
        await self._wait_for_previous(owner)
        if len(self._running) >= self._max_concurrent:
            raise CageUnavailable(
                "too many places of other plugins do not answer",
                code="cage.looks_busy",
                hint="look whether the file systems that plugins may read still answer (ls)",
            )
        recorder = _PathRecorder(self._filesystem)
        result = self._start_thread(owner, probe, recorder)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await result
        except TimeoutError:
            raise _path_hangs_error(recorder) from None

    async def _wait_for_previous(self, owner: Hashable) -> None:
        """Wait for an abandoned probe of the same owner, but not for one that hangs."""
        while previous := self._running.get(owner):
            try:
                async with asyncio.timeout_at(previous.since + self._timeout_s):
                    await previous.finished.wait()
            except TimeoutError:
                raise _path_hangs_error(previous.recorder) from None

    def _start_thread(
        self, owner: Hashable, probe: Callable[[HostFilesystem], T], recorder: _PathRecorder
    ) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        self._running[owner] = _RunningProbe(recorder, since=loop.time())

        def run() -> None:
            try:
                settle = partial(result.set_result, probe(recorder))
            except Exception as error:
                settle = partial(result.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the result
                loop.call_soon_threadsafe(self._finish, owner, result, settle)

        try:
            threading.Thread(target=run, name="paddock-look", daemon=True).start()
        except RuntimeError:  # the system cannot start another thread
            self._finish(owner, result, result.cancel)
            raise
        return result

    def _finish(self, owner: Hashable, result: asyncio.Future[Any], settle: Callable[[], object]) -> None:
        self._running.pop(owner).finished.set()
        if not result.done():  # the waiter may have been cancelled
            settle()


def _path_hangs_error(recorder: _PathRecorder) -> CageUnavailable:
    return CageUnavailable(
        f"{recorder.last_path or 'a place that was granted'} does not answer",
        code="cage.place_hangs",
        hint="look whether its file system still answers (ls), or take the grant back",
    )


class _RunningProbe(Struct, frozen=True):
    recorder: _PathRecorder
    since: float
    finished: asyncio.Event = field(default_factory=asyncio.Event)


class _PathRecorder:
    """A file system that records which path was accessed last."""

    def __init__(self, filesystem: HostFilesystem) -> None:
        self._filesystem = filesystem
        self.last_path = ""

    def kind(self, path: str) -> FileKind | None:
        self.last_path = path
        return self._filesystem.kind(path)

    def link(self, path: str) -> str:
        self.last_path = path
        return self._filesystem.link(path)

    def entries(self, path: str) -> list[str]:
        self.last_path = path
        return self._filesystem.entries(path)

    def runnable(self, path: str) -> bool:
        self.last_path = path
        return self._filesystem.runnable(path)

    def read_head(self, path: str) -> bytes:
        self.last_path = path
        return self._filesystem.read_head(path)
