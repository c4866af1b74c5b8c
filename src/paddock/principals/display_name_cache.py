"""Keeps what the people and API keys of a tenant are called: every page and list needs it, and it rarely changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from paddock.core.clock import Clock
from paddock.core.single_flight import SharedRuns
from paddock.principals.display_names import ChosenNames, read_chosen_names
from paddock.store.database import Database
from paddock.store.transaction import Transaction

_TTL_S: Final = 1.0
_MAX_CACHED_TENANTS: Final = 1_000


class _KnownNames(NamedTuple):
    revision: int
    read_at: float
    chosen: ChosenNames
    names: Mapping[str, str]


class DisplayNameCache:
    """Caches the names of each tenant; see `shown_names`.

    A change that this host makes counts at once, and one of another process within a second: then the chosen names are
    read again, and what is shown for them is computed only if one of them has changed. Both happen in the database's
    threads.

    Args:
        database: Holds people and keys.
        clock: Tells the age of an entry.
        revision: Changes with each change of people and keys that this host makes.
    """

    def __init__(self, database: Database, clock: Clock, revision: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock
        self._revision = revision
        self._known: dict[str, _KnownNames] = {}
        self._reads: SharedRuns[tuple[str, int], Mapping[str, str]] = SharedRuns(clock.monotonic, _TTL_S)

    async def read(self, tenant: str) -> Mapping[str, str]:
        """Return what the people and API keys of a tenant are called, by principal."""
        known, revision = self._known.get(tenant), self._revision()
        if known and known.revision == revision and self._clock.monotonic() - known.read_at < _TTL_S:
            return known.names
        return await self._reads.join((tenant, revision), lambda: self._read(tenant, revision))

    async def _read(self, tenant: str, revision: int) -> Mapping[str, str]:
        known, read_at = self._known.get(tenant), self._clock.monotonic()

        def query(tx: Transaction) -> tuple[ChosenNames, Mapping[str, str]]:
            chosen = read_chosen_names(tx, tenant)
            return chosen, known.names if known and known.chosen == chosen else chosen.shown()

        chosen, names = await self._database.read(query)
        if len(self._known) >= _MAX_CACHED_TENANTS:
            self._known.clear()
        self._known[tenant] = _KnownNames(revision, read_at, chosen, names)
        return names
