"""A session of `paddock dev`: reloads the plugin when its folder changes, and runs typed commands.

    a file is saved → copied and validated → started in parallel to the last version → serves → the repeated call

A copy that is invalid, requests more than was granted, or does not start leaves the last version serving. Nothing waits
for a call: a version that hangs is replaced by the next one that is saved.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterable, Mapping
from typing import Any, cast

from msgspec import Struct

from paddock.authoring.file_watcher import FileStamps, watch_changes
from paddock.authoring.traffic import DevEventReporter
from paddock.core.error_formats import error_to_json
from paddock.core.errors import CallerError, NeedsConsent, PaddockError
from paddock.host.dev.dev_host import DevHost, LoadedPlugin
from paddock.host.dev.snapshot import SourceSnapshot
from paddock.manifest.capability import Capability
from paddock.manifest.permissions import requested_capabilities

DEV_COMMANDS = {
    "reload": "load the folder again",
    "allow": "grant what the new version asks for, and load it",
    "cancel": "end the calls that are under way",
    "traffic": "show or hide what goes over the wire",
    "logs": "show or hide the log",
    "tools": "list what can be called",
    "help": "show this",
    "quit": "end",
}

SLOW_CALL_S = 5.0  # after which an unfinished call is reported


class RepeatedCall(Struct, frozen=True):
    """A call that is made after every load."""

    name: str
    params: Mapping[str, Any]


class DevSession:
    """A development session, from the first load to the end.

    Args:
        dev_host: Runs the plugin.
        reporter: Receives all events.
        granted: The capabilities that the author agreed to.
        repeated_call: The call to make after each load.
        slow_call_s: Seconds after which an unfinished call is reported.

    Attributes:
        failed: Whether the last load or repeated call failed.
    """

    def __init__(
        self,
        dev_host: DevHost,
        reporter: DevEventReporter,
        granted: tuple[Capability, ...],
        repeated_call: RepeatedCall | None = None,
        *,
        slow_call_s: float = SLOW_CALL_S,
    ) -> None:
        self.failed = False
        self._slow_call_s = slow_call_s
        self._dev_host = dev_host
        self._reporter = reporter
        self._emit = reporter.emit
        self._granted = granted
        self._repeated_call = repeated_call
        self._pending_grants: tuple[Capability, ...] = ()  # capabilities that kept a version from being loaded
        self._quit = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()
        self._repeated_task: asyncio.Task[None] | None = None

    async def start(self, first: SourceSnapshot) -> None:
        """Load the first snapshot, which the author has agreed to."""
        await self._load(first, time.monotonic(), ())

    async def wait_for_calls(self) -> None:
        """Wait until all calls have ended."""
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def follow(self, stamps: FileStamps, lines: AsyncIterable[str] | None, stop: asyncio.Event) -> None:
        """Follow the folder's changes and the typed lines until the session ends."""
        watcher = asyncio.ensure_future(self._watch(stamps))
        reader = asyncio.ensure_future(self._read_commands(lines)) if lines is not None else None
        stop_waits = [asyncio.ensure_future(self._quit.wait()), asyncio.ensure_future(stop.wait())]
        try:
            await asyncio.wait([*stop_waits, watcher], return_when=asyncio.FIRST_COMPLETED)
            if watcher.done():
                watcher.result()  # raises: the watcher never ends by itself
        finally:
            for task in (watcher, reader, *stop_waits, *self._calls):
                if task is not None:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task

    async def _watch(self, stamps: FileStamps) -> None:
        async for files in watch_changes(self._dev_host.folder, stamps):
            self._emit({"event": "changed", "files": list(files)})
            await self.reload(files)

    # --- loading ------------------------------------------------------------------------------------------------------

    async def reload(self, files: tuple[str, ...] = ()) -> None:
        """Load the folder as it is now; if that fails, the last version goes on serving."""
        started = time.monotonic()
        try:
            snapshot = await self._dev_host.take_snapshot()
        except PaddockError as error:
            self._report_load_failure(error)
        else:
            await self._load(snapshot, started, files)

    async def _load(self, snapshot: SourceSnapshot, started: float, files: tuple[str, ...]) -> None:
        self._reporter.manifest = snapshot.manifest
        try:
            loaded = await self._dev_host.load(snapshot, self._granted)
        except NeedsConsent as error:
            missing: list[Capability] = [
                item for item in requested_capabilities(snapshot.manifest) if item not in self._granted
            ]
            self._pending_grants = tuple(missing)
            self._report_load_failure(error)
        except PaddockError as error:
            self._report_load_failure(error)
        else:
            self._pending_grants = ()
            self.failed = False
            self._emit(_loaded_event(loaded, time.monotonic() - started, files))
            self._start_repeated_call()

    def _start_repeated_call(self) -> None:
        if self._repeated_task is not None:
            self._repeated_task.cancel()  # its result would be that of an outdated version
        if self._repeated_call is not None:
            self._repeated_task = self._start_call(self._repeated_call.name, self._repeated_call.params)

    def _start_call(self, name: str, params: Mapping[str, Any]) -> asyncio.Task[None]:
        task = asyncio.create_task(self.call(name, params), name=name)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return task

    def _report_load_failure(self, error: PaddockError) -> None:
        self.failed = True
        serving = self._dev_host.serving
        version = serving.manifest.version if serving else None
        self._emit(
            {
                "event": "not_loaded",
                "error": error_to_json(error),
                "serving": version,
                "waiting": bool(self._pending_grants),
            }
        )

    async def call(self, name: str, params: Mapping[str, Any]) -> None:
        """Call the serving version, and report the result."""
        started = time.monotonic()
        slow_event = {"event": "still_running", "name": name, "seconds": self._slow_call_s}
        slow_timer = asyncio.get_running_loop().call_later(self._slow_call_s, self._emit, slow_event)

        def on_event(event: Mapping[str, Any]) -> None:
            if not self._reporter.shows_traffic:  # otherwise it is part of the traffic
                self._emit({"event": "progress", "name": name, "value": dict(event)})

        try:
            result = await self._dev_host.call(name, params, on_event=on_event)
        except PaddockError as error:
            self.failed = True
            event = {"event": "failed", "name": name, "error": error_to_json(error)}
        else:
            event = {"event": "answer", "name": name, "result": result}
        finally:
            slow_timer.cancel()
        self._emit({**event, "ms": round((time.monotonic() - started) * 1000, 1)})

    # --- typed commands -----------------------------------------------------------------------------------------------

    async def _read_commands(self, lines: AsyncIterable[str]) -> None:
        async for line in lines:
            try:
                await self.run_command(line)
            except PaddockError as error:
                self._emit({"event": "misunderstood", "error": error_to_json(error)})
            if self._quit.is_set():
                return

    async def run_command(self, line: str) -> None:
        """Run a typed line: one of `DEV_COMMANDS`, or a callable and its parameters as JSON.

        Raises:
            CallerError: it is neither.
        """
        command, _, rest = line.strip().partition(" ")
        match command:
            case "":
                return
            case "quit" | "exit":
                self._quit.set()
            case "reload":
                await self.reload()
            case "allow":
                self._granted = (*self._granted, *self._pending_grants)
                await self.reload()
            case "cancel":
                self._cancel_calls()
            case "traffic":
                self._emit({"event": "shows", "what": "traffic", "shown": self._reporter.toggle_traffic()})
            case "logs":
                self._emit({"event": "shows", "what": "logs", "shown": self._reporter.toggle_log()})
            case "tools" | "help":
                self._emit({"event": command, "tools": self.callables(), "commands": DEV_COMMANDS})
            case _:
                self._start_call(command, parse_params(rest))

    def _cancel_calls(self) -> None:
        names = [task.get_name() for task in self._calls]
        for task in self._calls:
            task.cancel()
        self._emit({"event": "cancelled", "names": names})

    def callables(self) -> list[str]:
        """Return the names that can be called now."""
        serving = self._dev_host.serving
        return [spec.name for spec in serving.callables] if serving else []


def parse_params(text: str) -> dict[str, Any]:
    """Parse the parameters of a typed call; `{}` if there are none.

    Raises:
        CallerError: they are not a JSON object.
    """
    try:
        params: Any = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise CallerError(
            f"the parameters are not JSON: {error}",
            code="json.malformed",
            hint="""write as in: greet {"name": "Ann"}""",
        ) from None
    if not isinstance(params, dict):
        raise CallerError("the parameters must be a JSON object", code="json.malformed", hint="write {…}")
    return cast("dict[str, Any]", params)


def _loaded_event(loaded: LoadedPlugin, seconds: float, files: tuple[str, ...]) -> dict[str, Any]:
    return {
        "event": "loaded",
        "name": loaded.manifest.name,
        "version": loaded.manifest.version,
        "pid": loaded.pid,
        "callables": [spec.name for spec in loaded.callables],
        "unserved": list(loaded.unserved),
        "undeclared": list(loaded.undeclared),
        "warnings": [warning.to_dict() for warning in loaded.copy.warnings],
        "files": list(files),
        "ms": round(seconds * 1000, 1),
    }
