"""Logs of plugins' standard error: published to followers, and written to files by a thread of its own.

Only that thread ever waits for the disk: neither plugins nor calls do. `name` is the plugin's `log_files.log_name`:
tenants do not see each other's logs.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
from msgspec import Struct, field

from paddock.core.clock import Clock
from paddock.core.errors import HostError
from paddock.core.events.capabilities import PluginCapabilityDenied, PluginDenialFlood, PluginNetDenied
from paddock.core.events.event import Event, EventSink
from paddock.core.events.plugin_runtime import PluginStorageDenied
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.printable import count_text, printable
from paddock.host.plugins.logs.log_files import LogFiles, LogLineJson, log_name, read_last_lines, read_request_lines
from paddock.host.plugins.pubsub import PubSub, Subscription

T = TypeVar("T")

MAX_QUEUED_BYTES: Final = 256 * 1024
"""How many bytes of one plugin may wait for the disk; further lines are dropped and counted in the log."""

MAX_FOLLOWER_LINES = 1_000
_MAX_ESCAPE_CHARS = 10  # length of one escaped character
DISK_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 5.0


class _PendingLines(Struct):
    """Lines of one plugin that are not written yet, and the number of later lines that were dropped."""

    lines: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    lost: int = 0


class PluginLogs:
    """Writes and publishes log lines. A full, slow or dead disk costs lines, but never blocks the daemon.

    Opened by `open_plugin_logs`.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._files = LogFiles(directory)
        self._followers: PubSub[LogLineJson] = PubSub(MAX_FOLLOWER_LINES)
        self._condition = threading.Condition()  # guards the next three attributes
        self._pending: dict[str, _PendingLines] = {}
        self._jobs: list[partial[None]] = []
        self._closing = False
        self._lost_lines: Counter[str] = Counter()  # used by the writer thread alone: lines that could not be written

    def write(self, name: str, line: str, request: str | None = None) -> None:
        """Queue one line for writing and publish it to followers. Does not wait. Control characters are escaped.

        `request` is the request that the plugin worked on, if the line does not say that itself.
        """
        entry: LogLineJson = {
            "at": self._clock.now().isoformat(),
            "line": printable(line, _MAX_ESCAPE_CHARS * len(line)),
        }
        if request is not None:
            entry["request"] = request
        self._followers.publish(name, entry)
        data = _encode_line(entry)
        with self._condition:
            if self._closing:
                return
            pending = self._pending.setdefault(name, _PendingLines())
            # After a dropped line drop all others until the thread has run: the kept lines stay in order.
            if pending.lost or pending.size + len(data) > MAX_QUEUED_BYTES:
                pending.lost += 1
                return
            pending.lines.append(data)
            pending.size += len(data)
            self._condition.notify()

    def follow(self, name: str) -> Subscription[LogLineJson]:
        """Follow the lines that are written from now on."""
        return self._followers.subscribe(name)

    async def read_last(self, name: str, count: int) -> list[LogLineJson]:
        """Read the last lines, oldest first, including everything that was written before this call.

        Raises:
            HostError: the disk does not answer.
        """
        return await self._run_on_thread(partial(read_last_lines, self._directory, name, count), "give", name)

    async def read_request(self, name: str, request: str, count: int) -> list[LogLineJson]:
        """Read the last lines that were written for one request, as `read_last` does."""
        return await self._run_on_thread(
            partial(read_request_lines, self._directory, name, request, count), "give", name
        )

    async def remove_plugin(self, plugin: str) -> None:
        """Remove the logs of a plugin that no longer runs, for all tenants.

        Raises:
            HostError: the disk does not answer.
            OSError: the files cannot be removed.
        """
        await self._run_on_thread(partial(self._files.remove_plugin, plugin), "remove", plugin)

    async def _run_on_thread(self, job: Callable[[], T], verb: str, plugin: str) -> T:
        """Run a job on the writer thread after everything queued before it is in the files."""
        result: Future[T] = Future()
        with self._condition:
            self._jobs.append(partial(_run_job, result, job))
            self._condition.notify()
        try:
            async with asyncio.timeout(DISK_TIMEOUT_S):
                return await asyncio.wrap_future(result)
        except TimeoutError:
            raise HostError(
                f"the disk did not {verb} the log of {plugin} within {DISK_TIMEOUT_S:g} s",
                code="logs.disk_hangs",
                hint=f"look whether it still answers: ls {self._directory}",
            ) from None

    # --- on the writer thread -----------------------------------------------------------------------------------------

    def run_writer(self) -> None:
        """Write lines and run jobs until closed; everything queued before that is done first."""
        closing = False
        while not closing:
            with self._condition:
                self._condition.wait_for(lambda: self._pending or self._jobs or self._closing)
                pending, self._pending = self._pending, {}
                jobs, self._jobs = self._jobs, []
                closing = self._closing
            for name, lines in pending.items():
                self._write_pending(name, lines)
            for job in jobs:
                job()
        self._files.close()

    def close(self) -> None:
        """Let the thread finish what was queued, and end."""
        with self._condition:
            self._closing = True
            self._condition.notify()

    def _write_pending(self, name: str, pending: _PendingLines) -> None:
        lost_before, lost_after = self._lost_lines.pop(name, 0), pending.lost
        # A failed write may have left half a line behind; ours must not continue it.
        line_break = [b"\n"] if lost_before else []
        lines = [*line_break, *self._loss_line(lost_before), *pending.lines, *self._loss_line(lost_after)]
        try:
            self._files.append(name, b"".join(lines))
        except OSError:
            self._lost_lines[name] = lost_before + len(pending.lines) + lost_after  # reported once writing works again

    def _loss_line(self, count: int) -> list[bytes]:
        if not count:
            return []
        amount = count_text(count, "line")
        message = f"[paddock] {amount} lost here: the disk did not take them in time"
        return [_encode_line({"at": self._clock.now().isoformat(), "line": message})]


def _run_job(result: Future[T], job: Callable[[], T]) -> None:
    if not result.set_running_or_notify_cancel():
        return  # the waiter was cancelled
    try:
        result.set_result(job())
    except Exception as error:
        result.set_exception(error)  # the waiter gets it; the thread goes on


def _encode_line(entry: LogLineJson) -> bytes:
    return json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


@asynccontextmanager
async def open_plugin_logs(
    directory: Path, clock: Clock, *, close_timeout_s: float = CLOSE_TIMEOUT_S
) -> AsyncGenerator[PluginLogs, None]:
    """Open the logs for as long as the block runs; pending lines are written on exit, if the disk is quick enough."""
    logs = PluginLogs(directory, clock)
    # A daemon thread: if it hangs on a dead disk it must not keep the process from ending.
    thread = threading.Thread(target=logs.run_writer, name="paddock-logs", daemon=True)
    thread.start()
    try:
        yield logs
    finally:
        logs.close()
        with anyio.CancelScope(shield=True):
            await asyncio.to_thread(thread.join, close_timeout_s)


class DenialLogger:
    """An `EventSink` that forwards every event and logs denials. Publishers bound the number of denials."""

    def __init__(self, sink: EventSink, logs: PluginLogs, tenant: Tenant = DEFAULT_TENANT) -> None:
        self._sink = sink
        self._logs = logs
        self._tenant = tenant

    def publish(self, event: Event) -> None:
        self._sink.publish(event)
        denial = describe_denial(event)
        if denial is not None:
            plugin, description = denial
            self._logs.write(log_name(self._tenant, plugin), f"[paddock] refused: {printable(description, 300)}")


def describe_denial(event: Event) -> tuple[str, str] | None:
    """Describe a denial event as plugin and text; None for any other event."""
    match event:
        case PluginNetDenied():
            return event.name, _describe_connection(event)
        case PluginCapabilityDenied():
            reason = f" (not granted: {event.capability})" if event.capability else ""
            if event.policies:
                reason = f" (forbidden: {', '.join(event.policies)})"
            return event.name, f"{event.method}{reason}"
        case PluginStorageDenied():
            return event.name, f"a statement about what is not its own: {event.sql}"
        case PluginDenialFlood():
            return event.name, f"more than {event.limit_per_second} things within a second; the rest is not told"
        case _:
            return None


def _describe_connection(event: PluginNetDenied) -> str:
    host = event.host or event.address or "a host"
    endpoint = f"{host}:{event.port}" if event.port is not None else host
    repeated = f", {event.times} times more" if event.times > 1 else ""
    return f"connect to {endpoint} ({event.reason.removeprefix('net.').replace('_', ' ')}{repeated})"
