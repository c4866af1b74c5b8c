"""Calls that wait for a person: what becomes of them when somebody answers, when nobody does, and after a restart.

Everything that is needed to make a call later lies beside its request, so it does not matter which host answers for it.
Who asked is looked up again, with the rights that they have then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from paddock.core.call import CallContext
from paddock.core.clock import Clock
from paddock.core.errors import Conflict, Denied, PaddockError
from paddock.core.ids import CallId, Tenant
from paddock.gate.calls import Calls
from paddock.gate.catalogue import Target
from paddock.gate.course import CallCancelled
from paddock.gate.gate import Gate
from paddock.gate.held import context_again, waiting
from paddock.gate.live_call import LiveCall
from paddock.policy.approvals.approval import OPEN, Approval, State
from paddock.policy.approvals.desk import Approvals
from paddock.principals.subjects import principal_of
from paddock.store.database import Database

_log = logging.getLogger("paddock.gate")

LOOK_AGAIN = 2.0  # seconds between two looks for requests whose time is over
_LEFT_TO_OTHERS = 3  # looks, for a yes that another host was given, and makes the call with if it lives


class Resumption:
    """Goes on with what waited.

    Args:
        gate: The one door; a call that waited goes through all of it again.
        calls: Where calls are found.
        approvals: Where they wait.
        database: Where whoever asked is looked up.
        clock: The time.
    """

    def __init__(self, gate: Gate, calls: Calls, approvals: Approvals, database: Database, clock: Clock) -> None:
        self._gate = gate
        self._calls = calls
        self._approvals = approvals
        self._database = database
        self._clock = clock
        self._yes_seen: dict[str, int] = {}  # by call that waits here, how many looks found its yes unused

    async def answered(self, approval: Approval) -> LiveCall | None:
        """Somebody answered: make the call, end it, or let it wait for more of them; and those that wait with it.

        Raises:
            PaddockError: it was approved, and what was to be called is not there, or who asked may not act any more.
                The request is void.
        """
        try:
            live = await self._answered(approval)
        except PaddockError as error:
            for other in self._others(approval.call):
                self._calls.give_up(other, error)
            raise
        if not self._calls.going_down:
            for other in self._others(approval.call):
                self._go_with(other, approval, live)
        return live

    async def _answered(self, approval: Approval) -> LiveCall | None:
        tenant = approval.binding.subject.tenant
        live = self._calls.known(approval.call)
        if approval.state not in OPEN:
            # For this neither its plugin nor whoever asked has to be there.
            if live is not None:
                self._give_up(live, approval)
            return live
        if self._calls.going_down:
            return live  # the next host knows what waits, and makes what has its yes
        if live is not None and live.ended_at is not None:
            await self._approvals.withdraw(tenant, live.id, "the call is over")
            return live
        try:
            target, context = self._target(approval), await self._context(approval)
        except PaddockError as error:
            if approval.state is State.PENDING:
                return live  # its plugin may come back
            await self._approvals.void(tenant, approval.id, error.message)
            if live is not None:
                self._calls.give_up(live, error)
            raise
        return self._go_on(approval, target, context)

    def _go_on(self, approval: Approval, target: Target, context: CallContext) -> LiveCall:
        told = waiting(approval, target)
        live = self._calls.held(CallId(approval.call), target, context, told)
        match live.held:
            case None:
                pass  # it goes on already
            case _ if approval.state is State.APPROVED:
                self._calls.go_on(live, target, approval.payload, approval.id)
            case held if held.details["approval"] != approval.id:
                live.hold(told)  # somebody edited it: another request took the place of the one that was told
            case _:
                pass  # more people are needed
        return live

    def _others(self, call: str) -> list[LiveCall]:
        """Those that wait for the request about this call, since they came with the same key."""
        return [live for live in self._calls.all_held() if live.asked_for == call != live.id]

    def _go_with(self, other: LiveCall, approval: Approval, live: LiveCall | None) -> None:
        """Do with a call what becomes of the one whose request it waits for."""
        if approval.state in (State.APPROVED, State.CONSUMED):
            self._calls.join(other)
        elif approval.state is not State.PENDING:
            self._give_up(other, approval)
        elif live is not None and live.held is not None and live.request != other.request:
            other.hold(live.held)  # somebody edited it

    async def cancel(self, live: LiveCall) -> None:
        """Ask for the end of a call, whatever it does: nothing of it waits for a person any more, nor for a host that
        would make it. Harmless when it is over.

        Raises:
            StoreUnavailable: it waits for a person, and still does.
        """
        if live.held is None:
            following = self._gate.following if live.status == "in_progress" else None
            # Whoever waits learns from its end that nobody knows what becomes of the call.
            if following is None or not await following.looks.cancel(live.context.tenant, live.id):
                live.cancel()
            await self._gate.start.withdraw(live.context.tenant, live.id)
            return
        await self._approvals.withdraw(live.context.tenant, live.id, "it was cancelled")
        self._calls.give_up(live, CallCancelled("the call was cancelled"), "cancelled")
        live.cancel()  # it may have gone on meanwhile

    async def come_back(self, plugin: str | None = None) -> None:
        """After a restart: know what waits, and make what was approved meanwhile; of one plugin, or of all there are.

        What belongs to a plugin that is not there waits for it until its time is over.
        """
        async for approval in self._approvals.all_open(plugin):
            if self._is_there(approval):
                try:
                    await self.answered(approval)
                except PaddockError as error:
                    _log.warning("the call %s cannot go on: %s", approval.call, error.message)

    async def see_to_answered(self) -> None:
        """See to the calls that wait here for what was answered or ended elsewhere: by a command, at another host."""
        held = self._calls.all_held()
        still = await self._approvals.waiting() if held else {}
        unused = {live.id for live in held if still.get(live.id) is State.APPROVED}
        self._yes_seen = {call: self._yes_seen.get(call, 0) + 1 for call in unused}
        for live in held:
            asked = str(live.asked_for)
            if asked in still and self._yes_seen.get(live.id, 0) <= _LEFT_TO_OTHERS:
                continue
            latest = await self._approvals.latest_of(live.context.tenant, asked)
            if latest is None or live.held is None:
                continue  # this one may have gone on while we looked
            if latest.state in OPEN:
                await self._go_on_for_another(latest)
            elif asked != live.id:
                self._go_with(live, latest, None)
            elif latest.state is State.CONSUMED:
                self._calls.made_elsewhere(live)
            else:
                self._give_up(live, latest)

    async def _go_on_for_another(self, approval: Approval) -> None:
        """Whoever was given the yes does not use it: their host is gone, or its plugin takes long to start. Where it
        does after all, only one of them can."""
        try:
            await self.answered(approval)
        except PaddockError as error:
            _log.warning("the call %s cannot go on: %s", approval.call, error.message)

    def _give_up(self, live: LiveCall, approval: Approval) -> None:
        if approval.state is State.WITHDRAWN:
            self._calls.give_up(live, CallCancelled("the call was cancelled"), "cancelled")
        else:
            self._calls.give_up(live, ended(approval))

    async def expire_forever(self) -> None:
        """End, again and again, what nobody answered in time, and what could not be ended before."""
        while True:
            try:
                await self._gate.start.end_again()
                await self.see_to_answered()
                await self.expire()
            except PaddockError as error:
                _log.warning("requests could not be looked through: %s", error.message)
            await asyncio.sleep(LOOK_AGAIN)

    async def expire(self, *, came_back: bool = False) -> None:
        """End what nobody answered in time, and the calls that waited for it.

        Args:
            came_back: Whether the host has just started: it knows none of these calls, and whoever made one may ask.
        """
        while over := await self._approvals.expire():
            for approval in over:
                now = await self._approvals.find(approval.binding.subject.tenant, approval.id)
                if came_back:
                    await self._remember(now)
                await self.answered(now)

    async def expire_first(self, seconds: float) -> None:
        """The same before anything goes on after a restart, for so long at most: a yes whose time is over is not good
        anyway, and what is left ends a moment later."""
        try:
            async with asyncio.timeout(seconds):
                await self.expire(came_back=True)
        except (PaddockError, TimeoutError) as error:
            _log.warning("not all requests could be looked through: %s", str(error) or "there are too many")

    async def _remember(self, approval: Approval) -> None:
        with suppress(PaddockError):  # what was to be called is not there, or who asked: then nobody asks for it
            target, context = self._target(approval), await self._context(approval)
            self._calls.held(CallId(approval.call), target, context, waiting(approval, target))

    def _target(self, approval: Approval) -> Target:
        subject = approval.binding.subject
        return self._gate.catalogue(Tenant(subject.tenant)).find_in(subject.plugin, subject.callable)

    def target_of(self, approval: Approval) -> Target | None:
        """What would be called, where it is there and still says of itself what it said when the request was made."""
        try:
            target = self._target(approval)
        except PaddockError:
            return None
        return target if target.definition == approval.binding.subject.definition else None

    def require_valid(self, approval: Approval, payload: Mapping[str, Any]) -> None:
        """Refuse parameters that the call would fail with, before anything is given up for them.

        Raises:
            Invalid: all that is wrong with them.
        """
        target = self.target_of(approval)
        if target is not None:
            self._gate.require_valid(target, payload)

    def _is_there(self, approval: Approval) -> bool:
        try:
            self._target(approval)
        except PaddockError:
            return False
        return True

    async def _context(self, approval: Approval) -> CallContext:
        tenant, now = approval.binding.subject.tenant, self._clock.now()
        name = str(approval.context["principal"])
        principal = await self._database.read(lambda tx: principal_of(tx, name, tenant, now))
        return context_again(approval.context, principal)


def ended(approval: Approval) -> PaddockError:
    """What whoever waits is told of a request that ended without its call."""
    who = ", ".join(answer.by for answer in approval.answers if not answer.approved)
    why = f": {approval.ended_why}" if approval.ended_why else ""
    details = {"approval": approval.id, "call_id": approval.call, "plugin": approval.binding.subject.plugin}
    match approval.state:
        case State.DENIED:
            return Denied(f"{who or 'somebody'} denied it{why}", code="approval.denied", details=details)
        case State.EXPIRED:
            hint = "make the call again to ask once more"
            return Conflict("nobody answered in time", code="approval.expired", hint=hint, details=details)
        case _:
            return Conflict(f"the request is {approval.state}{why}", code=f"approval.{approval.state}", details=details)
