"""The nearest deadline of each tenant: one timer a tenant, however many of its requests wait. Pure."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime


class DeadlinesRead:
    """Takes what the store says, once it has answered."""

    def __init__(self, nearest: dict[str, str], noted: Mapping[str, str]) -> None:
        self._nearest = nearest
        self._noted = noted

    def replace(self, nearest: Mapping[str, str]) -> None:
        """Take what it says about all tenants: requests were made and answered elsewhere too."""
        for tenant in {*self._nearest, *nearest}:
            self.put(tenant, nearest.get(tenant))

    def put(self, tenant: str, nearest: str | None) -> None:
        """Take what it says about one tenant; None if nothing of it waits."""
        known = [one for one in (nearest, self._noted.get(tenant)) if one is not None]
        if known:
            self._nearest[tenant] = min(known)
        else:
            self._nearest.pop(tenant, None)


class NearestDeadlines:
    """When the first open request of each tenant expires, as far as this host knows."""

    def __init__(self) -> None:
        self._nearest: dict[str, str] = {}
        self._readings: list[dict[str, str]] = []  # of each that is under way, the nearest noted since it began

    def note(self, tenant: str, expires_at: str) -> None:
        """Note the deadline of a new request."""
        for nearest in (self._nearest, *self._readings):
            nearest[tenant] = min(expires_at, nearest.get(tenant, expires_at))

    @contextmanager
    def reading(self) -> Generator[DeadlinesRead, None, None]:
        """The store is asked in this block: what is noted meanwhile counts too, since the answer may not have it."""
        noted: dict[str, str] = {}
        self._readings.append(noted)
        try:
            yield DeadlinesRead(self._nearest, noted)
        finally:
            self._readings = [one for one in self._readings if one is not noted]

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
