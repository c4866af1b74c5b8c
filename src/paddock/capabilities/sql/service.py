"""The storage service: SQL for plugins, on worker threads, one file per plugin and tenant.

storage.query {sql, params}   → {rows, columns}
storage.exec {sql, params}    → {rows_affected}, and {rows, columns} where the statement returns any
storage.schema {}             → {tables}
storage.begin {}              → {transaction}; pass it as `transaction` to the calls that belong to it
storage.commit {transaction}, storage.rollback {transaction} → {}

The changes of a call whose recovery is `atomic` are recorded with the change; `exec` and `commit` take its `result`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from paddock.capabilities.dispatcher import ServiceHandler
from paddock.capabilities.params import invalid_param, text_param
from paddock.capabilities.request import CapabilityRequest
from paddock.capabilities.sql import effect_records
from paddock.capabilities.sql.connection import GuardedConnection, StatementResult
from paddock.capabilities.sql.effect_records import EffectWrite, RecordedEffect
from paddock.capabilities.sql.limits import MAX_SQL_CHARS, StorageLimits
from paddock.capabilities.sql.paths import database_file, database_files, full_table_name
from paddock.capabilities.sql.plugin_database import OpenTransaction, PluginDatabase
from paddock.capabilities.sql.values import Bindings, read_bindings
from paddock.capabilities.thread_pool import ThreadPool
from paddock.core.clock import Clock, Random
from paddock.core.errors import Conflict, HostError, PaddockError, StoreUnavailable
from paddock.core.ids import CallId, PluginName, Tenant, new_id
from paddock.rpc.peer import REPLY_SENT

T = TypeVar("T")

_MAX_THREADS = 32  # a file uses at most one


class SqlService:
    """All plugins' databases below one directory. Expects one event loop."""

    def __init__(self, directory: Path, *, clock: Clock, random: Random, limits: StorageLimits | None = None) -> None:
        self._directory = directory.absolute()
        self._clock = clock
        self._random = random
        self._limits = limits or StorageLimits()
        self._loop = asyncio.get_running_loop()
        self._workers = ThreadPool(_MAX_THREADS)
        if not apsw.hard_heap_limit(-1):
            apsw.hard_heap_limit(self._limits.heap_bytes)
        self._databases: dict[tuple[str, str], PluginDatabase] = {}  # by tenant and plugin, least recently used first
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def handlers(self) -> dict[str, ServiceHandler]:
        return {
            "storage.exec": self.exec,
            "storage.query": self.query,
            "storage.schema": self.schema,
            "storage.begin": self.begin,
            "storage.commit": self.commit,
            "storage.rollback": self.rollback,
        }

    # --- requests of plugins ----------------------------------------------------------------------------------------

    async def exec(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run one statement, completely or not at all. Errors are those of `GuardedConnection.run`, and `Busy`."""
        return await self._run_statement(request, params, _exec_result, may_write=True)

    async def query(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run one statement that only reads."""
        return await self._run_statement(request, params, _query_result, may_write=False)

    async def schema(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the names of the plugin's tables and views."""
        database = self._database(request.tenant, request.plugin)
        return {"tables": await self._run_locked(database, _transaction_id(params), request, GuardedConnection.tables)}

    async def begin(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a transaction. It is rolled back when it idles, when it lasts too long, and when its process ends."""
        del params
        _require_call_named(request)
        # Shielded: if the caller goes away meanwhile, the lock must not be lost.
        return await asyncio.shield(self._loop.create_task(self._begin(request)))

    async def commit(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Make a transaction's changes durable. If that fails, all of them are rolled back."""
        _require_call_named(request)
        return await asyncio.shield(self._loop.create_task(self._commit(request, params)))

    async def rollback(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Roll back a transaction."""
        end = self._end_transaction(request, params, GuardedConnection.rollback, "rolled back")
        return await asyncio.shield(self._loop.create_task(end))

    # --- effect records ---------------------------------------------------------------------------------------------

    async def end_call(
        self, tenant: Tenant, plugin: PluginName, call: CallId, fence: int, *, started_at: str
    ) -> RecordedEffect | None:
        """Return the recorded effect of an atomic call. A call without one can change nothing from here on.

        Raises:
            Busy: its transaction may still be open, or others are.
            PaddockError: it cannot be determined now.
        """
        now = self._clock.now().isoformat()

        def work(file: GuardedConnection) -> RecordedEffect | None:
            return file.end_call(call, fence, started_at=started_at, now=now)

        return await self._run_locked(self._database(tenant, plugin), None, None, work)

    def release_effect_record(self, tenant: Tenant, plugin: PluginName, call: CallId) -> None:
        """Mark a call's record as no longer needed; it is deleted with the next record that is written."""
        database = self._databases.get((tenant, plugin))
        if database is not None and len(database.released_calls) < effect_records.MAX_PENDING_RELEASES:
            database.released_calls.append(call)

    def _effect_write(
        self, database: PluginDatabase, request: CapabilityRequest, params: Mapping[str, Any]
    ) -> EffectWrite | None:
        if not request.atomic:
            return None
        if request.call is None or request.call_id is None or request.call.fence is None:
            raise HostError("a call without a record changes tables", code="effect.stale")
        result = effect_records.encode_result(params["result"]) if "result" in params else None
        now = self._clock.now()
        oldest = None if database.old_records_deleted else (now - effect_records.RETENTION).isoformat()
        return EffectWrite(
            request.call_id, request.call.fence, result, now.isoformat(), oldest, tuple(database.released_calls)
        )

    # --- for the host -----------------------------------------------------------------------------------------------

    async def rollback_of_instance(self, tenant: Tenant, plugin: PluginName, instance: str = "") -> None:
        """Roll back the transaction that an ended process left open."""
        database = self._databases.get((tenant, plugin))
        transaction = database.transaction if database else None
        if database is not None and transaction is not None and transaction.instance == instance:
            await self._abort_transaction(database, transaction, "the process that began it ended")

    async def tables(self, tenant: Tenant, plugin: PluginName) -> tuple[str, ...]:
        """Return the plugin's tables by their full names, for people; empty if it never stored anything."""
        database = self._database(tenant, plugin)
        if not database.path.exists():
            return ()
        tables = await self._run_locked(database, None, None, GuardedConnection.tables)
        return tuple(full_table_name(plugin, table) for table in tables)

    async def drop(self, tenant: Tenant, plugin: PluginName) -> tuple[str, ...]:
        """Delete the database of a plugin, which must have stopped; return the full names of its tables."""
        database = self._database(tenant, plugin)
        if database.transaction is not None:
            await self._abort_transaction(database, database.transaction, "the plugin is being uninstalled")
        try:
            dropped = await self.tables(tenant, plugin)
        except PaddockError:
            dropped = ()  # perhaps damaged; it is deleted all the same
        await database.acquire()
        try:
            await self._workers.run(lambda: _delete_files(database))
        finally:
            database.release()
            self._databases.pop((tenant, plugin), None)
        return dropped

    async def forget(self, plugin: PluginName) -> None:
        """Delete an uninstalled plugin's databases, for all tenants that have one open here."""
        for tenant in [tenant for tenant, name in self._databases if name == plugin]:
            await self.drop(Tenant(tenant), plugin)

    async def aclose(self) -> None:
        """Roll back open transactions and close every file."""
        self._closed = True
        await asyncio.gather(*(self._shut_down(database) for database in self._databases.values()))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._workers.close()

    async def _shut_down(self, database: PluginDatabase) -> None:
        if database.transaction is not None:
            await self._abort_transaction(database, database.transaction, "the host is closing")
        with suppress(PaddockError):  # a statement that does not end is left to the end of the process
            await self._close(database)

    # --- statements and transactions --------------------------------------------------------------------------------

    async def _run_statement(
        self,
        request: CapabilityRequest,
        params: Mapping[str, Any],
        to_result: Callable[[StatementResult], dict[str, Any]],
        *,
        may_write: bool,
    ) -> Any:
        sql = text_param(params, "sql", max_chars=MAX_SQL_CHARS)
        bindings: Bindings = read_bindings(params.get("params"))
        seconds = self._limits.statement_seconds
        if may_write:
            _require_call_named(request)
        database = self._database(request.tenant, request.plugin)
        transaction = _transaction_id(params)
        effect = self._effect_write(database, request, params) if may_write and transaction is None else None

        def run(file: GuardedConnection) -> Any:
            response = to_result(file.run(sql, bindings, may_write=may_write, seconds=seconds, effect=effect))
            # Respond from this thread, so that the plugin does not wait for the event loop.
            return REPLY_SENT if request.answer_early(response) else response

        response = await self._run_locked(database, transaction, request, run)
        _effect_recorded(database, effect)
        return response

    async def _run_locked(
        self,
        database: PluginDatabase,
        transaction_id: str | None,
        request: CapabilityRequest | None,
        work: Callable[[GuardedConnection], T],
    ) -> T:
        if transaction_id is not None and request is not None:
            return await self._in_transaction(database, transaction_id, request.instance, work)
        await database.acquire()
        # The lock is released with the work, not with its caller: a cancelled caller's statement still runs.
        return await self._workers.run(partial(database.with_file, work), on_done=database.release)

    async def _in_transaction(
        self, database: PluginDatabase, transaction_id: str, instance: str, work: Callable[[GuardedConnection], T]
    ) -> T:
        database.require_transaction(transaction_id, instance)
        return await self._run_shielded(self._run_in_transaction(database, transaction_id, instance, work))

    async def _run_shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work to its end even if the caller is cancelled: until then a thread uses the file."""
        return await asyncio.shield(self._loop.create_task(work))

    async def _run_in_transaction(
        self, database: PluginDatabase, transaction_id: str, instance: str, work: Callable[[GuardedConnection], T]
    ) -> T:
        async with database.statement_lock:
            transaction = database.require_transaction(transaction_id, instance)
            transaction.stop_timer()
            try:
                return await self._workers.run(partial(database.with_file, work))
            finally:
                if database.file is None or not database.file.in_transaction:
                    database.end_transaction(transaction, "a statement failed so badly that SQLite rolled it back")
                else:
                    self._start_timer(database, transaction)

    async def _begin(self, request: CapabilityRequest) -> dict[str, Any]:
        database = self._database(request.tenant, request.plugin)
        await database.acquire()
        return await self._run_shielded(self._begin_locked(database, request))

    async def _begin_locked(self, database: PluginDatabase, request: CapabilityRequest) -> dict[str, Any]:
        try:
            await self._workers.run(partial(database.with_file, GuardedConnection.begin))
        except BaseException:
            database.release()
            raise
        ends_at = self._loop.time() + self._limits.transaction_total
        transaction_id = new_id("tx", self._clock, self._random)
        transaction = OpenTransaction(transaction_id, request.instance, ends_at, request.call_id, request.atomic)
        database.transaction = transaction
        self._start_timer(database, transaction)
        return {"transaction": transaction.id}

    async def _commit(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        database = self._database(request.tenant, request.plugin)
        effect = self._effect_write(database, request, params)
        result = await self._end_transaction(
            request, params, partial(GuardedConnection.commit, effect=effect), "committed", commits=True
        )
        _effect_recorded(database, effect)
        return result

    async def _end_transaction(
        self,
        request: CapabilityRequest,
        params: Mapping[str, Any],
        work: Callable[[GuardedConnection], None],
        reason: str,
        *,
        commits: bool = False,
    ) -> dict[str, Any]:
        database = self._database(request.tenant, request.plugin)
        transaction_id = text_param(params, "transaction", max_chars=64)
        await self._run_shielded(self._end_locked(database, transaction_id, request, work, reason, commits=commits))
        return {}

    async def _end_locked(
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
                await self._workers.run(partial(database.with_file, work))
            except BaseException:
                reason = "it could not be committed"
                raise
            finally:
                database.end_transaction(transaction, reason)

    async def _abort_transaction(self, database: PluginDatabase, transaction: OpenTransaction, reason: str) -> None:
        async with database.statement_lock:
            if database.transaction is not transaction:
                return
            with suppress(PaddockError):
                await self._workers.run(partial(database.with_file, GuardedConnection.rollback))
            database.end_transaction(transaction, reason)

    def _start_timer(self, database: PluginDatabase, transaction: OpenTransaction) -> None:
        idle_at = self._loop.time() + self._limits.transaction_idle
        if transaction.ends_at <= idle_at:
            expires_at, reason = transaction.ends_at, f"it lasted longer than {self._limits.transaction_total:g} s"
        else:
            expires_at, reason = idle_at, f"nothing was asked of it for {self._limits.transaction_idle:g} s"
        transaction.timer = self._loop.call_at(expires_at, self._expire, database, transaction, reason)

    def _expire(self, database: PluginDatabase, transaction: OpenTransaction, reason: str) -> None:
        task = self._loop.create_task(self._abort_transaction(database, transaction, f"{reason}, and was rolled back"))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- files ------------------------------------------------------------------------------------------------------

    def _database(self, tenant: Tenant, plugin: PluginName) -> PluginDatabase:
        if self._closed:
            raise StoreUnavailable("the host is closing", code="storage.unavailable")
        key = (tenant, plugin)
        database = self._databases.pop(key, None) or self._new_database(tenant, plugin)
        self._databases[key] = database
        if len(self._databases) > self._limits.open_files:
            self._close_one_idle(database)
        return database

    def _new_database(self, tenant: Tenant, plugin: PluginName) -> PluginDatabase:
        return PluginDatabase(database_file(self._directory, tenant, plugin), self._limits, self._clock.monotonic)

    def _close_one_idle(self, in_use: PluginDatabase) -> None:
        unused = next(
            (key for key, database in self._databases.items() if database.idle and database is not in_use), None
        )
        if unused is not None:
            task = self._loop.create_task(self._close(self._databases.pop(unused)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _close(self, database: PluginDatabase) -> None:
        await database.acquire()
        try:
            file, database.file = database.file, None
            if file is not None:
                await self._workers.run(file.close)
        finally:
            database.release()


@asynccontextmanager
async def open_sql_service(
    directory: Path, *, clock: Clock, random: Random, limits: StorageLimits | None = None
) -> AsyncGenerator[SqlService, None]:
    """Open the storage service for as long as the block runs."""
    storage = SqlService(directory, clock=clock, random=random, limits=limits)
    try:
        yield storage
    finally:
        await asyncio.shield(storage.aclose())


def delete_plugin_files(directory: Path, plugin: str) -> int:
    """Delete a plugin's files of all tenants while no host has them open; return their number."""
    deleted = 0
    for folder in directory.iterdir() if directory.is_dir() else ():
        path = database_file(directory, folder.name, plugin)
        deleted += path.exists()
        for file in database_files(path):
            file.unlink(missing_ok=True)
    return deleted


def _delete_files(database: PluginDatabase) -> None:
    if database.file is not None:
        database.file.close()
        database.file = None
    for file in database_files(database.path):
        file.unlink(missing_ok=True)


def _exec_result(result: StatementResult) -> dict[str, Any]:
    affected: dict[str, Any] = {"rows_affected": result.rows_affected}
    return affected | _query_result(result) if result.columns else affected


def _query_result(result: StatementResult) -> dict[str, Any]:
    return {"rows": result.rows, "columns": result.columns}


def _require_call_named(request: CapabilityRequest) -> None:
    """Reject a change without a call by a plugin with atomic callables: it would be recorded nowhere."""
    if request.call is None and any(spec.recovery == "atomic" for spec in request.manifest.callables):
        raise effect_records.missing_call_error()


def _effect_recorded(database: PluginDatabase, effect: EffectWrite | None) -> None:
    if effect is not None and effect.recorded:
        database.old_records_deleted = True
        database.released_calls = [call for call in database.released_calls if call not in effect.released_calls]


def _transaction_id(params: Mapping[str, Any]) -> str | None:
    transaction_id = params.get("transaction")
    if transaction_id is not None and not isinstance(transaction_id, str):
        raise invalid_param("transaction", "must be the text that begin gave")
    return transaction_id
