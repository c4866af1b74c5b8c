"""Ends requests that were not answered in time: a timer for the nearest deadline of each tenant."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from paddock.approvals.deadlines import NearestDeadlines
from paddock.approvals.service import Approvals
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError
from paddock.gate.calls.resume import PendingCallResumer

CHECK_INTERVAL_S: Final = 2.0  # the clock may be set meanwhile
REFRESH_INTERVAL_S: Final = 30.0  # requests of hosts that have gone are found with this delay

_log = logging.getLogger("paddock.gate")


class ApprovalExpiry:
    """Expires requests, and ends the calls that wait for them and are followed here.

    Each host of a database does it, and a request is ended by one of them: the row decides. Tenants take turns, so
    that none waits for the many requests of another.

    Args:
        approvals: The approval requests.
        resumer: Ends their calls.
        deadlines: The nearest deadline of each tenant, which `approvals` keeps up to date.
        clock: The time.
    """

    def __init__(
        self, approvals: Approvals, resumer: PendingCallResumer, deadlines: NearestDeadlines, clock: Clock
    ) -> None:
        self._approvals = approvals
        self._resumer = resumer
        self._deadlines = deadlines
        self._clock = clock

    async def run_forever(self) -> None:
        """Expire requests when they are due."""
        refreshed_at: float | None = None
        while True:
            pause = CHECK_INTERVAL_S
            try:
                if refreshed_at is None or self._clock.monotonic() - refreshed_at >= REFRESH_INTERVAL_S:
                    await self._approvals.refresh_deadlines()
                    refreshed_at = self._clock.monotonic()
                await self.expire_due()
                pause = self._deadlines.seconds_until_next(self._clock.now(), CHECK_INTERVAL_S)
            except PaddockError as error:
                _log.warning("requests could not be expired: %s", error.message)
            await asyncio.sleep(pause)

    async def expire_at_startup(self, seconds: float) -> None:
        """Expire what is due before calls go on, for so long at most: an expired approval cannot be used anyway."""
        try:
            async with asyncio.timeout(seconds):
                await self._approvals.refresh_deadlines()
                await self.expire_due()
        except TimeoutError:
            pass  # `run_forever` goes on
        except PaddockError as error:
            _log.warning("requests could not be expired: %s", error.message)

    async def expire_due(self) -> None:
        """Expire what is due, a few requests of each tenant after the other."""
        while due := self._deadlines.due(self._clock.now()):
            for tenant in due:
                for approval in await self._approvals.expire(tenant):
                    await self._resumer.on_answered(approval)
