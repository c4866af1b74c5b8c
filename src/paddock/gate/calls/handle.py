"""One call that can be looked at while it runs: waited for, followed and cancelled, by anybody who knows its id."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Literal, NamedTuple

import orjson

from paddock.core.call import CallContext
from paddock.core.error_mapping import error_to_json
from paddock.core.errors import NeedsApproval, PaddockError, clear_tracebacks
from paddock.core.ids import CallId
from paddock.gate.calls.questions import OpenQuestions
from paddock.gate.catalogue.catalogue import CallTarget
from paddock.gate.idempotency.errors import reports_unknown_outcome, with_unknown_outcome_of
from paddock.gate.invocation import CallCancelled

MAX_RETAINED_EVENTS = 256
MAX_RETAINED_EVENT_BYTES = 1024 * 1024  # of one call; older events give way to newer ones
MAX_EVENT_BYTES = 256 * 1024  # a larger one is told to nobody: big things are results

CallStatus = Literal["running", "in_progress", "pending_approval", "succeeded", "failed", "in_doubt", "cancelled"]
CallEventKind = Literal["event", "question", "approval"]


class CallEvent(NamedTuple):
    """Something that was told about a call, numbered. A `question` or an `approval` is ours to tell: no plugin
    can make one up."""

    number: int
    data: Mapping[str, Any]
    kind: CallEventKind
    size: int


class CallHandle:
    """One call, from the moment it was made until it is forgotten. `questions` are those that its plugin has."""

    retains_result = True  # see `Watch`

    def __init__(self, call_id: CallId, target: CallTarget, context: CallContext, started_at: str) -> None:
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
        self.approval_required: NeedsApproval | None = None  # while it waits for a person
        self.resume_joined: Callable[[], None] | None = (
            None  # goes on with it, where it waits for another call's request
        )
        self.replay_of: CallId | None = None  # a former call under the same key, whose answer it got
        self.undisclosed: tuple[str, ...] = ()  # what it used without saying so
        self._long_running = False
        self.has_slot = False  # whether it counts among those under way
        self.on_in_progress: Callable[[], None] = do_nothing
        self.in_doubt = False  # whether it may have happened, and nobody knows
        self.questions = OpenQuestions({"call_id": call_id, "plugin": self.plugin}, self._add_question)
        self._events: deque[CallEvent] = deque()
        self._event_bytes = 0
        self._count = 0
        self._version = 0
        self._updated = asyncio.Event()
        self._ended = asyncio.Event()
        self._settled = asyncio.Event()
        self.cancel_requested = False  # whether somebody asked for its end
        self._stop: Callable[[], object] = do_nothing

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
        if self.approval_required is not None:
            raise self.approval_required
        if self.error is not None:
            raise self.error
        return self.result

    def cancel(self) -> None:
        """Ask for its end. Harmless when it is over."""
        if not self.cancel_requested:
            self.cancel_requested = True
            self._stop()

    async def events(self, after: int = 0) -> AsyncGenerator[CallEvent, None]:
        """What the plugin told and asked while it worked: first what is still kept, then as it comes, until the end."""
        while True:
            self._updated.clear()
            for event in tuple(self._events):
                if event.number > after:
                    after = event.number
                    yield event
            # More may have come while those were taken, the end among it.
            if self._events and self._events[-1].number > after:
                continue
            if self._ended.is_set():
                return
            await self._updated.wait()

    async def wait_changed(self, since: int = -1) -> int:
        """Wait until anything of it is not as it was at that count of changes, and give the count now; at once where it
        is over."""
        while self._version == since and not self._ended.is_set():
            self._updated.clear()
            await self._updated.wait()
        return self._version

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
            shown["error"] = error_to_json(self.error)
        if self.approval_required is not None:
            shown["approval"] = {
                name: value for name, value in self.approval_required.details.items() if name != "token"
            }
        return shown

    # --- for whoever runs it ------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Roughly how many bytes it keeps; worked out when it is asked for."""
        return _json_size(self.result) + self._event_bytes

    def add_event(self, event: Mapping[str, Any]) -> None:
        """The plugin tells something."""
        self._append_event(event, "event")

    def _add_question(self, event: Mapping[str, Any]) -> None:
        self._append_event(event, "question")

    def _append_event(self, event: Mapping[str, Any], kind: CallEventKind) -> None:
        self._count += 1
        size = _json_size(event)
        if size <= MAX_EVENT_BYTES:
            self._events.append(CallEvent(self._count, event, kind, size))
            self._event_bytes += size
        while len(self._events) > MAX_RETAINED_EVENTS or self._event_bytes > MAX_RETAINED_EVENT_BYTES:
            self._event_bytes -= self._events.popleft().size
        self._notify()

    def _notify(self) -> None:
        self._version += 1
        self._updated.set()

    async def wait_ended(self) -> None:
        """Wait for its end, whatever it is."""
        await self._ended.wait()

    def set_canceller(self, stop: Callable[[], object]) -> None:
        """What ends the work on it, once somebody asks for that; at once where somebody has."""
        self._stop = stop
        if self.cancel_requested:
            stop()

    def on_replay(self, of: CallId) -> None:
        """What it gives came of a former call under the same key."""
        self.replay_of = of

    def on_undisclosed(self, undisclosed: tuple[str, ...]) -> None:
        """It used this without saying so."""
        self.undisclosed = undisclosed

    def on_in_doubt(self) -> None:
        """It may have happened, and nobody knows."""
        self.in_doubt = True

    @property
    def approval_call_id(self) -> str | None:
        """The call about which the person is asked that it waits for: another one where both have the same key."""
        return None if self.approval_required is None else str(self.approval_required.details["call_id"])

    @property
    def approval_id(self) -> str | None:
        """The request that it waits for."""
        return None if self.approval_required is None else str(self.approval_required.details["approval"])

    @property
    def continues_unattended(self) -> bool:
        """Whether it goes on when nobody waits for it: it waits for a person, or its operator works on it."""
        return self.approval_required is not None or self._long_running

    def on_disconnect(self) -> None:
        """Whoever made it is gone: nobody wants it any more, unless it goes on by itself."""
        if not self.continues_unattended:
            self.cancel()

    def shutdown_error(self) -> CallCancelled:
        """What whoever waits is told when the host goes down."""
        on = "its operator is still at work, and the next daemon follows it: ask again then, with the same key"
        return CallCancelled("the host went down", hint=on if self._long_running else "")

    def on_progress(self, goes_on: bool = True) -> None:
        """Its operator says that it is still at work; `goes_on` is whether that is followed when nobody waits."""
        self.status, self._long_running = "in_progress", goes_on
        self.on_in_progress()
        self._notify()

    def hold(self, held: NeedsApproval) -> None:
        """It waits for a person."""
        self.status, self.approval_required = "pending_approval", held
        self._settled.set()
        told = {name: value for name, value in held.details.items() if name != "token"}  # which is whoever asked's
        self._append_event({"type": "approval", **told}, "approval")

    def resume(self) -> None:
        """It has what it waited for."""
        self.status, self.approval_required = "running", None
        self._settled.clear()
        self._notify()

    def end(self, status: CallStatus, at: str, *, result: Any = None, error: PaddockError | None = None) -> None:
        if reports_unknown_outcome(error, self.id):
            self.in_doubt = True
        elif self.in_doubt and error is not None:
            error = with_unknown_outcome_of(error, self.id, self.context.tenant, self._recovery)
        if error is not None:
            clear_tracebacks(error)
        self.status, self.ended_at, self.result, self.error, self.approval_required = status, at, result, error, None
        if self.in_doubt:
            self.status = "in_doubt"
        self.questions.close()
        # What leads back here is let go: it is kept for a while, and with it would be all that worked on it.
        self._stop = self.on_in_progress = do_nothing
        self._settled.set()
        self._ended.set()
        self._notify()


def do_nothing() -> None:
    """There is nothing to do."""


def _json_size(value: Any) -> int:
    try:
        return len(orjson.dumps(value))
    except (TypeError, orjson.JSONEncodeError):
        return MAX_EVENT_BYTES
