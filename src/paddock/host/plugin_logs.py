"""What plugins write to their standard error: shown to whoever follows it, and kept by a thread of its own.

Nobody but that thread ever waits for the disk: not the plugins, not the calls to them. Each plugin's lines go by their
`log_files.log_name`, which is `name` here: tenants do not see each other's.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio

from paddock.core.clock import Clock
from paddock.core.errors import HostError
from paddock.core.printable import printable
from paddock.host.followers import Followers, Following
from paddock.host.log_files import LogFiles, last_lines

T = TypeVar("T")

ROOM: Final = 256 * 1024
"""How many bytes of one plugin may wait for the disk; lines beyond are lost, and how many is written in their place."""

FOLLOWER_LINES = 1_000
_LONGEST_ESCAPE = 10  # characters that one may become
ANSWER_WITHIN = 10.0
CLOSE_WITHIN = 5.0


@dataclass(slots=True)
class _Waiting:
    """The lines of one plugin that are not written yet, and how many came after them and found no room."""

    lines: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    lost: int = 0


class PluginLogs:
    """Keeps and shows lines. A disk that is full, slow or dead costs lines, never the daemon.

    Made by `open_plugin_logs`.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._files = LogFiles(directory)
        self._followers: Followers[dict[str, Any]] = Followers(FOLLOWER_LINES)
        self._asked = threading.Condition()  # guards the three below
        self._waiting: dict[str, _Waiting] = {}
        self._jobs: list[partial[None]] = []
        self._closing = False
        self._unwritten: Counter[str] = Counter()  # the thread's own: what the disk did not take

    def write(self, name: str, line: str) -> None:
        """Keep one line, and show it to its followers. Does not wait. What would steer a terminal is written out."""
        entry = {"at": self._clock.now().isoformat(), "line": printable(line, _LONGEST_ESCAPE * len(line))}
        self._followers.tell(name, entry)
        data = _encoded(entry)
        with self._asked:
            if self._closing:
                return
            waiting = self._waiting.setdefault(name, _Waiting())
            # Whoever lost a line loses those after it until the thread comes by: what is kept stays in order.
            if waiting.lost or waiting.size + len(data) > ROOM:
                waiting.lost += 1
                return
            waiting.lines.append(data)
            waiting.size += len(data)
            self._asked.notify()

    def follow(self, name: str) -> Following[dict[str, Any]]:
        """The lines that are written from now on."""
        return self._followers.follow(name)

    async def last(self, name: str, count: int) -> list[dict[str, Any]]:
        """The last lines that were kept, oldest first, with everything that was written before this was asked.

        Raises:
            HostError: the disk does not answer.
        """
        return await self._done(partial(last_lines, self._directory, name, count), "give", name)

    async def forget(self, plugin: str) -> None:
        """Remove everything that was kept of a plugin, for all tenants. It does not run any more.

        Raises:
            HostError: the disk does not answer.
            OSError: it does not let us.
        """
        await self._done(partial(self._files.forget, plugin), "remove", plugin)

    async def _done(self, work: Callable[[], T], word: str, plugin: str) -> T:
        """Have the thread do something once everything that was written before is in the files."""
        done: Future[T] = Future()
        with self._asked:
            self._jobs.append(partial(_settle, done, work))
            self._asked.notify()
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                return await asyncio.wrap_future(done)
        except TimeoutError:
            raise HostError(
                f"the disk did not {word} the log of {plugin} within {ANSWER_WITHIN:g} s",
                code="logs.disk_hangs",
                hint=f"look whether it still answers: ls {self._directory}",
            ) from None

    # --- on the thread ------------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Write and read until closed; what was asked before that is done first."""
        closing = False
        while not closing:
            with self._asked:
                self._asked.wait_for(lambda: self._waiting or self._jobs or self._closing)
                waiting, self._waiting = self._waiting, {}
                jobs, self._jobs = self._jobs, []
                closing = self._closing
            for name, lines in waiting.items():
                self._keep(name, lines)
            for job in jobs:
                job()
        self._files.close()

    def close(self) -> None:
        """Let the thread finish what it was asked, and end."""
        with self._asked:
            self._closing = True
            self._asked.notify()

    def _keep(self, name: str, waiting: _Waiting) -> None:
        before, after = self._unwritten.pop(name, 0), waiting.lost
        # What failed may have left half a line behind, and ours must not become the rest of it.
        cut = [b"\n"] if before else []
        lines = [*cut, *self._loss(before), *waiting.lines, *self._loss(after)]
        try:
            self._files.append(name, b"".join(lines))
        except OSError:
            self._unwritten[name] = before + len(waiting.lines) + after  # told once the disk takes lines again

    def _loss(self, count: int) -> list[bytes]:
        if not count:
            return []
        words = "1 line" if count == 1 else f"{count} lines"
        told = f"[paddock] {words} lost here: the disk did not take them in time"
        return [_encoded({"at": self._clock.now().isoformat(), "line": told})]


def _settle(done: Future[T], work: Callable[[], T]) -> None:
    if not done.set_running_or_notify_cancel():
        return  # nobody waits any more
    try:
        done.set_result(work())
    except Exception as error:
        done.set_exception(error)  # whoever asked has it; the thread goes on


def _encoded(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


@asynccontextmanager
async def open_plugin_logs(
    directory: Path, clock: Clock, *, close_within: float = CLOSE_WITHIN
) -> AsyncGenerator[PluginLogs, None]:
    """The logs for as long as the block runs; afterwards everything is written that the disk took in time."""
    logs = PluginLogs(directory, clock)
    # A daemon thread: one that hangs in a dead disk must not keep the process from ending.
    thread = threading.Thread(target=logs.work, name="paddock-logs", daemon=True)
    thread.start()
    try:
        yield logs
    finally:
        logs.close()
        with anyio.CancelScope(shield=True):
            await asyncio.to_thread(thread.join, close_within)
