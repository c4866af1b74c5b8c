"""Whom a credential proves its holder to be. A proof is remembered for a moment: calls come thousands a second.

Whoever changes who may act says so with `look_again`, and nothing that was remembered counts any more. A change that
another host makes on a shared store is seen within `GOOD_FOR`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from anyio.abc import TaskGroup

from paddock.core.call import Principal
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError, StoreUnavailable
from paddock.principals.api_keys import authenticate, note_use
from paddock.store.database import Database, Transaction

GOOD_FOR = 1.0  # seconds
_LOOKED_UP_AFTER = GOOD_FOR / 2  # so that while requests come, none has to wait for it
_MOST_KEPT = 10_000
_NOTED_EVERY = 60.0  # seconds; see `note_use`

Unit: TypeAlias = Callable[[Transaction], Principal]


class Credentials:
    """Proves who holds a credential, by the rows as they are now or were a moment ago.

    Args:
        database: Where people and keys are.
        clock: The time, and how old what is remembered is.
        tasks: Where looks are done that nobody waits for.
    """

    def __init__(self, database: Database, clock: Clock, tasks: TaskGroup) -> None:
        self._database = database
        self._clock = clock
        self._tasks = tasks
        self._known: dict[bytes, tuple[float, Principal]] = {}  # by the token's hash, with when it was asked for
        self._reading: dict[bytes, asyncio.Task[Principal]] = {}
        self._noted: dict[str, float] = {}  # by key, when its use was noted last
        self._epoch = 0

    async def key(self, token: str) -> Principal:
        """Who acts with an API key.

        Raises:
            Denied: `auth.refused`, whatever is wrong with it.
        """
        found = await self._proven(b"key", token, lambda tx: authenticate(tx, token, self._clock.now()))
        self._note_use(found)
        return found

    async def token(self, token: str, unit: Unit) -> Principal:
        """Who acts with an access token that was found good, by what it says and the rows as they are.

        Raises:
            Denied: `auth.refused`, nobody.
        """
        return await self._proven(b"token", token, unit)

    def look_again(self) -> None:
        """Forget every proof: who may act was changed."""
        self._epoch += 1
        self._known.clear()
        self._reading.clear()

    async def _proven(self, kind: bytes, token: str, unit: Unit) -> Principal:
        name = kind + hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        asked, known = self._known.get(name, (0.0, None))
        age = self._clock.monotonic() - asked
        if known is None or age >= GOOD_FOR:
            # Shielded: whoever gives up must not take it from the others.
            return await asyncio.shield(self._read(name, unit))
        if age >= _LOOKED_UP_AFTER:
            self._read(name, unit)
        return known

    def _read(self, name: bytes, unit: Unit) -> asyncio.Task[Principal]:
        reading = self._reading.get(name)
        if reading is None:
            reading = self._reading[name] = asyncio.create_task(self._look(name, unit))
            reading.add_done_callback(lambda done: self._is_read(name, done))
        return reading

    async def _look(self, name: bytes, unit: Unit) -> Principal:
        asked, epoch = self._clock.monotonic(), self._epoch
        try:
            found = await self._database.read(unit)
        except PaddockError as error:
            if not isinstance(error, StoreUnavailable):
                self._known.pop(name, None)
            raise
        if epoch == self._epoch:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[name] = (asked, found)
        return found

    def _is_read(self, name: bytes, done: asyncio.Task[Principal]) -> None:
        if self._reading.get(name) is done:
            del self._reading[name]
        if not done.cancelled():
            done.exception()  # whoever waits hears of it; where nobody does, the next one to need it will

    def _note_use(self, principal: Principal) -> None:
        now = self._clock.monotonic()
        last = self._noted.get(principal.id)
        if last is None or now - last >= _NOTED_EVERY:
            if len(self._noted) >= _MOST_KEPT:
                self._noted.clear()
            self._noted[principal.id] = now
            self._tasks.start_soon(self._keep_use, principal.id)

    async def _keep_use(self, key: str) -> None:
        with suppress(PaddockError):  # that it was used matters less than what it is used for
            await self._database.write(lambda tx: note_use(tx, key, self._clock.now()))
