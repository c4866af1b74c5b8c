"""Transactions of plugins on their databases: begun by one request, used by others, and ended by one or by time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from paddock.capabilities.request import CapabilityRequest
from paddock.capabilities.sql.connection import GuardedConnection
from paddock.capabilities.sql.database_pool import DatabasePool
from paddock.capabilities.sql.limits import StorageLimits
from paddock.capabilities.sql.plugin_database import OpenTransaction, PluginDatabase
from paddock.core.clock import Clock, Random
from paddock.core.errors import Conflict, PaddockError
from paddock.core.ids import new_id

T = TypeVar("T")


class TransactionRunner:
    """Begins and ends transactions, and runs work in them. At most one is open on each database.

    Args:
        pool: Runs work on the databases' files.
        limits: How long a transaction may idle and last.
        clock, random: For ids.
    """

    def __init__(self, pool: DatabasePool, limits: StorageLimits, clock: Clock, random: Random) -> None:
        self._pool = pool
        self._limits = limits
        self._clock = clock
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._expirations: set[asyncio.Task[None]] = set()

    async def begin(self, database: PluginDatabase, request: CapabilityRequest) -> str:
        """Begin a transaction for a plugin's process and return its id.

        Raises:
            Busy: the database stays in use.
        """
        await database.acquire()
        return await self._shielded(self._begin(database, request))

    async def run(
        self, database: PluginDatabase, transaction_id: str, instance: str, work: Callable[[GuardedConnection], T]
    ) -> T:
        """Run work in a transaction of a plugin's process.

        Raises:
            PaddockError: it has no such transaction, or not any more.
        """
        database.require_transaction(transaction_id, instance)
        return await self._shielded(self._run(database, transaction_id, instance, work))

    async def commit(
        self,
        database: PluginDatabase,
        transaction_id: str,
        request: CapabilityRequest,
        work: Callable[[GuardedConnection], None],
    ) -> None:
        """Commit a transaction with `work`. If that fails, its changes are rolled back.

        Raises:
            Conflict: it belongs to another call.
        """
        await self._shielded(self._end(database, transaction_id, request, work, "committed", commits=True))

    async def rollback(self, database: PluginDatabase, transaction_id: str, request: CapabilityRequest) -> None:
        """Roll a transaction back."""
        rollback = GuardedConnection.rollback
        await self._shielded(self._end(database, transaction_id, request, rollback, "rolled back", commits=False))

    async def abort(self, database: PluginDatabase, transaction: OpenTransaction, reason: str) -> None:
        """Roll back a transaction that its plugin has not ended; it is told the reason when it goes on with it."""
        async with database.statement_lock:
            if database.transaction is not transaction:
                return
            with suppress(PaddockError):
                await self._pool.run(database, GuardedConnection.rollback)
            database.end_transaction(transaction, reason)

    async def aclose(self) -> None:
        """Wait for transactions that are being rolled back."""
        await asyncio.gather(*self._expirations, return_exceptions=True)

    async def _shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work to its end even if the caller is cancelled: until then a thread uses the file."""
        return await asyncio.shield(self._loop.create_task(work))

    async def _begin(self, database: PluginDatabase, request: CapabilityRequest) -> str:
        try:
            await self._pool.run(database, GuardedConnection.begin)
        except BaseException:
            database.release()
            raise
        ends_at = self._loop.time() + self._limits.transaction_total
        transaction_id = new_id("tx", self._clock, self._random)
        transaction = OpenTransaction(transaction_id, request.instance, ends_at, request.call_id, request.atomic)
        database.transaction = transaction
        self._start_timer(database, transaction)
        return transaction.id

    async def _run(
        self, database: PluginDatabase, transaction_id: str, instance: str, work: Callable[[GuardedConnection], T]
    ) -> T:
        async with database.statement_lock:
            transaction = database.require_transaction(transaction_id, instance)
            transaction.stop_timer()
            try:
                return await self._pool.run(database, work)
            finally:
                if database.file is None or not database.file.in_transaction:
                    database.end_transaction(transaction, "a statement failed so badly that SQLite rolled it back")
                else:
                    self._start_timer(database, transaction)

    async def _end(
        self,
        database: PluginDatabase,
        transaction_id: str,
        request: CapabilityRequest,
        work: Callable[[GuardedConnection], None],
        reason: str,
        *,
        commits: bool,
    ) -> None:
        async with database.statement_lock:
            transaction = database.require_transaction(transaction_id, request.instance)
            if commits and (transaction.atomic or request.atomic) and transaction.call != request.call_id:
                raise Conflict("this transaction belongs to another call", code="storage.other_call")
            transaction.stop_timer()
            try:
                await self._pool.run(database, work)
            except BaseException:
                reason = "it could not be committed"
                raise
            finally:
                database.end_transaction(transaction, reason)

    def _start_timer(self, database: PluginDatabase, transaction: OpenTransaction) -> None:
        idle_at = self._loop.time() + self._limits.transaction_idle
        if transaction.ends_at <= idle_at:
            expires_at, reason = transaction.ends_at, f"it lasted longer than {self._limits.transaction_total:g} s"
        else:
            expires_at, reason = idle_at, f"nothing was asked of it for {self._limits.transaction_idle:g} s"
        transaction.timer = self._loop.call_at(expires_at, self._expire, database, transaction, reason)

    def _expire(self, database: PluginDatabase, transaction: OpenTransaction, reason: str) -> None:
        task = self._loop.create_task(self.abort(database, transaction, f"{reason}, and was rolled back"))
        self._expirations.add(task)
        task.add_done_callback(self._expirations.discard)
