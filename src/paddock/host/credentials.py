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
from paddock.principals.sessions import note_seen, session_principal
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
        self._noted: dict[str, float] = {}  # by key or session, when its use was noted last
        self._epoch = 0

    async def key(self, token: str) -> Principal:
        """Who acts with an API key.

        Raises:
            Denied: `auth.refused`, whatever is wrong with it.
        """
        found = await self._proven(b"key", token, lambda tx: authenticate(tx, token, self._clock.now()))
        self._note(found.id, lambda tx: note_use(tx, found.id, self._clock.now()))
        return found

    async def token(self, token: str, unit: Unit) -> Principal:
        """Who acts with an access token that was found good, by what it says and the rows as they are.

        Raises:
            Denied: `auth.refused`, nobody.
        """
        return await self._proven(b"token", token, unit)

    async def session(self, token: str) -> Principal:
        """Who is signed in at the console with a session's token.

        Raises:
            Denied: `auth.refused`, nobody.
        """
        found = await self._proven(b"session", token, lambda tx: session_principal(tx, token, self._clock.now()))
        name = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        self._note(name, lambda tx: note_seen(tx, token, self._clock.now()))
        return found

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

    def _note(self, name: str, unit: Callable[[Transaction], object]) -> None:
        now = self._clock.monotonic()
        last = self._noted.get(name)
        if last is None or now - last >= _NOTED_EVERY:
            if len(self._noted) >= _MOST_KEPT:
                self._noted.clear()
            self._noted[name] = now
            self._tasks.start_soon(self._keep_note, unit)

    async def _keep_note(self, unit: Callable[[Transaction], object]) -> None:
        with suppress(PaddockError):  # that it was used matters less than what it is used for
            await self._database.write(unit)
