"""One call that can be looked at while it runs: waited for, followed and cancelled, by anybody who knows its id."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

import orjson

from paddock.core.call import CallContext
from paddock.core.clock import format_utc
from paddock.core.error_mapping import error_to_json
from paddock.core.errors import NeedsApproval, PaddockError, clear_tracebacks
from paddock.core.ids import CallId
from paddock.gate.calls.questions import OpenQuestions
from paddock.gate.catalogue.catalogue import CallTarget
from paddock.gate.idempotency.errors import reports_unknown_outcome, with_unknown_outcome_of
from paddock.gate.invocation import CallCancelled, Invocation

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
    """One call, from the moment it was made until it is forgotten.

    A host has thousands of them a second: whatever few calls need, such as questions, is made when it is first used.
    """

    __slots__ = (
        "_changed",
        "_count",
        "_ended_at",
        "_event_bytes",
        "_events",
        "_long_running",
        "_questions",
        "_recovery",
        "_settled",
        "_started_at",
        "_stop",
        "_version",
        "approval_required",
        "callable",
        "cancel_requested",
        "context",
        "error",
        "form",
        "has_slot",
        "id",
        "in_doubt",
        "on_in_progress",
        "plugin",
        "replay_of",
        "result",
        "resume_joined",
        "retains_result",
        "status",
        "undisclosed",
    )

    def __init__(self, call_id: CallId, target: CallTarget, context: CallContext, started_at: datetime) -> None:
        self.id = call_id
        self.plugin = target.key.plugin
        self.callable = target.spec.name
        self.form = target.spec.form
        self._recovery = target.spec.recovery
        self.context = context
        self.retains_result = True  # see `CallListener`
        self._started_at = started_at
        self._ended_at: datetime | None = None
        self.status: CallStatus = "running"
        self.result: Any = None
        self.error: PaddockError | None = None
        self.approval_required: NeedsApproval | None = None  # while it waits for a person
        self.resume_joined: Callable[[], None] | None = None  # makes it, where it waits for another call's approval
        self.replay_of: CallId | None = None  # an earlier call under the same key, whose result it got
        self.undisclosed: tuple[str, ...] = ()  # sources of nondeterminism that it used and did not disclose
        self._long_running = False
        self.has_slot = False  # whether it counts among those in flight
        self.on_in_progress: Callable[[], None] = do_nothing
        self.in_doubt = False  # whether its outcome is unknown
        self._questions: OpenQuestions | None = None
        self._events: deque[CallEvent] | None = None
        self._event_bytes = 0
        self._count = 0
        self._version = 0
        self._changed: asyncio.Event | None = None  # while somebody waits
        self._settled = False  # whether it has ended, or waits for a person
        self.cancel_requested = False
        self._stop: Callable[[], object] = do_nothing

    @property
    def started_at(self) -> str:
        """When it was made, in UTC."""
        return format_utc(self._started_at)

    @property
    def ended_at(self) -> str | None:
        """When it ended, in UTC; None as long as it has not."""
        return None if self._ended_at is None else format_utc(self._ended_at)

    @property
    def questions(self) -> OpenQuestions:
        """The questions that its plugin asks the caller."""
        if self._questions is None:
            self._questions = OpenQuestions({"call_id": self.id, "plugin": self.plugin}, self._add_question)
            if self._ended_at is not None:
                self._questions.close()
        return self._questions

    async def wait(self) -> Any:
        """The result.

        Raises:
            NeedsApproval: the call waits for a person. It goes on once it has their yes: wait for it to be `over`.
            PaddockError: the call failed or was cancelled.
        """
        while not self._settled:
            await self._next_change()
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
            for event in tuple(self._events or ()):
                if event.number > after:
                    after = event.number
                    yield event
            # More may have come while those were taken, the end among it.
            if self._events and self._events[-1].number > after:
                continue
            if self._ended_at is not None:
                return
            await self._next_change()

    async def wait_changed(self, since: int = -1) -> int:
        """Wait until anything of it is not as it was at that count of changes, and give the count now; at once where it
        is over."""
        while self._version == since and self._ended_at is None:
            await self._next_change()
        return self._version

    def last_events(self, limit: int) -> list[CallEvent]:
        """The last of what was told about it, oldest first, as far as it is kept."""
        return list(self._events or ())[-limit:]

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
            "questions": [] if self._questions is None else self._questions.to_json(),
        }

    def to_json(self) -> dict[str, Any]:
        """The call as data."""
        data = self.summary()
        if self.status == "succeeded":
            data["result"] = self.result
        if self.replay_of is not None:
            data["replay_of"] = self.replay_of
        if self.undisclosed:
            data["undisclosed"] = list(self.undisclosed)
        if self.error is not None:
            data["error"] = error_to_json(self.error)
        if self.approval_required is not None:
            data["approval"] = {
                name: value for name, value in self.approval_required.details.items() if name != "token"
            }
        return data

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
        if self._events is None:
            self._events = deque()
        if size <= MAX_EVENT_BYTES:
            self._events.append(CallEvent(self._count, event, kind, size))
            self._event_bytes += size
        while len(self._events) > MAX_RETAINED_EVENTS or self._event_bytes > MAX_RETAINED_EVENT_BYTES:
            self._event_bytes -= self._events.popleft().size
        self._notify()

    def _notify(self) -> None:
        self._version += 1
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def _next_change(self) -> None:
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._ended_at is not None

    async def wait_ended(self) -> None:
        """Wait for its end, whatever it is."""
        while self._ended_at is None:
            await self._next_change()

    def set_canceller(self, cancel: Callable[[], object]) -> None:
        """What ends the work on it, once somebody asks for that; at once where somebody has."""
        self._stop = cancel
        if self.cancel_requested:
            cancel()

    def on_ended(self, invocation: Invocation) -> None:
        """Take over what the gate knows of the call beside its result."""
        self.replay_of = invocation.replay_of
        self.undisclosed = invocation.undisclosed or ()
        if invocation.status == "in_doubt":
            self.in_doubt = True

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
        hint = "its operator is still at work, and the next daemon follows it: ask again then, with the same key"
        return CallCancelled("the host went down", hint=hint if self._long_running else "")

    def on_progress(self, unattended: bool = True) -> None:
        """The operator is still at work; `unattended`: the call goes on when nobody waits for it."""
        self.status, self._long_running = "in_progress", unattended
        self.on_in_progress()
        self._notify()

    def hold(self, approval_required: NeedsApproval) -> None:
        """It waits for a person."""
        self.status, self.approval_required = "pending_approval", approval_required
        self._settled = True
        details = {
            name: value for name, value in approval_required.details.items() if name != "token"
        }  # which is whoever asked's
        self._append_event({"type": "approval", **details}, "approval")

    def resume(self, context: CallContext) -> None:
        """The call goes on, in a context with the rights that its principal has by now."""
        self.status, self.approval_required, self.context = "running", None, context
        self._settled = False
        self._notify()

    def end(
        self, status: CallStatus, ended_at: datetime, *, result: Any = None, error: PaddockError | None = None
    ) -> None:
        if reports_unknown_outcome(error, self.id):
            self.in_doubt = True
        elif self.in_doubt and error is not None:
            error = with_unknown_outcome_of(error, self.id, self.context.tenant, self._recovery)
        if error is not None:
            clear_tracebacks(error)
        self.status, self._ended_at, self.result, self.error, self.approval_required = (
            status,
            ended_at,
            result,
            error,
            None,
        )
        if self.in_doubt:
            self.status = "in_doubt"
        if self._questions is not None:
            self._questions.close()
        # What leads back here is let go: it is kept for a while, and with it would be all that worked on it.
        self._stop = self.on_in_progress = do_nothing
        self._settled = True
        self._notify()


def do_nothing() -> None:
    """There is nothing to do."""


def _json_size(value: Any) -> int:
    try:
        return len(orjson.dumps(value))
    except (TypeError, orjson.JSONEncodeError):
        return MAX_EVENT_BYTES
