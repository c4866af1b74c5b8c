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
from paddock.principals.api_keys import authenticate_key, record_key_use
from paddock.principals.sessions import record_session_use, session_principal
from paddock.store.database import Database, Transaction

PROOF_TTL_S = 1.0  # seconds
_REFRESH_AFTER_S = PROOF_TTL_S / 2  # so that while requests come, none has to wait for it
_MAX_CACHED = 10_000
_USE_RECORD_INTERVAL_S = 60.0  # seconds; see `note_use`

PrincipalQuery: TypeAlias = Callable[[Transaction], Principal]


class CredentialVerifier:
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
        self._cache: dict[bytes, tuple[float, Principal]] = {}  # by the token's hash, with when it was asked for
        self._refreshing: dict[bytes, asyncio.Task[Principal]] = {}
        self._use_recorded_at: dict[str, float] = {}  # by key or session, when its use was noted last
        self._epoch = 0

    async def verify_api_key(self, token: str) -> Principal:
        """Who acts with an API key.

        Raises:
            Denied: `auth.refused`, whatever is wrong with it.
        """
        found = await self._verify(b"key", token, lambda tx: authenticate_key(tx, token, self._clock.now()))
        self._record_use(found.id, lambda tx: record_key_use(tx, found.id, self._clock.now()))
        return found

    async def verify_access_token(self, token: str, unit: PrincipalQuery) -> Principal:
        """Who acts with an access token that was found good, by what it says and the rows as they are.

        Raises:
            Denied: `auth.refused`, nobody.
        """
        return await self._verify(b"token", token, unit)

    async def verify_session(self, token: str) -> Principal:
        """Who is signed in at the console with a session's token.

        Raises:
            Denied: `auth.refused`, nobody.
        """
        found = await self._verify(b"session", token, lambda tx: session_principal(tx, token, self._clock.now()))
        name = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        self._record_use(name, lambda tx: record_session_use(tx, token, self._clock.now()))
        return found

    def invalidate(self) -> None:
        """Forget every proof: who may act was changed."""
        self._epoch += 1
        self._cache.clear()
        self._refreshing.clear()

    async def _verify(self, kind: bytes, token: str, unit: PrincipalQuery) -> Principal:
        name = kind + hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        asked, known = self._cache.get(name, (0.0, None))
        age = self._clock.monotonic() - asked
        if known is None or age >= PROOF_TTL_S:
            # Shielded: whoever gives up must not take it from the others.
            return await asyncio.shield(self._refresh(name, unit))
        if age >= _REFRESH_AFTER_S:
            self._refresh(name, unit)
        return known

    def _refresh(self, name: bytes, unit: PrincipalQuery) -> asyncio.Task[Principal]:
        reading = self._refreshing.get(name)
        if reading is None:
            reading = self._refreshing[name] = asyncio.create_task(self._query(name, unit))
            reading.add_done_callback(lambda done: self._refresh_done(name, done))
        return reading

    async def _query(self, name: bytes, unit: PrincipalQuery) -> Principal:
        asked, epoch = self._clock.monotonic(), self._epoch
        try:
            found = await self._database.read(unit)
        except PaddockError as error:
            if not isinstance(error, StoreUnavailable):
                self._cache.pop(name, None)
            raise
        if epoch == self._epoch:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[name] = (asked, found)
        return found

    def _refresh_done(self, name: bytes, done: asyncio.Task[Principal]) -> None:
        if self._refreshing.get(name) is done:
            del self._refreshing[name]
        if not done.cancelled():
            done.exception()  # whoever waits hears of it; where nobody does, the next one to need it will

    def _record_use(self, name: str, unit: Callable[[Transaction], object]) -> None:
        now = self._clock.monotonic()
        last = self._use_recorded_at.get(name)
        if last is None or now - last >= _USE_RECORD_INTERVAL_S:
            if len(self._use_recorded_at) >= _MAX_CACHED:
                self._use_recorded_at.clear()
            self._use_recorded_at[name] = now
            self._tasks.start_soon(self._write_use, unit)

    async def _write_use(self, unit: Callable[[Transaction], object]) -> None:
        with suppress(PaddockError):  # that it was used matters less than what it is used for
            await self._database.write(unit)
