"""Calls under way to a plugin: who waits for each, until when, and what is told about it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from paddock.capabilities.asking import Tally
from paddock.core.call import CallContext
from paddock.core.ids import CallId
from paddock.plugins.supervision.questions import Answer, Ask, Question, answer_to
from paddock.rpc.peer import Pending

LONGEST = 900.0
"""Seconds that no call outlives, however much progress it tells about."""

_NEVER = float("inf")

NET = "net"
"""Stands in the tally of a call during which its process used a connection of its own."""

OnEvent: TypeAlias = Callable[[Mapping[str, Any]], None]


class Fate:
    """How far a call got: whether its plugin can have heard of it, and whether it said that it did nothing."""

    __slots__ = ("refused", "sent")

    def __init__(self) -> None:
        self.sent = False
        self.refused = False

    @property
    def known(self) -> bool:
        """Whether it is certain what became of a call that failed: nothing."""
        return self.refused or not self.sent


class Flight:
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
        pending: Pending,
        context: CallContext,
        token: str,
        now: float,
        idle: float,
        effect: bool,
        on_event: OnEvent | None,
        ask: Ask | None = None,
        *,
        effects: frozenset[str] | None = None,
        tally: Tally | None = None,
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
        self.asking: set[asyncio.Task[Answer]] = set()  # questions that wait for their answers
        self.ends: list[Callable[[], None]] = []  # of what is done for it, and no longer than it lasts
        self.begun = False  # whether the plugin is known to work on it; it may wait there for its turn
        self.deadline = now + idle
        self.last = now + LONGEST

    def progressed(self, now: float, event: Mapping[str, Any]) -> None:
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

    def over(self) -> None:
        """Nobody waits any more for the answers to its questions, or for what is done for it."""
        for question in self.asking:
            question.cancel()
        for end in self.ends:
            end()


class Flights:
    """Every call under way to one process, with one timer for all of them: calls are many and rarely run late."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[Flight], None]) -> None:
        self._loop = loop
        self._expire = expire
        self._by_id: dict[int, Flight] = {}
        self._by_token: dict[str, Flight] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = _NEVER
        self._awaited: list[asyncio.Future[None]] = []  # by those who wait for the next to land
        self._last_noted = -1  # the request up to which all have it in their tallies that the network was used

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, request_id: int) -> Flight | None:
        return self._by_id.get(request_id)

    def under(self, token: str) -> Flight | None:
        return self._by_token.get(token)

    def only(self) -> Flight | None:
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
    def acting(self) -> bool:
        """Whether a call under way may change something."""
        return any(flight.effect for flight in self._by_id.values())

    def used_network(self) -> None:
        """The process used a connection of its own. Nobody can tell for which call, so it counts for each under way."""
        # Told of every bit that is carried, so it looks only at those that it has not noted yet, which are the last.
        newest = next(reversed(self._by_id), -1)
        for number, flight in reversed(self._by_id.items()):
            if number <= self._last_noted:
                break
            if flight.tally is not None and not flight.pending.future.done():
                flight.tally[NET] = 1
        self._last_noted = max(self._last_noted, newest)

    def add(self, flight: Flight) -> None:
        self._by_id[flight.pending.id] = flight
        if flight.token:
            self._by_token[flight.token] = flight
        if flight.deadline < self._rings_at:
            self._ring_at(flight.deadline)

    def land(self, flight: Flight) -> None:
        """Nobody waits for it any more."""
        self._by_id.pop(flight.pending.id, None)
        self._by_token.pop(flight.token, None)
        flight.over()
        if self._awaited:
            awaited, self._awaited = self._awaited, []
            for waiter in awaited:
                if not waiter.done():
                    waiter.set_result(None)

    def renew(self, flight: Flight, pending: Pending) -> None:
        """The same call goes on under another request."""
        self._by_id.pop(flight.pending.id, None)
        flight.pending = pending
        flight.deadline = min(self._loop.time() + flight.idle, flight.last)
        self.add(flight)

    async def asked(self, flight: Flight, question: Question) -> Answer:
        """The answer of whoever makes the call. Its time stands still meanwhile; when it ends, the question does."""
        began = self._loop.time()
        asking = self._loop.create_task(answer_to(question, flight.ask))
        flight.asking.add(asking)
        flight.deadline = _NEVER
        try:
            await asyncio.wait({asking})
        finally:
            asking.cancel()  # harmless when it is done
            flight.asking.discard(asking)
            self._time_goes_on(flight, began)
        return Answer("cancel") if asking.cancelled() else asking.result()

    def _time_goes_on(self, flight: Flight, began: float) -> None:
        now = self._loop.time()
        flight.last += now - began
        if not flight.asking and flight.pending.id in self._by_id:
            flight.deadline = min(now + flight.idle, flight.last)
            if flight.deadline < self._rings_at:
                self._ring_at(flight.deadline)

    async def all_landed(self) -> None:
        while self._by_id:
            await self._next_landed()

    def any_ahead_of(self, flight: Flight) -> bool:
        """Whether a call may not have had its turn yet: another that was sent before it is still under way.

        Many plugins do one thing at a time, and hear only between two calls that one of them is not wanted any more.
        """
        return not flight.begun and any(number < flight.pending.id for number in self._by_id)

    async def none_ahead_of(self, flight: Flight) -> None:
        """Wait until all that were sent before a call have landed; each does, when its own time is up."""
        while self.any_ahead_of(flight):
            await self._next_landed()

    async def _next_landed(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._awaited.append(waiter)
        await waiter

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for flight in self._by_id.values():
            flight.over()

    def _ring_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = when
        self._timer = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        """Someone's time may be up. The next ring is for whoever is next."""
        now = self._loop.time()
        self._timer, self._rings_at = None, _NEVER
        for flight in [flight for flight in self._by_id.values() if flight.deadline <= now]:
            self.land(flight)
            self._expire(flight)
        upcoming = min((flight.deadline for flight in self._by_id.values()), default=_NEVER)
        if upcoming < _NEVER:
            self._ring_at(upcoming)
