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
from paddock.core.events.capabilities import PluginCapabilityDenied, PluginDenialFlood, PluginNetDenied
from paddock.core.events.event import Event, EventSink
from paddock.core.events.plugin_runtime import PluginStorageDenied
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.printable import printable
from paddock.host.plugins.logs.log_files import LogFiles, log_name, read_last_lines
from paddock.host.plugins.pubsub import PubSub, Subscription

T = TypeVar("T")

MAX_QUEUED_BYTES: Final = 256 * 1024
"""How many bytes of one plugin may wait for the disk; lines beyond are lost, and how many is written in their place."""

MAX_FOLLOWER_LINES = 1_000
_MAX_ESCAPE_CHARS = 10  # characters that one may become
DISK_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 5.0


@dataclass(slots=True)
class _PendingLines:
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
        self._followers: PubSub[dict[str, Any]] = PubSub(MAX_FOLLOWER_LINES)
        self._condition = threading.Condition()  # guards the three below
        self._pending: dict[str, _PendingLines] = {}
        self._jobs: list[partial[None]] = []
        self._closing = False
        self._lost_lines: Counter[str] = Counter()  # the thread's own: what the disk did not take

    def write(self, name: str, line: str) -> None:
        """Keep one line, and show it to its followers. Does not wait. What would steer a terminal is written out."""
        entry = {"at": self._clock.now().isoformat(), "line": printable(line, _MAX_ESCAPE_CHARS * len(line))}
        self._followers.publish(name, entry)
        data = _encode_line(entry)
        with self._condition:
            if self._closing:
                return
            waiting = self._pending.setdefault(name, _PendingLines())
            # Whoever lost a line loses those after it until the thread comes by: what is kept stays in order.
            if waiting.lost or waiting.size + len(data) > MAX_QUEUED_BYTES:
                waiting.lost += 1
                return
            waiting.lines.append(data)
            waiting.size += len(data)
            self._condition.notify()

    def follow(self, name: str) -> Subscription[dict[str, Any]]:
        """The lines that are written from now on."""
        return self._followers.subscribe(name)

    async def read_last(self, name: str, count: int) -> list[dict[str, Any]]:
        """The last lines that were kept, oldest first, with everything that was written before this was asked.

        Raises:
            HostError: the disk does not answer.
        """
        return await self._run_on_thread(partial(read_last_lines, self._directory, name, count), "give", name)

    async def remove_plugin(self, plugin: str) -> None:
        """Remove everything that was kept of a plugin, for all tenants. It does not run any more.

        Raises:
            HostError: the disk does not answer.
            OSError: it does not let us.
        """
        await self._run_on_thread(partial(self._files.remove_plugin, plugin), "remove", plugin)

    async def _run_on_thread(self, work: Callable[[], T], word: str, plugin: str) -> T:
        """Have the thread do something once everything that was written before is in the files."""
        done: Future[T] = Future()
        with self._condition:
            self._jobs.append(partial(_run_job, done, work))
            self._condition.notify()
        try:
            async with asyncio.timeout(DISK_TIMEOUT_S):
                return await asyncio.wrap_future(done)
        except TimeoutError:
            raise HostError(
                f"the disk did not {word} the log of {plugin} within {DISK_TIMEOUT_S:g} s",
                code="logs.disk_hangs",
                hint=f"look whether it still answers: ls {self._directory}",
            ) from None

    # --- on the thread ------------------------------------------------------------------------------------------------

    def run_writer(self) -> None:
        """Write and read until closed; what was asked before that is done first."""
        closing = False
        while not closing:
            with self._condition:
                self._condition.wait_for(lambda: self._pending or self._jobs or self._closing)
                waiting, self._pending = self._pending, {}
                jobs, self._jobs = self._jobs, []
                closing = self._closing
            for name, lines in waiting.items():
                self._write_pending(name, lines)
            for job in jobs:
                job()
        self._files.close()

    def close(self) -> None:
        """Let the thread finish what it was asked, and end."""
        with self._condition:
            self._closing = True
            self._condition.notify()

    def _write_pending(self, name: str, waiting: _PendingLines) -> None:
        before, after = self._lost_lines.pop(name, 0), waiting.lost
        # What failed may have left half a line behind, and ours must not become the rest of it.
        cut = [b"\n"] if before else []
        lines = [*cut, *self._loss_line(before), *waiting.lines, *self._loss_line(after)]
        try:
            self._files.append(name, b"".join(lines))
        except OSError:
            self._lost_lines[name] = before + len(waiting.lines) + after  # told once the disk takes lines again

    def _loss_line(self, count: int) -> list[bytes]:
        if not count:
            return []
        words = "1 line" if count == 1 else f"{count} lines"
        told = f"[paddock] {words} lost here: the disk did not take them in time"
        return [_encode_line({"at": self._clock.now().isoformat(), "line": told})]


def _run_job(done: Future[T], work: Callable[[], T]) -> None:
    if not done.set_running_or_notify_cancel():
        return  # nobody waits any more
    try:
        done.set_result(work())
    except Exception as error:
        done.set_exception(error)  # whoever asked has it; the thread goes on


def _encode_line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


@asynccontextmanager
async def open_plugin_logs(
    directory: Path, clock: Clock, *, close_within: float = CLOSE_TIMEOUT_S
) -> AsyncGenerator[PluginLogs, None]:
    """The logs for as long as the block runs; afterwards everything is written that the disk took in time."""
    logs = PluginLogs(directory, clock)
    # A daemon thread: one that hangs in a dead disk must not keep the process from ending.
    thread = threading.Thread(target=logs.run_writer, name="paddock-logs", daemon=True)
    thread.start()
    try:
        yield logs
    finally:
        logs.close()
        with anyio.CancelScope(shield=True):
            await asyncio.to_thread(thread.join, close_within)


class DenialLogger:
    """A `Publish` that hands everything on and writes refusals down. How many there are is bounded by who publishes."""

    def __init__(self, publish: EventSink, logs: PluginLogs, tenant: Tenant = DEFAULT_TENANT) -> None:
        self._publish = publish
        self._logs = logs
        self._tenant = tenant

    def publish(self, event: Event) -> None:
        self._publish.publish(event)
        told = describe_denial(event)
        if told is not None:
            plugin, words = told
            self._logs.write(log_name(self._tenant, plugin), f"[paddock] refused: {printable(words, 300)}")


def describe_denial(event: Event) -> tuple[str, str] | None:
    """Whose refusal an event is about, and what was refused in words; None for any other event."""
    match event:
        case PluginNetDenied():
            return event.name, _describe_connection(event)
        case PluginCapabilityDenied():
            why = f" (not granted: {event.capability})" if event.capability else ""
            if event.policies:
                why = f" (forbidden: {', '.join(event.policies)})"
            return event.name, f"{event.method}{why}"
        case PluginStorageDenied():
            return event.name, f"a statement about what is not its own: {event.sql}"
        case PluginDenialFlood():
            return event.name, f"more than {event.limit_per_second} things within a second; the rest is not told"
        case _:
            return None


def _describe_connection(event: PluginNetDenied) -> str:
    host = event.host or event.address or "a host"
    where = f"{host}:{event.port}" if event.port is not None else host
    again = f", {event.times} times more" if event.times > 1 else ""
    return f"connect to {where} ({event.reason.removeprefix('net.').replace('_', ' ')}{again})"
