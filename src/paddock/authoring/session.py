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

from paddock.authoring.listening import Listening
from paddock.authoring.watching import Look, changes
from paddock.core.errors import CallerError, NeedsConsent, PaddockError
from paddock.core.outward import to_json
from paddock.host.workshop.copies import Copy
from paddock.host.workshop.workshop import Loaded, Workshop
from paddock.manifest.asked import asked_of
from paddock.manifest.capability import Capability

COMMANDS = {
    "reload": "load the folder again",
    "allow": "grant what the new version asks for, and load it",
    "cancel": "end the calls that are under way",
    "traffic": "show or hide what goes over the wire",
    "logs": "show or hide the log",
    "tools": "list what can be called",
    "help": "show this",
    "quit": "end",
}


SILENT_FOR = 5.0  # seconds after which a call that has not ended is told of


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """A call that is made after every load."""

    name: str
    params: Mapping[str, Any]


class Session:
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
        workshop: Workshop,
        listening: Listening,
        granted: tuple[Capability, ...],
        repeated: RepeatedCall | None = None,
        *,
        silent_for: float = SILENT_FOR,
    ) -> None:
        self.failed = False
        self._silent_for = silent_for
        self._workshop = workshop
        self._listening = listening
        self._tell = listening.tell
        self._granted = granted
        self._repeated = repeated
        self._waiting: tuple[Capability, ...] = ()  # what a version asks for that was not loaded for it
        self._over = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()
        self._repeating: asyncio.Task[None] | None = None

    async def start(self, first: Copy) -> None:
        """Load the first copy, which its author has agreed to."""
        await self._load(first, time.monotonic(), ())

    async def answered(self) -> None:
        """Wait until no call is under way."""
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def follow(self, known: Look, typed: AsyncIterable[str] | None, stop: asyncio.Event) -> None:
        """Follow the folder and what is typed, until told to end."""
        watching = asyncio.ensure_future(self._watch(known))
        reading = asyncio.ensure_future(self._read(typed)) if typed is not None else None
        ends = [asyncio.ensure_future(self._over.wait()), asyncio.ensure_future(stop.wait())]
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

    async def _watch(self, known: Look) -> None:
        async for files in changes(self._workshop.folder, known):
            self._tell({"event": "changed", "files": list(files)})
            await self.reload(files)

    # --- loading ------------------------------------------------------------------------------------------------------

    async def reload(self, files: tuple[str, ...] = ()) -> None:
        """Load the folder as it is now; the last version goes on serving where that fails."""
        began = time.monotonic()
        try:
            copy = await self._workshop.look()
        except PaddockError as error:
            self._not_loaded(error)
        else:
            await self._load(copy, began, files)

    async def _load(self, copy: Copy, began: float, files: tuple[str, ...]) -> None:
        self._listening.manifest = copy.manifest
        try:
            loaded = await self._workshop.load(copy, self._granted)
        except NeedsConsent as error:
            asked: list[Capability] = [one for one in asked_of(copy.manifest) if one not in self._granted]
            self._waiting = tuple(asked)
            self._not_loaded(error)
        except PaddockError as error:
            self._not_loaded(error)
        else:
            self._waiting = ()
            self.failed = False
            self._tell(_loaded_event(loaded, time.monotonic() - began, files))
            self._repeat()

    def _repeat(self) -> None:
        if self._repeating is not None:
            self._repeating.cancel()  # its answer would be that of a version which no longer serves
        if self._repeated is not None:
            self._repeating = self._begin(self._repeated.name, self._repeated.params)

    def _begin(self, name: str, params: Mapping[str, Any]) -> asyncio.Task[None]:
        task = asyncio.create_task(self.call(name, params), name=name)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return task

    def _not_loaded(self, error: PaddockError) -> None:
        self.failed = True
        serving = self._workshop.serving
        kept = serving.manifest.version if serving else None
        self._tell({"event": "not_loaded", "error": to_json(error), "serving": kept, "waiting": bool(self._waiting)})

    async def call(self, name: str, params: Mapping[str, Any]) -> None:
        """Call the version that serves, and tell the answer."""
        began = time.monotonic()
        still = {"event": "still_running", "name": name, "seconds": self._silent_for}
        waiting = asyncio.get_running_loop().call_later(self._silent_for, self._tell, still)

        def on_event(event: Mapping[str, Any]) -> None:
            if not self._listening.shows_traffic:  # where it is shown, it was seen there
                self._tell({"event": "progress", "name": name, "value": dict(event)})

        try:
            result = await self._workshop.call(name, params, on_event=on_event)
        except PaddockError as error:
            self.failed = True
            told = {"event": "failed", "name": name, "error": to_json(error)}
        else:
            told = {"event": "answer", "name": name, "result": result}
        finally:
            waiting.cancel()
        self._tell({**told, "ms": round((time.monotonic() - began) * 1000, 1)})

    # --- what is typed ------------------------------------------------------------------------------------------------

    async def _read(self, typed: AsyncIterable[str]) -> None:
        async for line in typed:
            try:
                await self.do(line)
            except PaddockError as error:
                self._tell({"event": "misunderstood", "error": to_json(error)})
            if self._over.is_set():
                return

    async def do(self, line: str) -> None:
        """One typed line: a word of `COMMANDS`, or a callable and its parameters as JSON.

        Raises:
            CallerError: it is neither.
        """
        word, _, rest = line.strip().partition(" ")
        match word:
            case "":
                return
            case "quit" | "exit":
                self._over.set()
            case "reload":
                await self.reload()
            case "allow":
                self._granted = (*self._granted, *self._waiting)
                await self.reload()
            case "cancel":
                self._cancel()
            case "traffic":
                shown = self._listening.shows_traffic = not self._listening.shows_traffic
                self._tell({"event": "shows", "what": "traffic", "shown": shown})
            case "logs":
                shown = self._listening.shows_log = not self._listening.shows_log
                self._tell({"event": "shows", "what": "logs", "shown": shown})
            case "tools" | "help":
                self._tell({"event": word, "tools": self.callables(), "commands": COMMANDS})
            case _:
                self._begin(word, read_params(rest))

    def _cancel(self) -> None:
        names = [task.get_name() for task in self._calls]
        for task in self._calls:
            task.cancel()
        self._tell({"event": "cancelled", "names": names})

    def callables(self) -> list[str]:
        """What can be called now."""
        serving = self._workshop.serving
        return [spec.name for spec in serving.callables] if serving else []


def read_params(text: str) -> dict[str, Any]:
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


def _loaded_event(loaded: Loaded, seconds: float, files: tuple[str, ...]) -> dict[str, Any]:
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
