"""The nearest deadline of each tenant: one timer a tenant, however many of its requests wait. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime


class NearestDeadlines:
    """When the first open request of each tenant expires, as far as this host knows."""

    def __init__(self) -> None:
        self._nearest: dict[str, str] = {}

    def note(self, tenant: str, expires_at: str) -> None:
        """Note the deadline of a new request."""
        self._nearest[tenant] = min(expires_at, self._nearest.get(tenant, expires_at))

    def replace(self, nearest: Mapping[str, str]) -> None:
        """Take what the store says: requests were made and answered elsewhere too."""
        self._nearest = dict(nearest)

    def put(self, tenant: str, nearest: str | None) -> None:
        """Take what the store says about one tenant; None if nothing of it waits."""
        if nearest is None:
            self._nearest.pop(tenant, None)
        else:
            self._nearest[tenant] = nearest

    def due(self, now: datetime) -> list[str]:
        """Return the tenants whose nearest deadline is over, the longest first."""
        over = [(nearest, tenant) for tenant, nearest in self._nearest.items() if nearest <= now.isoformat()]
        return [tenant for _, tenant in sorted(over)]

    def seconds_until_next(self, now: datetime, at_most: float) -> float:
        """Return how long it takes until the next deadline, up to a limit."""
        if not self._nearest:
            return at_most
        nearest = datetime.fromisoformat(min(self._nearest.values()))
        return min(at_most, max(0.0, (nearest - now).total_seconds()))
