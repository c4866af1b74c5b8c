"""A session of `paddock dev`: the plugin follows its folder, and what is typed is done.

    a file is saved → copied and judged → started beside the last version → serves → the call is made again

A copy that cannot be read, asks for more than was granted, or does not start leaves the last version serving. Nothing
waits for a call: a version that hangs is replaced by the next one that is saved.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from paddock.authoring.file_watcher import FileStamps, watch_changes
from paddock.authoring.traffic import DevEventReporter
from paddock.core.error_mapping import error_to_json
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


SLOW_CALL_S = 5.0  # seconds after which a call that has not ended is told of


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """A call that is made after every load."""

    name: str
    params: Mapping[str, Any]


class DevSession:
    """What happens between the first load and the end.

    Args:
        workshop: What runs the plugin.
        listening: Told of everything.
        granted: What the author agreed to.
        repeated: The call to make after each load.
        silent_for: The seconds after which a call that has not ended is told of.

    Attributes:
        failed: Whether the last load or repeated call did.
    """

    def __init__(
        self,
        workshop: DevHost,
        listening: DevEventReporter,
        granted: tuple[Capability, ...],
        repeated: RepeatedCall | None = None,
        *,
        silent_for: float = SLOW_CALL_S,
    ) -> None:
        self.failed = False
        self._slow_call_s = silent_for
        self._dev_host = workshop
        self._reporter = listening
        self._emit = listening.emit
        self._granted = granted
        self._repeated = repeated
        self._pending_grants: tuple[Capability, ...] = ()  # what a version asks for that was not loaded for it
        self._quit = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()
        self._repeated_task: asyncio.Task[None] | None = None

    async def start(self, first: SourceSnapshot) -> None:
        """Load the first copy, which its author has agreed to."""
        await self._load(first, time.monotonic(), ())

    async def wait_for_calls(self) -> None:
        """Wait until no call is under way."""
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def follow(self, known: FileStamps, typed: AsyncIterable[str] | None, stop: asyncio.Event) -> None:
        """Follow the folder and what is typed, until told to end."""
        watching = asyncio.ensure_future(self._watch(known))
        reading = asyncio.ensure_future(self._read_commands(typed)) if typed is not None else None
        ends = [asyncio.ensure_future(self._quit.wait()), asyncio.ensure_future(stop.wait())]
        try:
            await asyncio.wait([*ends, watching], return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()  # never ends by itself
        finally:
            for task in (watching, reading, *ends, *self._calls):
                if task is not None:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task

    async def _watch(self, known: FileStamps) -> None:
        async for files in watch_changes(self._dev_host.folder, known):
            self._emit({"event": "changed", "files": list(files)})
            await self.reload(files)

    # --- loading ------------------------------------------------------------------------------------------------------

    async def reload(self, files: tuple[str, ...] = ()) -> None:
        """Load the folder as it is now; the last version goes on serving where that fails."""
        began = time.monotonic()
        try:
            copy = await self._dev_host.take_snapshot()
        except PaddockError as error:
            self._report_load_failure(error)
        else:
            await self._load(copy, began, files)

    async def _load(self, copy: SourceSnapshot, began: float, files: tuple[str, ...]) -> None:
        self._reporter.manifest = copy.manifest
        try:
            loaded = await self._dev_host.load(copy, self._granted)
        except NeedsConsent as error:
            asked: list[Capability] = [one for one in requested_capabilities(copy.manifest) if one not in self._granted]
            self._pending_grants = tuple(asked)
            self._report_load_failure(error)
        except PaddockError as error:
            self._report_load_failure(error)
        else:
            self._pending_grants = ()
            self.failed = False
            self._emit(_loaded_event(loaded, time.monotonic() - began, files))
            self._start_repeated_call()

    def _start_repeated_call(self) -> None:
        if self._repeated_task is not None:
            self._repeated_task.cancel()  # its answer would be that of a version which no longer serves
        if self._repeated is not None:
            self._repeated_task = self._start_call(self._repeated.name, self._repeated.params)

    def _start_call(self, name: str, params: Mapping[str, Any]) -> asyncio.Task[None]:
        task = asyncio.create_task(self.call(name, params), name=name)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return task

    def _report_load_failure(self, error: PaddockError) -> None:
        self.failed = True
        serving = self._dev_host.serving
        kept = serving.manifest.version if serving else None
        self._emit(
            {
                "event": "not_loaded",
                "error": error_to_json(error),
                "serving": kept,
                "waiting": bool(self._pending_grants),
            }
        )

    async def call(self, name: str, params: Mapping[str, Any]) -> None:
        """Call the version that serves, and tell the answer."""
        began = time.monotonic()
        still = {"event": "still_running", "name": name, "seconds": self._slow_call_s}
        waiting = asyncio.get_running_loop().call_later(self._slow_call_s, self._emit, still)

        def on_event(event: Mapping[str, Any]) -> None:
            if not self._reporter.shows_traffic:  # where it is shown, it was seen there
                self._emit({"event": "progress", "name": name, "value": dict(event)})

        try:
            result = await self._dev_host.call(name, params, on_event=on_event)
        except PaddockError as error:
            self.failed = True
            told = {"event": "failed", "name": name, "error": error_to_json(error)}
        else:
            told = {"event": "answer", "name": name, "result": result}
        finally:
            waiting.cancel()
        self._emit({**told, "ms": round((time.monotonic() - began) * 1000, 1)})

    # --- what is typed ------------------------------------------------------------------------------------------------

    async def _read_commands(self, typed: AsyncIterable[str]) -> None:
        async for line in typed:
            try:
                await self.run_command(line)
            except PaddockError as error:
                self._emit({"event": "misunderstood", "error": error_to_json(error)})
            if self._quit.is_set():
                return

    async def run_command(self, line: str) -> None:
        """One typed line: a word of `COMMANDS`, or a callable and its parameters as JSON.

        Raises:
            CallerError: it is neither.
        """
        word, _, rest = line.strip().partition(" ")
        match word:
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
                shown = self._reporter.shows_traffic = not self._reporter.shows_traffic
                self._emit({"event": "shows", "what": "traffic", "shown": shown})
            case "logs":
                shown = self._reporter.shows_log = not self._reporter.shows_log
                self._emit({"event": "shows", "what": "logs", "shown": shown})
            case "tools" | "help":
                self._emit({"event": word, "tools": self.callables(), "commands": DEV_COMMANDS})
            case _:
                self._start_call(word, parse_params(rest))

    def _cancel_calls(self) -> None:
        names = [task.get_name() for task in self._calls]
        for task in self._calls:
            task.cancel()
        self._emit({"event": "cancelled", "names": names})

    def callables(self) -> list[str]:
        """What can be called now."""
        serving = self._dev_host.serving
        return [spec.name for spec in serving.callables] if serving else []


def parse_params(text: str) -> dict[str, Any]:
    """The parameters of a typed call; none are `{}`.

    Raises:
        CallerError: they are no JSON object.
    """
    try:
        found: Any = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise CallerError(
            f"the parameters are not JSON: {error}",
            code="json.malformed",
            hint="""write as in: greet {"name": "Ann"}""",
        ) from None
    if not isinstance(found, dict):
        raise CallerError("the parameters must be a JSON object", code="json.malformed", hint="write {…}")
    return cast("dict[str, Any]", found)


def _loaded_event(loaded: LoadedPlugin, seconds: float, files: tuple[str, ...]) -> dict[str, Any]:
    return {
        "event": "loaded",
        "name": loaded.manifest.name,
        "version": loaded.manifest.version,
        "pid": loaded.pid,
        "callables": [spec.name for spec in loaded.callables],
        "unserved": list(loaded.unserved),
        "undeclared": list(loaded.undeclared),
        "warnings": [one.to_dict() for one in loaded.copy.warnings],
        "files": list(files),
        "ms": round(seconds * 1000, 1),
    }
