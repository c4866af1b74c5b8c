"""Verifies credentials. A verified principal is cached for a moment: there may be thousands of calls per second.

Whatever changes who may act calls `invalidate`, which drops the cache. A change that another host makes on a shared
store is seen within `PROOF_TTL_S`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from anyio.abc import TaskGroup

from paddock.core.call import Principal
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError, StoreUnavailable
from paddock.core.single_flight import SharedRuns
from paddock.principals.api_keys import authenticate_key, record_key_use
from paddock.principals.sessions import record_session_use, session_principal
from paddock.store.database import Database, Transaction

PROOF_TTL_S = 1.0
_REFRESH_AFTER_S = PROOF_TTL_S / 2  # refreshed in the background, so that steady traffic never waits
_MAX_CACHED_CREDENTIALS = 10_000
_USE_RECORD_INTERVAL_S = 60.0  # see `record_key_use`

PrincipalQuery: TypeAlias = Callable[[Transaction], Principal]


class CredentialVerifier:
    """Verifies credentials against the database, or against a cache of the last moment.

    Args:
        database: Holds people and keys.
        clock: For expiry times and the age of cached principals.
        tasks: Runs background work.
    """

    def __init__(self, database: Database, clock: Clock, tasks: TaskGroup) -> None:
        self._database = database
        self._clock = clock
        self._tasks = tasks
        self._cache: dict[bytes, tuple[float, Principal]] = {}  # by token hash, with the time of the query
        self._queries: SharedRuns[bytes, Principal] = SharedRuns(clock.monotonic, PROOF_TTL_S)
        self._use_recorded_at: dict[str, float] = {}  # by key or session: when its use was last recorded
        self._revision = 0

    @property
    def revision(self) -> int:
        """Changes with each change of who may act on this host: what was verified before may hold no longer."""
        return self._revision

    async def verify_api_key(self, token: str) -> Principal:
        """Return the principal of an API key.

        Raises:
            Denied: `auth.refused`, for whatever reason.
        """
        principal = await self._verify(b"key", token, lambda tx: authenticate_key(tx, token, self._clock.now()))
        self._record_use(principal.id, lambda tx: record_key_use(tx, principal.id, self._clock.now()))
        return principal

    async def verify_access_token(self, token: str, query: PrincipalQuery) -> Principal:
        """Return the principal of an access token that was validated, by its claims and the database.

        Raises:
            Denied: `auth.refused`, there is none.
        """
        return await self._verify(b"token", token, query)

    async def verify_session(self, token: str) -> Principal:
        """Return the principal of a console session's token.

        Raises:
            Denied: `auth.refused`, there is none.
        """
        principal = await self._verify(b"session", token, lambda tx: session_principal(tx, token, self._clock.now()))
        token_hash = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        self._record_use(token_hash, lambda tx: record_session_use(tx, token, self._clock.now()))
        return principal

    def invalidate(self) -> None:
        """Drop all cached principals: who may act has changed."""
        self._revision += 1
        self._cache.clear()
        self._queries.clear()

    async def _verify(self, kind: bytes, token: str, query: PrincipalQuery) -> Principal:
        cache_key = kind + hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        queried_at, cached = self._cache.get(cache_key, (0.0, None))
        age = self._clock.monotonic() - queried_at
        if cached is None or age >= PROOF_TTL_S:
            return await self._queries.join(cache_key, lambda: self._query(cache_key, query))
        if age >= _REFRESH_AFTER_S:
            self._queries.start(cache_key, lambda: self._query(cache_key, query))
        return cached

    async def _query(self, cache_key: bytes, query: PrincipalQuery) -> Principal:
        queried_at, revision = self._clock.monotonic(), self._revision
        try:
            principal = await self._database.read(query)
        except PaddockError as error:
            if not isinstance(error, StoreUnavailable):
                self._cache.pop(cache_key, None)
            raise
        if revision == self._revision:
            if len(self._cache) >= _MAX_CACHED_CREDENTIALS:
                self._cache.clear()
            self._cache[cache_key] = (queried_at, principal)
        return principal

    def _record_use(self, credential: str, write: Callable[[Transaction], object]) -> None:
        now = self._clock.monotonic()
        last = self._use_recorded_at.get(credential)
        if last is None or now - last >= _USE_RECORD_INTERVAL_S:
            if len(self._use_recorded_at) >= _MAX_CACHED_CREDENTIALS:
                self._use_recorded_at.clear()
            self._use_recorded_at[credential] = now
            self._tasks.start_soon(self._write_use, write)

    async def _write_use(self, write: Callable[[Transaction], object]) -> None:
        with suppress(PaddockError):  # a lost usage record must not fail the request
            await self._database.write(write)
