"""How many calls may be under way: for one plugin, for one tenant, and in all.

No tenant may have more under way than there are seats left. So the first few take as many as they may, the next gets
half of what they leave, and the one after that half of the rest: however greedy they are, a newcomer finds a seat.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from paddock.core.errors import Busy
from paddock.core.ids import Tenant
from paddock.runtime.deployment import InstanceKey

MAX_CALLS_PER_PLUGIN = 64
MAX_CALLS_PER_TENANT = 128
MAX_CALLS = 512


class ConcurrencyLimiter:
    """Taken when a call begins and given back when it ends."""

    def __init__(self) -> None:
        self._by_tenant: Counter[Tenant] = Counter()
        self._total = 0

    def acquire(self, key: InstanceKey, in_flight: int) -> None:
        """Take a seat for a call to this plugin, which has so many under way.

        Raises:
            Busy: there is none left.
        """
        of_tenant = self._by_tenant[key.tenant]
        if (
            in_flight >= MAX_CALLS_PER_PLUGIN
            or of_tenant >= MAX_CALLS_PER_TENANT
            or of_tenant >= MAX_CALLS - self._total
        ):
            raise self._busy_error(key, in_flight, of_tenant)
        self._by_tenant[key.tenant] = of_tenant + 1
        self._total += 1

    def release(self, key: InstanceKey) -> None:
        self._by_tenant[key.tenant] -= 1
        self._total -= 1

    def _busy_error(self, key: InstanceKey, in_flight: int, of_tenant: int) -> Busy:
        if in_flight >= MAX_CALLS_PER_PLUGIN:
            what = f"{key.plugin} works on {in_flight} calls"
        elif of_tenant >= MAX_CALLS_PER_TENANT:
            what = f"{of_tenant} calls of yours are under way"
        else:
            yours = f", {of_tenant} of them yours" if of_tenant else ""
            what = f"this host works on {self._total} calls{yours}"
        return Busy(f"{what} already", hint="try again when some of them are done", details={"plugin": key.plugin})


MAX_CONCURRENT_STARTS = 2
MAX_PERMIT_S = 1.0
SPACING_FACTOR = 3.0  # times as long as a start takes: so far apart are those of plugins that crashed
MAX_SPACING_S = 0.15
_SMOOTHING_STARTS = 8  # over about how many starts it is told how long one takes


class StartThrottle:
    """Lets two starts through at a time, and spreads those of plugins that crashed.

    Starting interpreters is what costs a machine its quickness: fifty plugins that crash together would keep every
    core busy, again and again. A turn lasts until the plugin answered its handshake, but never long: one that hangs,
    in its handshake or before it has a process at all, holds up nobody.
    """

    def __init__(self) -> None:
        self._semaphore = asyncio.Semaphore(MAX_CONCURRENT_STARTS)
        self._mean_start_s = 0.0  # seconds, the last ones counting most
        self._reservations: list[float] = []  # when plugins that crashed start again, the next one first

    def reserve_restart(self, now: float, earliest: float) -> float:
        """When one that crashed may start again: at the earliest time at which no other one does.

        Whoever then does not come leaves a gap, and holds up nobody.
        """
        apart = min(SPACING_FACTOR * self._mean_start_s, MAX_SPACING_S)
        self._reservations = [at for at in self._reservations if at > now - apart]
        found = earliest
        for at in self._reservations:
            if at - apart < found < at + apart:
                found = at + apart
        insort(self._reservations, found)
        return found

    @asynccontextmanager
    async def acquire_permit(self) -> AsyncGenerator[StartPermit, None]:
        """A turn that is given back when the block ends, or earlier through `Turn.over`."""
        turn = StartPermit(self._semaphore, self._record_duration)
        await turn.reacquire()
        try:
            yield turn
        finally:
            turn.release()

    def _record_duration(self, took: float) -> None:
        self._mean_start_s += (took - self._mean_start_s) / _SMOOTHING_STARTS


class StartPermit:
    """The right to be starting; `note` is told how long it was held."""

    def __init__(self, turns: asyncio.Semaphore, note: Callable[[float], None]) -> None:
        self._semaphore = turns
        self._record_duration = note
        self._since: float | None = None  # while it is held
        self._timer: asyncio.TimerHandle | None = None

    async def reacquire(self) -> None:
        """Wait for the turn, where it is not held: it was never given, or was over before its owner got to use it."""
        self._cancel_timer()
        if self._since is None:
            await self._semaphore.acquire()
            self._since = asyncio.get_running_loop().time()

    def limit_duration(self) -> None:
        """Something is under way that may hang; from now on the turn lasts a moment longer at most."""
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(MAX_PERMIT_S, self.release)

    def release(self) -> None:
        """Let the next one start. Harmless the second time."""
        self._cancel_timer()
        if self._since is not None:
            self._record_duration(asyncio.get_running_loop().time() - self._since)
            self._since = None
            self._semaphore.release()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
