"""One call that can be looked at while it runs: waited for, followed and cancelled, by anybody who knows its id."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Literal, NamedTuple

import orjson

from paddock.core.call import CallContext
from paddock.core.errors import NeedsApproval, PaddockError, let_go_of_frames
from paddock.core.ids import CallId
from paddock.core.outward import to_json
from paddock.gate.catalogue import Target
from paddock.gate.course import CallCancelled
from paddock.gate.effects.errors import says_doubt, unsure
from paddock.gate.questions import OpenQuestions

KEPT_EVENTS = 256
KEPT_EVENT_BYTES = 1024 * 1024  # of one call; older events give way to newer ones
LARGEST_EVENT = 256 * 1024  # a larger one is told to nobody: big things are results

CallStatus = Literal["running", "in_progress", "pending_approval", "succeeded", "failed", "in_doubt", "cancelled"]
EventKind = Literal["event", "question", "approval"]


class CallEvent(NamedTuple):
    """Something that was told about a call, numbered. A `question` or an `approval` is ours to tell: no plugin
    can make one up."""

    number: int
    data: Mapping[str, Any]
    kind: EventKind
    size: int


class LiveCall:
    """One call, from the moment it was made until it is forgotten. `questions` are those that its plugin has."""

    keeps = True  # see `Watch`

    def __init__(self, call_id: CallId, target: Target, context: CallContext, started_at: str) -> None:
        self.id = call_id
        self.plugin = target.key.plugin
        self.callable = target.spec.name
        self.form = target.spec.form
        self._recovery = target.spec.recovery
        self.context = context
        self.started_at = started_at
        self.ended_at: str | None = None
        self.status: CallStatus = "running"
        self.result: Any = None
        self.error: PaddockError | None = None
        self.held: NeedsApproval | None = None  # while it waits for a person
        self.once_more: Callable[[], None] | None = None  # goes on with it, where it waits for another call's request
        self.replay_of: CallId | None = None  # a former call under the same key, whose answer it got
        self.undisclosed: tuple[str, ...] = ()  # what it used without saying so
        self._followed = False
        self.seated = False  # whether it counts among those under way
        self.when_in_progress: Callable[[], None] = nothing
        self.in_doubt = False  # whether it may have happened, and nobody knows
        self.questions = OpenQuestions({"call_id": call_id, "plugin": self.plugin}, self._tell_question)
        self._events: deque[CallEvent] = deque()
        self._event_bytes = 0
        self._count = 0
        self._changes = 0
        self._news = asyncio.Event()
        self._ended = asyncio.Event()
        self._settled = asyncio.Event()
        self.unwanted = False  # whether somebody asked for its end
        self._stop: Callable[[], object] = nothing

    async def wait(self) -> Any:
        """The result.

        Raises:
            NeedsApproval: the call waits for a person. It goes on once it has their yes: wait for it to be `over`.
            PaddockError: the call failed or was cancelled.
        """
        await self._settled.wait()
        return self.outcome()

    def outcome(self) -> Any:
        """What has become of it by now; see `wait`."""
        if self.held is not None:
            raise self.held
        if self.error is not None:
            raise self.error
        return self.result

    def cancel(self) -> None:
        """Ask for its end. Harmless when it is over."""
        if not self.unwanted:
            self.unwanted = True
            self._stop()

    async def events(self, after: int = 0) -> AsyncGenerator[CallEvent, None]:
        """What the plugin told and asked while it worked: first what is still kept, then as it comes, until the end."""
        while True:
            self._news.clear()
            for event in tuple(self._events):
                if event.number > after:
                    after = event.number
                    yield event
            # More may have come while those were taken, the end among it.
            if self._events and self._events[-1].number > after:
                continue
            if self._ended.is_set():
                return
            await self._news.wait()

    async def changed(self, since: int = -1) -> int:
        """Wait until anything of it is not as it was at that count of changes, and give the count now; at once where it
        is over."""
        while self._changes == since and not self._ended.is_set():
            self._news.clear()
            await self._news.wait()
        return self._changes

    def last_events(self, most: int) -> list[CallEvent]:
        """The last of what was told about it, oldest first, as far as it is kept."""
        return list(self._events)[-most:]

    def summary(self) -> dict[str, Any]:
        """The call as data, without what became of it."""
        return {
            "call_id": self.id,
            "plugin": self.plugin,
            "callable": self.callable,
            "status": self.status,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "events": self._count,
            "questions": self.questions.to_json(),
        }

    def to_json(self) -> dict[str, Any]:
        """The call as data."""
        shown = self.summary()
        if self.status == "succeeded":
            shown["result"] = self.result
        if self.replay_of is not None:
            shown["replay_of"] = self.replay_of
        if self.undisclosed:
            shown["undisclosed"] = list(self.undisclosed)
        if self.error is not None:
            shown["error"] = to_json(self.error)
        if self.held is not None:
            shown["approval"] = {name: value for name, value in self.held.details.items() if name != "token"}
        return shown

    # --- for whoever runs it ------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Roughly how many bytes it keeps; worked out when it is asked for."""
        return _size_of(self.result) + self._event_bytes

    def tell(self, event: Mapping[str, Any]) -> None:
        """The plugin tells something."""
        self._keep(event, "event")

    def _tell_question(self, event: Mapping[str, Any]) -> None:
        self._keep(event, "question")

    def _keep(self, event: Mapping[str, Any], kind: EventKind) -> None:
        self._count += 1
        size = _size_of(event)
        if size <= LARGEST_EVENT:
            self._events.append(CallEvent(self._count, event, kind, size))
            self._event_bytes += size
        while len(self._events) > KEPT_EVENTS or self._event_bytes > KEPT_EVENT_BYTES:
            self._event_bytes -= self._events.popleft().size
        self._change()

    def _change(self) -> None:
        self._changes += 1
        self._news.set()

    async def over(self) -> None:
        """Wait for its end, whatever it is."""
        await self._ended.wait()

    def stopped_by(self, stop: Callable[[], object]) -> None:
        """What ends the work on it, once somebody asks for that; at once where somebody has."""
        self._stop = stop
        if self.unwanted:
            stop()

    def replay(self, of: CallId) -> None:
        """What it gives came of a former call under the same key."""
        self.replay_of = of

    def flag(self, undisclosed: tuple[str, ...]) -> None:
        """It used this without saying so."""
        self.undisclosed = undisclosed

    def doubt(self) -> None:
        """It may have happened, and nobody knows."""
        self.in_doubt = True

    @property
    def asked_for(self) -> str | None:
        """The call about which the person is asked that it waits for: another one where both have the same key."""
        return None if self.held is None else str(self.held.details["call_id"])

    @property
    def request(self) -> str | None:
        """The request that it waits for."""
        return None if self.held is None else str(self.held.details["approval"])

    @property
    def goes_on(self) -> bool:
        """Whether it goes on when nobody waits for it: it waits for a person, or its operator works on it."""
        return self.held is not None or self._followed

    def hung_up(self) -> None:
        """Whoever made it is gone: nobody wants it any more, unless it goes on by itself."""
        if not self.goes_on:
            self.cancel()

    def cut_off(self) -> CallCancelled:
        """What whoever waits is told when the host goes down."""
        on = "its operator is still at work, and the next daemon follows it: ask again then, with the same key"
        return CallCancelled("the host went down", hint=on if self._followed else "")

    def progress(self, goes_on: bool = True) -> None:
        """Its operator says that it is still at work; `goes_on` is whether that is followed when nobody waits."""
        self.status, self._followed = "in_progress", goes_on
        self.when_in_progress()
        self._change()

    def hold(self, held: NeedsApproval) -> None:
        """It waits for a person."""
        self.status, self.held = "pending_approval", held
        self._settled.set()
        told = {name: value for name, value in held.details.items() if name != "token"}  # which is whoever asked's
        self._keep({"type": "approval", **told}, "approval")

    def go_on(self) -> None:
        """It has what it waited for."""
        self.status, self.held = "running", None
        self._settled.clear()
        self._change()

    def end(self, status: CallStatus, at: str, *, result: Any = None, error: PaddockError | None = None) -> None:
        if says_doubt(error, self.id):
            self.in_doubt = True
        elif self.in_doubt and error is not None:
            error = unsure(error, self.id, self.context.tenant, self._recovery)
        if error is not None:
            let_go_of_frames(error)
        self.status, self.ended_at, self.result, self.error, self.held = status, at, result, error, None
        if self.in_doubt:
            self.status = "in_doubt"
        self.questions.close()
        # What leads back here is let go: it is kept for a while, and with it would be all that worked on it.
        self._stop = self.when_in_progress = nothing
        self._settled.set()
        self._ended.set()
        self._change()


def nothing() -> None:
    """There is nothing to do."""


def _size_of(value: Any) -> int:
    try:
        return len(orjson.dumps(value))
    except (TypeError, orjson.JSONEncodeError):
        return LARGEST_EVENT
