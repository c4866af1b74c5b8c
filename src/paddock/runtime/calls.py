"""In-flight calls of one plugin process: their plans, deadlines, progress events and questions to the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from paddock.capabilities.request import MethodCounts
from paddock.core.call import CallContext
from paddock.core.elicitation import AskCaller, Question, QuestionAnswer
from paddock.core.errors import Invalid
from paddock.core.ids import CallId, RequestId
from paddock.core.schema.compile import compile_schema
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableForm, CallableSpec, Manifest, Timing
from paddock.manifest.permissions import callable_effects
from paddock.rpc.peer import PendingRequest

MAX_CALL_S = 900.0
"""Seconds after which every call ends, however much progress it reports."""

_LATE_LOG_LINE_S = 0.2  # standard error is read beside the answers
_NEVER = float("inf")

NETWORK_COUNT_KEY = "net"
"""Key in the method counts of a call during which its process used a network connection of its own."""

OnEvent: TypeAlias = Callable[[Mapping[str, Any]], None]


class DeliveryStatus(Struct):
    """How far a call got that failed."""

    sent: bool = False  # whether the plugin can have received it
    answered: bool = False  # whether the plugin itself answered with an error
    refused: bool = False  # whether it said that nothing happened


class InFlightCall:
    """A request that was sent and not yet answered.

    Its deadline measures idleness: every event that the plugin sends for the call moves it.
    """

    __slots__ = (
        "ask",
        "atomic",
        "call",
        "callable",
        "context",
        "deadline",
        "effect",
        "effects",
        "end_callbacks",
        "hard_deadline",
        "idle_timeout_s",
        "method_counts",
        "on_event",
        "operation",
        "pending",
        "question_tasks",
        "started",
        "token",
    )

    def __init__(
        self,
        pending: PendingRequest,
        context: CallContext,
        token: str,
        now: float,
        idle_timeout_s: float,
        effect: bool,
        on_event: OnEvent | None,
        ask: AskCaller | None = None,
        *,
        effects: frozenset[str] | None = None,
        method_counts: MethodCounts | None = None,
        atomic: bool = False,
        call: CallId | None = None,
        callable_name: str = "",
        operation: str | None = None,
    ) -> None:
        self.pending = pending
        self.context = context
        self.token = token  # names the call in the plugin's messages; empty for a plugin without call tokens
        self.idle_timeout_s = idle_timeout_s
        self.effect = effect
        self.effects = effects  # see `CapabilityRequest.effects`
        self.method_counts = method_counts
        self.atomic = atomic
        self.call = call
        self.callable = callable_name
        self.operation = operation
        self.on_event = on_event
        self.ask = ask
        self.question_tasks: set[asyncio.Task[QuestionAnswer]] = set()  # tasks of questions that wait for their answers
        self.end_callbacks: list[Callable[[], None]] = []  # callbacks that end work done on behalf of this call
        self.started = False  # whether the plugin is known to work on it; until then it may be queued there
        self.deadline = now + idle_timeout_s
        self.hard_deadline = now + MAX_CALL_S

    def on_progress(self, now: float, event: Mapping[str, Any]) -> None:
        """Handle an event that the plugin sent for this call: extend the deadline and pass the event on."""
        self.started = True
        if not self.question_tasks:
            self.deadline = min(now + self.idle_timeout_s, self.hard_deadline)
        if self.on_event is not None:
            self.on_event(event)

    @contextmanager
    def until_over(self, end: Callable[[], None]) -> Generator[None, None, None]:
        """Call `end` if the call ends while the block runs."""
        self.end_callbacks.append(end)
        try:
            yield
        finally:
            self.end_callbacks.remove(end)

    def release(self) -> None:
        """Cancel the call's open questions and end the work done on its behalf."""
        for question in self.question_tasks:
            question.cancel()
        for end in self.end_callbacks:
            end()


class InFlightCalls:
    """All in-flight calls of one process. One timer serves all of them: calls are many and rarely run late."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[InFlightCall], None]) -> None:
        self._loop = loop
        self._expire = expire
        self._by_id: dict[int, InFlightCall] = {}
        self._by_token: dict[str, InFlightCall] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER
        self._waiters: list[asyncio.Future[None]] = []  # of tasks that wait for the next call to end
        self._last_alone: tuple[float, RequestId] | None = None  # when a call ended that was the only one, and its id
        self._network_noted_to = -1  # highest request id whose call was already marked as using the network

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, request_id: int) -> InFlightCall | None:
        return self._by_id.get(request_id)

    def by_token(self, token: str) -> InFlightCall | None:
        return self._by_token.get(token)

    def only_call(self) -> InFlightCall | None:
        """Return the call if exactly one is in flight, else None."""
        return next(iter(self._by_id.values())) if len(self._by_id) == 1 else None

    def request_of_log_line(self) -> RequestId | None:
        """Return the request that a line of standard error belongs to: that of the only call in flight.

        A line may be read just after the answer that was written after it.
        """
        if (only := self.only_call()) is not None:
            return only.context.request
        if self._by_id or self._last_alone is None:
            return None
        ended_at, request = self._last_alone
        return request if self._loop.time() - ended_at <= _LATE_LOG_LINE_S else None

    @property
    def effects(self) -> frozenset[str] | None:
        """The union of the effects that the in-flight calls declare.

        None if there are no calls, or if one of them declares nothing, as a hook call does.
        """
        # An answered call is over for the plugin, even if the answer was not processed yet.
        declared = {call.effects for call in self._by_id.values() if not call.pending.future.done()}
        known_effects = [effects for effects in declared if effects is not None]
        return frozenset[str]().union(*known_effects) if len(known_effects) == len(declared) > 0 else None

    @property
    def has_effects(self) -> bool:
        """Whether any in-flight call may change something."""
        return any(call.effect for call in self._by_id.values())

    def note_network_use(self) -> None:
        """Record that the process used the network. It is unknown for which call, so it counts for all in flight."""
        # Called for every chunk of traffic, so it visits only calls not marked yet. Those are the newest.
        newest = next(reversed(self._by_id), -1)
        for request_id, call in reversed(self._by_id.items()):
            if request_id <= self._network_noted_to:
                break
            if call.method_counts is not None and not call.pending.future.done():
                call.method_counts[NETWORK_COUNT_KEY] = 1
        self._network_noted_to = max(self._network_noted_to, newest)

    def add(self, call: InFlightCall) -> None:
        self._by_id[call.pending.id] = call
        if call.token:
            self._by_token[call.token] = call
        if call.deadline < self._timer_at:
            self._set_timer(call.deadline)

    def remove(self, call: InFlightCall) -> None:
        """Forget a call that nobody waits for any more, and wake the tasks that wait for a removal."""
        self._last_alone = (self._loop.time(), call.context.request) if len(self._by_id) == 1 else None
        self._by_id.pop(call.pending.id, None)
        self._by_token.pop(call.token, None)
        call.release()
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def rebind(self, call: InFlightCall, pending: PendingRequest) -> None:
        """Continue the same call under another request."""
        self._by_id.pop(call.pending.id, None)
        call.pending = pending
        call.deadline = min(self._loop.time() + call.idle_timeout_s, call.hard_deadline)
        self.add(call)

    async def ask_caller(self, call: InFlightCall, question: Question) -> QuestionAnswer:
        """Ask the caller of this call. The call's deadline is suspended meanwhile; when the call ends, so does the
        question."""
        started_at = self._loop.time()
        question_task = self._loop.create_task(request_answer(question, call.ask))
        call.question_tasks.add(question_task)
        call.deadline = _NEVER
        try:
            await asyncio.wait({question_task})
        finally:
            question_task.cancel()  # harmless when it is done
            call.question_tasks.discard(question_task)
            self._resume_deadline(call, started_at)
        return QuestionAnswer("cancel") if question_task.cancelled() else question_task.result()

    async def ask(self, request_id: int | None, question: Question) -> QuestionAnswer:
        """Ask the caller of the call with this request id. Without an id it is the only call in flight; if that is
        ambiguous, the question is cancelled."""
        call = self.get(request_id) if request_id is not None else self.only_call()
        return await self.ask_caller(call, question) if call is not None else QuestionAnswer("cancel")

    def _resume_deadline(self, call: InFlightCall, started_at: float) -> None:
        now = self._loop.time()
        call.hard_deadline += now - started_at
        if not call.question_tasks and call.pending.id in self._by_id:
            call.deadline = min(now + call.idle_timeout_s, call.hard_deadline)
            if call.deadline < self._timer_at:
                self._set_timer(call.deadline)

    async def wait_empty(self) -> None:
        while self._by_id:
            await self._wait_removal()

    def has_earlier(self, call: InFlightCall) -> bool:
        """Whether a call may still be queued in the plugin because one that was sent before it is still in flight.

        Many plugins process one call at a time, and read a cancellation only between two calls.
        """
        return not call.started and any(request_id < call.pending.id for request_id in self._by_id)

    async def wait_earlier_done(self, call: InFlightCall) -> None:
        """Wait until all calls sent before this one have ended. Each does, at the latest at its own deadline."""
        while self.has_earlier(call):
            await self._wait_removal()

    async def _wait_removal(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for call in self._by_id.values():
            call.release()

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        """Expire the calls that are due and set the timer for the next deadline."""
        now = self._loop.time()
        self._timer, self._timer_at = None, _NEVER
        for call in [call for call in self._by_id.values() if call.deadline <= now]:
            self.remove(call)
            self._expire(call)
        upcoming = min((call.deadline for call in self._by_id.values()), default=_NEVER)
        if upcoming < _NEVER:
            self._set_timer(upcoming)


_DEFAULT_TIMEOUT_S = Timing().call
_HARMLESS_EFFECTS = frozenset({Effect.READ_ONLY, Effect.PRODUCE_OUTCOME, Effect.UNKNOWN})


class CallPlan(Struct, frozen=True):
    """How to call one callable: its audit name, timeout and effects."""

    spec: CallableSpec
    method: str  # its name in the audit log
    idle_timeout_s: float  # seconds without an answer or a progress event
    has_effect: bool  # whether it may change something, so that stopping it late may do harm
    effects: frozenset[str]  # its effects as policy sees them


def plan_call(manifest: Manifest, spec: CallableSpec, default_timeout: float) -> CallPlan:
    """Build the plan for one callable.

    Args:
        manifest: The plugin's manifest.
        spec: The callable.
        default_timeout: Used if neither the callable nor the plugin declares a timeout.
    """
    timeout_s = spec.timeout_sec or (
        manifest.timing.call if manifest.timing.call != _DEFAULT_TIMEOUT_S else default_timeout
    )
    return CallPlan(
        spec=spec,
        method=spec.name if spec.form is CallableForm.METHOD else f"{manifest.name}.{spec.name}",
        idle_timeout_s=min(float(timeout_s), MAX_CALL_S),
        has_effect=not _HARMLESS_EFFECTS.issuperset(spec.effects or ()),
        effects=frozenset(map(str, callable_effects(manifest, spec))),
    )


ANSWER_TIMEOUT_S = 900.0
"""Seconds that a question may wait for its answer. The call's own deadline is suspended meanwhile."""
MAX_ANSWER_ATTEMPTS = 3
"""How often a question is asked when its answers do not match its schema."""


async def request_answer(question: Question, ask: AskCaller | None) -> QuestionAnswer:
    """Ask the caller a question and validate the answer against the plugin's schema; ask again if it does not match.

    Returns `decline` if there is no caller to ask, and `cancel` if the question's schema is invalid or no valid answer
    came in time.
    """
    if ask is None:
        return QuestionAnswer("decline")
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return await _ask_until_valid(question, ask)
    except Exception:
        # The plugin is not at fault if its question could not be asked, so its call goes on.
        return QuestionAnswer("cancel")


async def _ask_until_valid(question: Question, ask: AskCaller) -> QuestionAnswer:
    try:
        schema = compile_schema(dict(question.schema)) if question.schema is not None else None
    except Invalid:
        return QuestionAnswer("cancel")
    for _ in range(MAX_ANSWER_ATTEMPTS):
        answer = await ask(question)
        if answer.action != "accept":
            return QuestionAnswer(answer.action)
        problems = schema.errors(dict(answer.content)) if schema is not None else []
        if not problems:
            return answer
        question = replace(question, problems=tuple(problems))
    return QuestionAnswer("cancel")
