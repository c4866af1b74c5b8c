"""What callers may use, for whoever exposes it in other words than ours: found, listed and called by its target."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from paddock.core.call import CallContext
from paddock.core.errors import Busy, NeedsApproval
from paddock.core.ids import CallId, Tenant
from paddock.gate.calls import Calls
from paddock.gate.catalogue import Catalogue, Target
from paddock.gate.claiming import Claims
from paddock.gate.gate import Gate
from paddock.gate.live_call import LiveCall
from paddock.gate.offering import Offered, offered_to
from paddock.host.reconciling import Reconciler
from paddock.host.rulebook import Rulebook
from paddock.plugins.supervision.flight import OnEvent
from paddock.plugins.supervision.questions import Ask


class Exposing:
    """Everything of the catalogues that the rules do not keep from a caller.

    Args:
        gate: The one door.
        calls: Where calls are found that wait for a person.
        claims: Gives such a call to whoever comes back for it.
        rules: What decides.
        reconciler: Replaces the catalogues.
    """

    def __init__(self, gate: Gate, calls: Calls, claims: Claims, rules: Rulebook, reconciler: Reconciler) -> None:
        self._gate = gate
        self._calls = calls
        self._claims = claims
        self._rules = rules
        self._reconciler = reconciler
        self._under_way: set[asyncio.Task[Any]] = set()  # what each is made in; a task makes one at a time

    def catalogue(self, tenant: Tenant) -> Catalogue:
        """What there is for a tenant right now. A new one takes its place when that changes."""
        return self._gate.catalogue(tenant)

    @property
    def rules(self) -> object:
        """The rules that are in force. Others take their place when they change."""
        return self._rules.policy

    def when_changed(self, tell: Callable[[], None]) -> None:
        """Have it told each time that a catalogue or the rules are replaced."""
        self._reconciler.on_offered = tell
        self._rules.on_changed = tell

    async def offered(self, context: CallContext, targets: Iterable[Target]) -> list[Offered]:
        """Those that whoever acts in this context may call or read."""
        return await offered_to(context, targets, self._gate.decides)

    async def call(
        self,
        target: Target,
        params: Mapping[str, Any],
        context: CallContext,
        *,
        on_event: OnEvent | None = None,
        ask: Ask | None = None,
    ) -> Any:
        """Call or read something and wait for the result. See `Host.call`.

        Raises:
            Busy: the host is going down.
        """
        if self._calls.going_down:
            raise Busy("the host is shutting down", code="host.draining", hint="try again when it is back")
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        try:
            return await self._gate.call(target, params, context, on_event=on_event, ask=ask)
        except NeedsApproval as held:
            self._calls.held(CallId(held.details["call_id"]), target, context, held)
            raise
        finally:
            self._under_way.discard(task)

    async def drain(self, seconds: float) -> None:
        """Give those under way this long. No new ones are taken, once `calls` takes none."""
        if self._under_way:
            _, late = await asyncio.wait(tuple(self._under_way), timeout=seconds)
            for task in late:
                task.cancel()

    async def claimed(self, token: str, target: Target, params: Mapping[str, Any], context: CallContext) -> LiveCall:
        """The call that waited for a person and that this token was given out for. See `Claims.claim`."""
        return await self._claims.claim(token, target, params, context)
