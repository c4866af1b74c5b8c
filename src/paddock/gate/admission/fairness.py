"""Fair scheduling between tenants: bounds how many calls of one tenant start at the same time.

All calls share one event loop, which runs ready work first in, first out. A tenant with a hundred calls in flight would
put a hundred pieces of work before another tenant's single one. So while more than one tenant makes calls, the host
works on only a few calls of each tenant at a time, and the tenant's other calls wait for these. A call that runs for
longer than a moment is waiting for its plugin and uses no CPU time of the host: it no longer counts. A tenant never
waits for another tenant's calls, and a tenant that is alone never waits.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct, field

from paddock.core.ids import Tenant

MAX_STARTING_PER_TENANT = 4
"""Calls of one tenant that may start before one of them ends; fewer would leave the plugin idle between two calls."""

SHORT_CALL_S = 0.02  # a call that runs longer than this no longer counts
TENANT_ACTIVE_S = 60.0  # how long a tenant counts as active after its last call


class _TenantQueue(Struct):
    """One tenant's calls: start times of those that count, and the futures of those that wait to start."""

    begun: deque[float] = field(default_factory=deque[float])
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque[asyncio.Future[None]])
    timer: asyncio.TimerHandle | None = None


class FairScheduler:
    """Admits the calls of one event loop so that each tenant gets its fair share.

    Args:
        monotonic: Returns the monotonic time, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last: Tenant | None = None
        self._shared_until = 0.0
        self._queues: dict[Tenant, _TenantQueue] = {}

    def enter(self, tenant: Tenant) -> asyncio.Future[None] | None:
        """Admit a call: None if it may start now, otherwise a future to await before it starts."""
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

    def leave(self, tenant: Tenant, started_at: float) -> None:
        """Release the place of a call that has ended and admit waiting calls; `started_at` is monotonic."""
        queue = self._queues.get(tenant)
        if queue is None:
            return
        now = self._monotonic()
        if queue.begun and now - started_at < SHORT_CALL_S:
            queue.begun.popleft()
        self._admit_waiting(tenant, queue, now)

    def _admit_waiting(self, tenant: Tenant, queue: _TenantQueue, now: float) -> None:
        self._drop_slow(queue, now)
        alone = now >= self._shared_until
        while queue.waiting and (alone or len(queue.begun) < MAX_STARTING_PER_TENANT):
            turn = queue.waiting.popleft()
            if not turn.done():  # the waiting caller may have been cancelled
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
        """Set a timer for the moment when the oldest call stops counting, since no call may end before then."""
        if queue.timer is None:
            delay_s = max(0.001, queue.begun[0] + SHORT_CALL_S - now) if queue.begun else 0.0
            queue.timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer, tenant, queue)

    def _on_timer(self, tenant: Tenant, queue: _TenantQueue) -> None:
        queue.timer = None
        self._admit_waiting(tenant, queue, self._monotonic())
