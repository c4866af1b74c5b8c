"""Calls under way to a plugin: who waits for each, until when, and what is told about it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from paddock.capabilities.request import MethodCounts
from paddock.core.call import CallContext
from paddock.core.elicitation import AskCaller, Question, QuestionAnswer
from paddock.core.errors import Invalid
from paddock.core.ids import CallId
from paddock.core.schema.compile import compile_schema
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableForm, CallableSpec, Manifest, Timing
from paddock.manifest.permissions import callable_effects
from paddock.rpc.peer import PendingRequest

ANSWER_TIMEOUT_S = 900.0
"""Seconds that a question may wait for its answer; meanwhile the call's own time stands still."""

MAX_ANSWER_ATTEMPTS = 3
"""How often a question is put when its answers do not fit."""


async def request_answer(question: Question, ask: AskCaller | None) -> QuestionAnswer:
    """The answer to a question, checked against what the plugin asked for; put again where it does not fit.

    Declined where there is nobody to ask. Cancelled where the question makes no sense, or nobody answered in time.
    """
    if ask is None:
        return QuestionAnswer("decline")
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return await _ask_until_valid(question, ask)
    except Exception:
        # The plugin did nothing wrong when its question could not be put, and its call goes on.
        return QuestionAnswer("cancel")


async def _ask_until_valid(question: Question, ask: AskCaller) -> QuestionAnswer:
    try:
        wanted = compile_schema(dict(question.schema)) if question.schema is not None else None
    except Invalid:
        return QuestionAnswer("cancel")
    for _ in range(MAX_ANSWER_ATTEMPTS):
        answer = await ask(question)
        if answer.action != "accept":
            return QuestionAnswer(answer.action)
        problems = wanted.errors(dict(answer.content)) if wanted is not None else []
        if not problems:
            return answer
        question = replace(question, problems=tuple(problems))
    return QuestionAnswer("cancel")


MAX_CALL_S = 900.0
"""Seconds that no call outlives, however much progress it tells about."""

_NEVER = float("inf")

NETWORK_TALLY_KEY = "net"
"""Stands in the tally of a call during which its process used a connection of its own."""

OnEvent: TypeAlias = Callable[[Mapping[str, Any]], None]


class DeliveryStatus:
    """How far a call got: whether its plugin can have heard of it, and whether it said that it did nothing."""

    __slots__ = ("refused", "sent")

    def __init__(self) -> None:
        self.sent = False
        self.refused = False

    @property
    def had_no_effect(self) -> bool:
        """Whether it is certain what became of a call that failed: nothing."""
        return self.refused or not self.sent


class InFlightCall:
    """A request that was sent and not yet answered.

    Its deadline measures idleness: every event that the plugin sends for the call moves it.
    """

    __slots__ = (
        "ask",
        "asking",
        "atomic",
        "begun",
        "call",
        "callable",
        "context",
        "deadline",
        "effect",
        "effects",
        "ends",
        "idle",
        "last",
        "on_event",
        "operation",
        "pending",
        "tally",
        "token",
    )

    def __init__(
        self,
        pending: PendingRequest,
        context: CallContext,
        token: str,
        now: float,
        idle: float,
        effect: bool,
        on_event: OnEvent | None,
        ask: AskCaller | None = None,
        *,
        effects: frozenset[str] | None = None,
        tally: MethodCounts | None = None,
        atomic: bool = False,
        call: CallId | None = None,
        callable_name: str = "",
        operation: str | None = None,
    ) -> None:
        self.pending = pending
        self.context = context
        self.token = token  # names the call where the plugin speaks of it; empty for one that knows no tokens
        self.idle = idle
        self.effect = effect
        self.effects = effects  # as in `Asking`
        self.tally = tally
        self.atomic = atomic
        self.call = call
        self.callable = callable_name
        self.operation = operation
        self.on_event = on_event
        self.ask = ask
        self.asking: set[asyncio.Task[QuestionAnswer]] = set()  # questions that wait for their answers
        self.ends: list[Callable[[], None]] = []  # of what is done for it, and no longer than it lasts
        self.begun = False  # whether the plugin is known to work on it; it may wait there for its turn
        self.deadline = now + idle
        self.last = now + MAX_CALL_S

    def on_progress(self, now: float, event: Mapping[str, Any]) -> None:
        """The plugin said something about this call."""
        self.begun = True
        if not self.asking:
            self.deadline = min(now + self.idle, self.last)
        if self.on_event is not None:
            self.on_event(event)

    @contextmanager
    def until_over(self, end: Callable[[], None]) -> Generator[None, None, None]:
        """For as long as the block runs, the end of the call calls this."""
        self.ends.append(end)
        try:
            yield
        finally:
            self.ends.remove(end)

    def release(self) -> None:
        """Nobody waits any more for the answers to its questions, or for what is done for it."""
        for question in self.asking:
            question.cancel()
        for end in self.ends:
            end()


class InFlightCalls:
    """Every call under way to one process, with one timer for all of them: calls are many and rarely run late."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[InFlightCall], None]) -> None:
        self._loop = loop
        self._expire = expire
        self._by_id: dict[int, InFlightCall] = {}
        self._by_token: dict[str, InFlightCall] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER
        self._waiters: list[asyncio.Future[None]] = []  # by those who wait for the next to land
        self._network_noted_to = -1  # the request up to which all have it in their tallies that the network was used

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, request_id: int) -> InFlightCall | None:
        return self._by_id.get(request_id)

    def by_token(self, token: str) -> InFlightCall | None:
        return self._by_token.get(token)

    def only_call(self) -> InFlightCall | None:
        """The one call under way; None where there are several, or none."""
        return next(iter(self._by_id.values())) if len(self._by_id) == 1 else None

    @property
    def effects(self) -> frozenset[str] | None:
        """What the calls under way may do to the world, all together; None where there are none, or one among them
        that declares nothing, as a moment of a session does."""
        # One that was answered is over for the plugin, also where nobody has looked at the answer yet.
        declared = {flight.effects for flight in self._by_id.values() if not flight.pending.future.done()}
        known = [effects for effects in declared if effects is not None]
        return frozenset[str]().union(*known) if len(known) == len(declared) > 0 else None

    @property
    def has_effects(self) -> bool:
        """Whether a call under way may change something."""
        return any(flight.effect for flight in self._by_id.values())

    def note_network_use(self) -> None:
        """The process used a connection of its own. Nobody can tell for which call, so it counts for each under way."""
        # Told of every bit that is carried, so it looks only at those that it has not noted yet, which are the last.
        newest = next(reversed(self._by_id), -1)
        for number, flight in reversed(self._by_id.items()):
            if number <= self._network_noted_to:
                break
            if flight.tally is not None and not flight.pending.future.done():
                flight.tally[NETWORK_TALLY_KEY] = 1
        self._network_noted_to = max(self._network_noted_to, newest)

    def add(self, flight: InFlightCall) -> None:
        self._by_id[flight.pending.id] = flight
        if flight.token:
            self._by_token[flight.token] = flight
        if flight.deadline < self._timer_at:
            self._set_timer(flight.deadline)

    def remove(self, flight: InFlightCall) -> None:
        """Nobody waits for it any more."""
        self._by_id.pop(flight.pending.id, None)
        self._by_token.pop(flight.token, None)
        flight.release()
        if self._waiters:
            awaited, self._waiters = self._waiters, []
            for waiter in awaited:
                if not waiter.done():
                    waiter.set_result(None)

    def rebind(self, flight: InFlightCall, pending: PendingRequest) -> None:
        """The same call goes on under another request."""
        self._by_id.pop(flight.pending.id, None)
        flight.pending = pending
        flight.deadline = min(self._loop.time() + flight.idle, flight.last)
        self.add(flight)

    async def ask_caller(self, flight: InFlightCall, question: Question) -> QuestionAnswer:
        """The answer of whoever makes the call. Its time stands still meanwhile; when it ends, the question does."""
        began = self._loop.time()
        asking = self._loop.create_task(request_answer(question, flight.ask))
        flight.asking.add(asking)
        flight.deadline = _NEVER
        try:
            await asyncio.wait({asking})
        finally:
            asking.cancel()  # harmless when it is done
            flight.asking.discard(asking)
            self._resume_deadline(flight, began)
        return QuestionAnswer("cancel") if asking.cancelled() else asking.result()

    def _resume_deadline(self, flight: InFlightCall, began: float) -> None:
        now = self._loop.time()
        flight.last += now - began
        if not flight.asking and flight.pending.id in self._by_id:
            flight.deadline = min(now + flight.idle, flight.last)
            if flight.deadline < self._timer_at:
                self._set_timer(flight.deadline)

    async def wait_empty(self) -> None:
        while self._by_id:
            await self._wait_removal()

    def has_earlier(self, flight: InFlightCall) -> bool:
        """Whether a call may not have had its turn yet: another that was sent before it is still under way.

        Many plugins do one thing at a time, and hear only between two calls that one of them is not wanted any more.
        """
        return not flight.begun and any(number < flight.pending.id for number in self._by_id)

    async def wait_earlier_done(self, flight: InFlightCall) -> None:
        """Wait until all that were sent before a call have landed; each does, when its own time is up."""
        while self.has_earlier(flight):
            await self._wait_removal()

    async def _wait_removal(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for flight in self._by_id.values():
            flight.release()

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        """Someone's time may be up. The next ring is for whoever is next."""
        now = self._loop.time()
        self._timer, self._timer_at = None, _NEVER
        for flight in [flight for flight in self._by_id.values() if flight.deadline <= now]:
            self.remove(flight)
            self._expire(flight)
        upcoming = min((flight.deadline for flight in self._by_id.values()), default=_NEVER)
        if upcoming < _NEVER:
            self._set_timer(upcoming)


_DEFAULT_TIMEOUT_S = Timing().call
_HARMLESS_EFFECTS = frozenset({Effect.READ_ONLY, Effect.PRODUCE_OUTCOME, Effect.UNKNOWN})


@dataclass(frozen=True, slots=True)
class CallPlan:
    """How to call it."""

    spec: CallableSpec
    method: str  # what it is called where the call is recorded
    idle_timeout_s: float  # seconds without an answer or a sign of progress
    has_effect: bool  # whether stopping it late may do harm
    effects: frozenset[str]  # what it may do to the world, as the rules see it


def plan_call(manifest: Manifest, spec: CallableSpec, default_timeout: float) -> CallPlan:
    """The plan for one callable.

    Args:
        manifest: The plugin's.
        spec: The callable.
        default_timeout: For callables and plugins that do not say how long they may take.
    """
    own = spec.timeout_sec or (manifest.timing.call if manifest.timing.call != _DEFAULT_TIMEOUT_S else default_timeout)
    return CallPlan(
        spec=spec,
        method=spec.name if spec.form is CallableForm.METHOD else f"{manifest.name}.{spec.name}",
        idle_timeout_s=min(float(own), MAX_CALL_S),
        has_effect=not _HARMLESS_EFFECTS.issuperset(spec.effects or ()),
        effects=frozenset(map(str, callable_effects(manifest, spec))),
    )
