"""What people consented to, remembered for a moment: calls that only read come thousands of times a second."""

from __future__ import annotations

import asyncio

from paddock.core.call import Principal
from paddock.core.clock import Clock
from paddock.principals.consents import consented_names
from paddock.store.database import Database

GOOD_FOR = 1.0  # seconds
_LOOKED_UP_AFTER = GOOD_FOR / 2  # so that while calls come, none has to wait for it
_MOST_KEPT = 10_000


class RememberedConsents:
    """Reads from the store what people consented to. However many calls need the same at once, it is read once.

    Args:
        database: Where people's consents are.
        clock: Tells how old what is remembered is.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, frozenset[str]]] = {}
        self._reading: dict[tuple[str, str], tuple[float, asyncio.Task[frozenset[str]]]] = {}  # with when it was begun

    def known(self, principal: Principal) -> frozenset[str] | None:
        """What their person consented to, as it was a moment ago; None where it has to be read."""
        person = (principal.tenant, principal.person)
        known = self._known.get(person)
        if known is None:
            return None
        age = self._clock.monotonic() - known[0]
        if age >= _LOOKED_UP_AFTER:
            self._begin(person)
        return known[1] if age < GOOD_FOR else None

    async def lately(self, principal: Principal) -> frozenset[str]:
        """What their person consents to, read together with all others who need to know."""
        # Shielded: whoever gives up must not take it from the others.
        return await asyncio.shield(self._begin((principal.tenant, principal.person)))

    async def right_now(self, principal: Principal) -> frozenset[str]:
        """What their person consents to at this moment, and not at one before it."""
        return await self._read((principal.tenant, principal.person))

    def _begin(self, person: tuple[str, str]) -> asyncio.Task[frozenset[str]]:
        now = self._clock.monotonic()
        begun, reading = self._reading.get(person, (0.0, None))
        if reading is None or now - begun >= GOOD_FOR:  # what that one will say may be older than it may be
            reading = asyncio.create_task(self._read(person))
            self._reading[person] = (now, reading)
            reading.add_done_callback(lambda done: self._is_read(person, done))
        return reading

    async def _read(self, person: tuple[str, str]) -> frozenset[str]:
        asked = self._clock.monotonic()
        return self._keep(person, asked, await self._database.read(lambda tx: consented_names(tx, *person)))

    def _keep(self, person: tuple[str, str], asked: float, found: frozenset[str]) -> frozenset[str]:
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        known = self._known.get(person)
        if known is None or known[0] <= asked:
            self._known[person] = (asked, found)
        return found

    def _is_read(self, person: tuple[str, str], done: asyncio.Task[frozenset[str]]) -> None:
        if self._reading.get(person, (0.0, None))[1] is done:
            del self._reading[person]
        if not done.cancelled():
            done.exception()  # whoever waits hears of it; where nobody does, the next one to need it will
