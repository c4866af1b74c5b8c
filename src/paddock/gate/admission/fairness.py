"""Whose calls begin next, where several tenants make calls at the same time.

All calls share one event loop, which does what is ready in the order in which it became so. A tenant with a hundred
calls under way would have a hundred pieces of work stand before another's single one. So as long as more than one
tenant calls, each has only a few calls at a time in the hands of the host, and its others wait for these. A call that
is under way for longer than a moment waits for its plugin and takes nobody's time: it does not count any more. A tenant
never waits for another one's calls, and one that is alone waits for nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from paddock.core.ids import Tenant

MAX_STARTING_PER_TENANT = 4
"""Calls of one tenant that begin before one of them has ended; fewer would leave the plugin idle between two."""

SHORT_CALL_S = 0.02  # seconds after which a call does not count any more
TENANT_ACTIVE_S = 60.0  # seconds for which a tenant counts as one that calls


@dataclass(slots=True)
class _TenantQueue:
    """One tenant's calls: when those that count began, and who waits to begin."""

    begun: deque[float] = field(default_factory=deque[float])
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque[asyncio.Future[None]])
    timer: asyncio.TimerHandle | None = None


class FairScheduler:
    """Takes turns for the calls of one event loop.

    Args:
        monotonic: The time, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last: Tenant | None = None
        self._shared_until = 0.0
        self._queues: dict[Tenant, _TenantQueue] = {}

    def enter(self, tenant: Tenant) -> asyncio.Future[None] | None:
        """Begin a call: now, or once what this gives is done."""
        now = self._monotonic()
        if tenant != self._last:
            if self._last is not None:
                self._shared_until = now + TENANT_ACTIVE_S
            self._last = tenant
        if now >= self._shared_until:
            return None
        queue = self._queues.get(tenant)
        if queue is None:
            queue = self._queues[tenant] = _TenantQueue()
        self._drop_slow(queue, now)
        if len(queue.begun) < MAX_STARTING_PER_TENANT and not queue.waiting:
            queue.begun.append(now)
            return None
        turn = asyncio.get_running_loop().create_future()
        queue.waiting.append(turn)
        self._schedule_check(tenant, queue, now)
        return turn

    def leave(self, tenant: Tenant, began: float) -> None:
        """A call has ended that began then."""
        queue = self._queues.get(tenant)
        if queue is None:
            return
        now = self._monotonic()
        if queue.begun and now - began < SHORT_CALL_S:
            queue.begun.popleft()
        self._admit_waiting(tenant, queue, now)

    def _admit_waiting(self, tenant: Tenant, queue: _TenantQueue, now: float) -> None:
        self._drop_slow(queue, now)
        alone = now >= self._shared_until
        while queue.waiting and (alone or len(queue.begun) < MAX_STARTING_PER_TENANT):
            turn = queue.waiting.popleft()
            if not turn.done():  # whoever waited may have gone
                turn.set_result(None)
                queue.begun.append(now)
        if queue.waiting:
            self._schedule_check(tenant, queue, now)
        elif not queue.begun and queue.timer is None:
            del self._queues[tenant]

    def _drop_slow(self, queue: _TenantQueue, now: float) -> None:
        while queue.begun and now - queue.begun[0] >= SHORT_CALL_S:
            queue.begun.popleft()

    def _schedule_check(self, tenant: Tenant, queue: _TenantQueue, now: float) -> None:
        """Nobody may end for a while: look again when the first of those that count does not any more."""
        if queue.timer is None:
            after = max(0.001, queue.begun[0] + SHORT_CALL_S - now) if queue.begun else 0.0
            queue.timer = asyncio.get_running_loop().call_later(after, self._on_timer, tenant, queue)

    def _on_timer(self, tenant: Tenant, queue: _TenantQueue) -> None:
        queue.timer = None
        self._admit_waiting(tenant, queue, self._monotonic())
