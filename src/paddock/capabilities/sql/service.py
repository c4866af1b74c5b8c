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
from collections.abc import AsyncGenerator, Callable, Mapping
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
from paddock.capabilities.sql.database_pool import DatabasePool
from paddock.capabilities.sql.effect_records import EffectWrite, RecordedEffect
from paddock.capabilities.sql.limits import MAX_SQL_CHARS, StorageLimits
from paddock.capabilities.sql.paths import full_table_name
from paddock.capabilities.sql.plugin_database import PluginDatabase
from paddock.capabilities.sql.transactions import TransactionRunner
from paddock.capabilities.sql.values import Bindings, read_bindings
from paddock.core.clock import Clock, Random
from paddock.core.errors import HostError, PaddockError
from paddock.core.ids import CallId, PluginName, Tenant
from paddock.rpc.peer import REPLY_SENT

T = TypeVar("T")


class SqlService:
    """All plugins' databases below one directory. Expects one event loop."""

    def __init__(self, directory: Path, *, clock: Clock, random: Random, limits: StorageLimits | None = None) -> None:
        self._clock = clock
        self._limits = limits or StorageLimits()
        self._pool = DatabasePool(directory, self._limits, clock)
        self._transactions = TransactionRunner(self._pool, self._limits, clock, random)
        if not apsw.hard_heap_limit(-1):
            apsw.hard_heap_limit(self._limits.heap_bytes)

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
        database = self._pool.get(request.tenant, request.plugin)
        return {"tables": await self._run_locked(database, _transaction_id(params), request, GuardedConnection.tables)}

    async def begin(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a transaction. It is rolled back when it idles, when it lasts too long, and when its process ends."""
        del params
        _require_call_named(request)
        database = self._pool.get(request.tenant, request.plugin)
        # Shielded: if the caller goes away meanwhile, the lock must not be lost.
        return {"transaction": await asyncio.shield(self._transactions.begin(database, request))}

    async def commit(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Make a transaction's changes durable. If that fails, all of them are rolled back."""
        _require_call_named(request)
        return await asyncio.shield(self._commit(request, params))

    async def rollback(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Roll back a transaction."""
        database = self._pool.get(request.tenant, request.plugin)
        await self._transactions.rollback(database, _required_transaction_id(params), request)
        return {}

    # --- effect records ---------------------------------------------------------------------------------------------

    async def end_call(
        self, tenant: Tenant, plugin: PluginName, call: CallId, fence: int, started_at: str
    ) -> RecordedEffect | None:
        """Return the recorded effect of an atomic call. A call without one can change nothing from here on.

        Raises:
            Busy: its transaction may still be open, or others are.
            PaddockError: it cannot be determined now.
        """
        now = self._clock.now().isoformat()

        def work(file: GuardedConnection) -> RecordedEffect | None:
            return file.end_call(call, fence, started_at=started_at, now=now)

        return await self._run_locked(self._pool.get(tenant, plugin), None, None, work)

    def release_effect_record(self, tenant: Tenant, plugin: PluginName, call: CallId) -> None:
        """Mark a call's record as no longer needed; it is deleted with the next record that is written."""
        database = self._pool.find(tenant, plugin)
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
        database = self._pool.find(tenant, plugin)
        transaction = database.transaction if database else None
        if database is not None and transaction is not None and transaction.instance == instance:
            await self._transactions.abort(database, transaction, "the process that began it ended")

    async def tables(self, tenant: Tenant, plugin: PluginName) -> tuple[str, ...]:
        """Return the plugin's tables by their full names, for people; empty if it never stored anything."""
        database = self._pool.get(tenant, plugin)
        if not database.path.exists():
            return ()
        tables = await self._run_locked(database, None, None, GuardedConnection.tables)
        return tuple(full_table_name(plugin, table) for table in tables)

    async def drop(self, tenant: Tenant, plugin: PluginName) -> tuple[str, ...]:
        """Delete the database of a plugin, which must have stopped; return the full names of its tables."""
        database = self._pool.get(tenant, plugin)
        if database.transaction is not None:
            await self._transactions.abort(database, database.transaction, "the plugin is being uninstalled")
        try:
            dropped = await self.tables(tenant, plugin)
        except PaddockError:
            dropped = ()  # perhaps damaged; it is deleted all the same
        await self._pool.delete(tenant, plugin)
        return dropped

    async def forget(self, plugin: PluginName) -> None:
        """Delete an uninstalled plugin's databases, for all tenants that have one open here."""
        for tenant in self._pool.tenants_of(plugin):
            await self.drop(tenant, plugin)

    async def aclose(self) -> None:
        """Roll back open transactions and close every file."""
        await asyncio.gather(*(self._shut_down(database) for database in self._pool.refuse_new()))
        await self._transactions.aclose()
        await self._pool.aclose()

    async def _shut_down(self, database: PluginDatabase) -> None:
        if database.transaction is not None:
            await self._transactions.abort(database, database.transaction, "the host is closing")
        with suppress(PaddockError):  # a statement that does not end is left to the end of the process
            await self._pool.close(database)

    # --- running statements -----------------------------------------------------------------------------------------

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
        database = self._pool.get(request.tenant, request.plugin)
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
            return await self._transactions.run(database, transaction_id, request.instance, work)
        await database.acquire()
        # The lock is released with the work, not with its caller: a cancelled caller's statement still runs.
        return await self._pool.run(database, work, on_done=database.release)

    async def _commit(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        database = self._pool.get(request.tenant, request.plugin)
        effect = self._effect_write(database, request, params)
        commit = partial(GuardedConnection.commit, effect=effect)
        await self._transactions.commit(database, _required_transaction_id(params), request, commit)
        _effect_recorded(database, effect)
        return {}


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
        database.note_recorded(effect.released_calls)


def _transaction_id(params: Mapping[str, Any]) -> str | None:
    transaction_id = params.get("transaction")
    if transaction_id is not None and not isinstance(transaction_id, str):
        raise invalid_param("transaction", "must be the text that begin gave")
    return transaction_id


def _required_transaction_id(params: Mapping[str, Any]) -> str:
    return text_param(params, "transaction", max_chars=64)
