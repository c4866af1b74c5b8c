"""Handle of one call: await, follow, inspect or cancel it while it runs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import orjson

from paddock.approvals.model import ApprovedAction
from paddock.core.call import CallContext
from paddock.core.clock import format_utc
from paddock.core.error_formats import ErrorJson, error_to_json
from paddock.core.errors import NeedsApproval, PaddockError, clear_tracebacks
from paddock.core.ids import CallId
from paddock.core.schema_annotations import DateTime, NonNegativeInt
from paddock.gate.calls.questions import OpenQuestions, QuestionJson
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.effects.approval_preview import PendingApprovalJson, pending_approval_json
from paddock.gate.effects.poll_state import CallProgressJson
from paddock.gate.idempotency.errors import reports_unknown_outcome, with_unknown_outcome_of
from paddock.gate.invocation import CallCancelled, Invocation
from paddock.manifest.model import CallableForm, Recovery

MAX_RETAINED_EVENTS = 256
MAX_RETAINED_EVENT_BYTES = 1024 * 1024  # of one call; the oldest events are dropped first
MAX_EVENT_BYTES = 256 * 1024  # a larger event is dropped: large data belongs in results

CallStatus = Literal["running", "in_progress", "pending_approval", "succeeded", "failed", "in_doubt", "cancelled"]
CallEventKind = Literal["event", "question", "approval"]


class CallEvent(NamedTuple):
    """A numbered event of a call. Only the host creates events of kind `question` and `approval`; plugins cannot."""

    number: int
    data: Mapping[str, Any]
    kind: CallEventKind
    size: int


class CallSummaryJson(TypedDict):
    """A call without its outcome."""

    call_id: str
    plugin: str
    callable: str
    status: CallStatus
    started_at: DateTime
    ended_at: DateTime | None
    error_code: NotRequired[Annotated[str, "The code of its error, such as `policy_denied` if it was denied."]]
    events: Annotated[NonNegativeInt, "The number of events so far."]
    questions: Annotated[list[QuestionJson], "The questions of its plugin that wait for an answer."]


class CallJson(CallSummaryJson):
    """One call."""

    result: NotRequired[Annotated[Any, "The plugin's result, if the call succeeded."]]
    replay_of: NotRequired[Annotated[str, "The earlier call under the same idempotency key, whose result this is."]]
    undisclosed: NotRequired[
        Annotated[list[str], "Sources that it used without disclosing them in its result: `network`, `model`."]
    ]
    error: NotRequired[ErrorJson]
    approval: NotRequired[PendingApprovalJson]
    in_progress: NotRequired[CallProgressJson | None]


class CallHandle:
    """One call, from its start until the registry evicts it.

    A host creates thousands of them a second, so parts that few calls need, such as questions, are created on first
    use.
    """

    __slots__ = (
        "__weakref__",
        "_changed",
        "_count",
        "_ended_at",
        "_event_bytes",
        "_events",
        "_long_running",
        "_on_in_progress",
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
        "id",
        "in_doubt",
        "params",
        "plugin",
        "replay_of",
        "result",
        "retains_result",
        "status",
        "undisclosed",
    )

    def __init__(
        self,
        call_id: CallId,
        target: CallTarget | ApprovedAction,
        context: CallContext,
        started_at: datetime,
        on_in_progress: Callable[[CallHandle], None],
        *,
        retains_result: bool = True,
    ) -> None:
        self.id = call_id
        self.form: CallableForm | None
        self._recovery: Recovery
        if isinstance(target, ApprovedAction):  # it waits for a person, and its plugin is not enabled now
            self.plugin, self.callable, self.form, self._recovery = target.plugin, target.callable, None, "none"
        else:
            self.plugin = target.key.plugin
            self.callable = target.spec.name
            self.form = target.spec.form
            self._recovery = target.spec.recovery
        self.context = context
        self.retains_result = retains_result  # see `CallListener`
        self._started_at = started_at
        self._ended_at: datetime | None = None
        self.status: CallStatus = "running"
        self.params: Mapping[str, Any] | None = None  # until it has ended
        self.result: Any = None
        self.error: PaddockError | None = None
        self.approval_required: NeedsApproval | None = None  # while it waits for approval
        self.replay_of: CallId | None = None  # an earlier call under the same key, whose result it got
        self.undisclosed: tuple[str, ...] = ()  # sources of nondeterminism that it used and did not disclose
        self._long_running = False
        self._on_in_progress = on_in_progress
        self.in_doubt = False  # whether its outcome is unknown
        self._questions: OpenQuestions | None = None
        self._events: deque[CallEvent] | None = None
        self._event_bytes = 0
        self._count = 0
        self._version = 0
        self._changed: asyncio.Event | None = None  # exists while a task waits for a change
        self._settled = False  # whether it has ended or waits for approval
        self.cancel_requested = False
        self._stop: Callable[[], object] = do_nothing

    @property
    def started_at(self) -> str:
        """Start time, in UTC."""
        return format_utc(self._started_at)

    @property
    def ended_at(self) -> str | None:
        """End time, in UTC; None until it has ended."""
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
        """Wait for the result.

        Raises:
            NeedsApproval: the call waits for a person. It continues once it is approved: await `wait_ended`.
            PaddockError: the call failed or was cancelled.
        """
        while not self._settled:
            await self._next_change()
        return self.outcome()

    def outcome(self) -> Any:
        """Return the result so far, or raise the error or the required approval; see `wait`."""
        if self.approval_required is not None:
            # A copy: the traceback of one that is raised refers to frames, and these to this handle.
            raise self.approval_required.with_remedy(
                hint=self.approval_required.hint, action=self.approval_required.action
            )
        if self.error is not None:
            raise self.error
        return self.result

    def cancel(self) -> None:
        """Request its cancellation. Does nothing if it is over."""
        if not self.cancel_requested:
            self.cancel_requested = True
            self._stop()

    async def events(self, after: int = 0) -> AsyncGenerator[CallEvent, None]:
        """Yield the events of the call: first retained ones after this number, then new ones until the call ends."""
        while True:
            for event in tuple(self._events or ()):
                if event.number > after:
                    after = event.number
                    yield event
            # More events may have come while those were consumed, and the end too.
            if self._events and self._events[-1].number > after:
                continue
            if self._ended_at is not None:
                return
            await self._next_change()

    async def wait_changed(self, since: int = -1) -> int:
        """Wait until the version differs from `since` and return the current version; return at once if it is over."""
        while self._version == since and self._ended_at is None:
            await self._next_change()
        return self._version

    def last_events(self, limit: int) -> list[CallEvent]:
        """Return the last retained events, oldest first."""
        return list(self._events or ())[-limit:]

    def summary(self) -> CallSummaryJson:
        """Return the call as JSON data, without its outcome."""
        data: CallSummaryJson = {
            "call_id": self.id,
            "plugin": self.plugin,
            "callable": self.callable,
            "status": self.status,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "events": self._count,
            "questions": [] if self._questions is None else self._questions.to_json(),
        }
        if self.error is not None:
            data["error_code"] = self.error.error_code
        return data

    def to_json(self) -> CallJson:
        """Return the call as JSON data, with its outcome."""
        data: CallJson = {**self.summary()}
        if self.status == "succeeded":
            data["result"] = self.result
        if self.replay_of is not None:
            data["replay_of"] = self.replay_of
        if self.undisclosed:
            data["undisclosed"] = list(self.undisclosed)
        if self.error is not None:
            data["error"] = error_to_json(self.error)
        if self.approval_required is not None:
            approval = pending_approval_json(self.approval_required)
            approval.pop("token", None)  # the caller has it already, and others must not get it
            data["approval"] = approval
        return data

    # --- for the code that runs the call ------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Approximate bytes that it retains, computed on each access."""
        return _json_size(self.result) + self._event_bytes

    def add_event(self, event: Mapping[str, Any]) -> None:
        """Append an event from the plugin."""
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
        """Wait until it has ended, with any status."""
        while self._ended_at is None:
            await self._next_change()

    def begin(self, params: Mapping[str, Any]) -> None:
        """Remember the inputs, until it has ended; an approver may have changed them."""
        self.params = params

    def skip_events(self, count: int) -> None:
        """Number the next event as if there had been so many before."""
        self._count += count

    def set_canceller(self, cancel: Callable[[], object]) -> None:
        """Set the function that stops its work on cancellation; it is called at once if that was requested already."""
        self._stop = cancel
        if self.cancel_requested:
            cancel()

    def on_ended(self, invocation: Invocation) -> None:
        """Copy what the gate knows of the call besides its result."""
        self.replay_of = invocation.replay_of
        self.undisclosed = invocation.undisclosed or ()
        if invocation.status == "in_doubt":
            self.in_doubt = True

    def on_in_doubt(self) -> None:
        """Mark its outcome as unknown."""
        self.in_doubt = True

    @property
    def approval_call_id(self) -> str | None:
        """The call whose approval it waits for: another call if both have the same idempotency key."""
        return None if self.approval_required is None else str(self.approval_required.details["call_id"])

    @property
    def approval_id(self) -> str | None:
        """The approval request that it waits for."""
        return None if self.approval_required is None else str(self.approval_required.details["approval"])

    @property
    def continues_unattended(self) -> bool:
        """Whether it continues without a waiting caller: it waits for approval, or its operator is working on it."""
        return self.approval_required is not None or self._long_running

    def on_disconnect(self) -> None:
        """Cancel the call after its caller has disconnected, unless it continues unattended."""
        if not self.continues_unattended:
            self.cancel()

    def shutdown_error(self) -> CallCancelled:
        """Build the error for callers that wait while the host shuts down."""
        hint = "its operator is still working, and the next daemon polls it; repeat the call with the same key then"
        return CallCancelled("the host went down", hint=hint if self._long_running else "")

    def on_progress(self, unattended: bool = True) -> None:
        """Mark the call as in progress; `unattended` says that it continues without a waiting caller."""
        self.status, self._long_running = "in_progress", unattended
        self._on_in_progress(self)
        self._notify()

    def hold(self, approval_required: NeedsApproval) -> None:
        """Mark the call as waiting for approval. What waits refers to nothing that refers back to it: it is dropped as
        soon as nobody follows it."""
        clear_tracebacks(approval_required)
        self.status, self.approval_required, self._questions = "pending_approval", approval_required, None
        self._settled = True
        # The token is for the requester alone.
        details = {name: value for name, value in approval_required.details.items() if name != "token"}
        self._append_event({"type": "approval", **details}, "approval")

    def resume(self, context: CallContext, target: CallTarget | None = None) -> None:
        """Continue the call, in a context with the current rights of its principal."""
        if target is not None:
            self.form, self._recovery = target.spec.form, target.spec.recovery
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
        self.params = None
        if self._questions is not None:
            self._questions.close()
        # Drop the reference back to the worker: the handle is retained for a while and would keep it alive.
        self._stop = do_nothing
        self._settled = True
        self._notify()


def do_nothing() -> None:
    """Do nothing: the default callback."""


def _json_size(value: Any) -> int:
    try:
        return len(orjson.dumps(value))
    except (TypeError, orjson.JSONEncodeError):
        return MAX_EVENT_BYTES
