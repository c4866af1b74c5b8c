"""The storage family: SQL for plugins, on worker threads, each plugin in a file of its own.

storage.query {sql, params}   → {rows, columns}
storage.exec {sql, params}    → {rows_affected}, and {rows, columns} where the statement returns any
storage.schema {}             → {tables}
storage.begin {}              → {transaction}; pass it as `transaction` to the calls that belong to it
storage.commit {transaction}, storage.rollback {transaction} → {}

What a call changes whose recovery is `atomic` is noted with the change; `exec` and `commit` take its `result` then.
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

_MAX_THREADS = 32  # a file uses at most one at a time


class SqlService:
    """Every plugin's tables below one directory. Expects one event loop."""

    def __init__(self, directory: Path, *, clock: Clock, random: Random, limits: StorageLimits | None = None) -> None:
        self._directory = directory.absolute()
        self._clock = clock
        self._random = random
        self._limits = limits or StorageLimits()
        self._loop = asyncio.get_running_loop()
        self._workers = ThreadPool(_MAX_THREADS)
        if not apsw.hard_heap_limit(-1):
            apsw.hard_heap_limit(self._limits.heap_bytes)
        self._databases: dict[
            tuple[str, str], PluginDatabase
        ] = {}  # by tenant and plugin, the least recently used first
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

    # --- what plugins ask for ---------------------------------------------------------------------------------------

    async def exec(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run one statement, wholly or not at all. Errors are those of `GuardedFile.run`, and `Busy`."""
        return await self._run_statement(asking, params, _exec_result, may_write=True)

    async def query(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run one statement that only reads."""
        return await self._run_statement(asking, params, _query_result, may_write=False)

    async def schema(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """The names of the plugin's tables and views."""
        place = self._database(asking.tenant, asking.plugin)
        return {"tables": await self._in_turn(place, _transaction_id(params), asking, GuardedConnection.tables)}

    async def begin(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a transaction. It is rolled back when it idles, when it lasts too long, and when its process ends."""
        del params
        _require_call_named(asking)
        # Finished even when whoever asks goes away meanwhile: the turn must not be lost.
        return await asyncio.shield(self._loop.create_task(self._begin(asking)))

    async def commit(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Make a transaction's changes durable. When that fails, nothing of it was kept."""
        _require_call_named(asking)
        return await asyncio.shield(self._loop.create_task(self._commit(asking, params)))

    async def rollback(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Take a transaction's changes back."""
        ended = self._end_transaction(asking, params, GuardedConnection.rollback, "rolled back")
        return await asyncio.shield(self._loop.create_task(ended))

    # --- notes of what calls have done ------------------------------------------------------------------------------

    async def end_call(
        self, tenant: Tenant, plugin: PluginName, call: CallId, fence: int, *, started_at: str
    ) -> RecordedEffect | None:
        """What a call whose recovery is atomic has noted. One that has noted nothing changes nothing from here on.

        Raises:
            Busy: its transaction may still be open, or others are.
            PaddockError: it cannot be known now.
        """
        now = self._clock.now().isoformat()

        def work(file: GuardedConnection) -> RecordedEffect | None:
            return file.end_call(call, fence, started_at=started_at, now=now)

        return await self._in_turn(self._database(tenant, plugin), None, None, work)

    def release_effect_record(self, tenant: Tenant, plugin: PluginName, call: CallId) -> None:
        """What became of a call is known elsewhere: its note goes with the next that is made."""
        place = self._databases.get((tenant, plugin))
        if place is not None and len(place.over) < effect_records.MAX_PENDING_RELEASES:
            place.over.append(call)

    def _effect_write(
        self, place: PluginDatabase, asking: CapabilityRequest, params: Mapping[str, Any]
    ) -> EffectWrite | None:
        if not asking.atomic:
            return None
        if asking.call is None or asking.call_id is None or asking.call.fence is None:
            raise HostError("a call without a record changes tables", code="effect.stale")
        result = effect_records.encode_result(params["result"]) if "result" in params else None
        now = self._clock.now()
        oldest = None if place.looked_through else (now - effect_records.RETENTION).isoformat()
        return EffectWrite(asking.call_id, asking.call.fence, result, now.isoformat(), oldest, tuple(place.over))

    # --- for the host -----------------------------------------------------------------------------------------------

    async def rollback_of_instance(self, tenant: Tenant, plugin: PluginName, instance: str = "") -> None:
        """A process of the plugin is gone: roll back the transaction that it left open."""
        place = self._databases.get((tenant, plugin))
        left = place.transaction if place else None
        if place is not None and left is not None and left.instance == instance:
            await self._abort_transaction(place, left, "the process that began it ended")

    async def tables(self, tenant: Tenant, plugin: PluginName) -> tuple[str, ...]:
        """The plugin's tables by their full names, for people; none where it never stored anything."""
        place = self._database(tenant, plugin)
        if not place.path.exists():
            return ()
        found = await self._in_turn(place, None, None, GuardedConnection.tables)
        return tuple(full_table_name(plugin, table) for table in found)

    async def drop(self, tenant: Tenant, plugin: PluginName) -> tuple[str, ...]:
        """Drop everything of one plugin, which must not run any more; gives the full names of its tables."""
        place = self._database(tenant, plugin)
        if place.transaction is not None:
            await self._abort_transaction(place, place.transaction, "the plugin is being uninstalled")
        try:
            dropped = await self.tables(tenant, plugin)
        except PaddockError:
            dropped = ()  # damaged, perhaps; it goes all the same
        await place.acquire()
        try:
            await self._workers.run(lambda: _delete_files(place))
        finally:
            place.release()
            self._databases.pop((tenant, plugin), None)
        return dropped

    async def forget(self, plugin: PluginName) -> None:
        """Drop everything of one plugin, of all tenants that have it open here. For uninstalling."""
        for tenant in [tenant for tenant, name in self._databases if name == plugin]:
            await self.drop(Tenant(tenant), plugin)

    async def aclose(self) -> None:
        """Roll back what is open, and let go of every file."""
        self._closed = True
        await asyncio.gather(*(self._shut_down(place) for place in self._databases.values()))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._workers.close()

    async def _shut_down(self, place: PluginDatabase) -> None:
        if place.transaction is not None:
            await self._abort_transaction(place, place.transaction, "the host is closing")
        with suppress(PaddockError):  # a statement that does not end is left to end with the process
            await self._close(place)

    # --- turns ------------------------------------------------------------------------------------------------------

    async def _run_statement(
        self,
        asking: CapabilityRequest,
        params: Mapping[str, Any],
        told: Callable[[StatementResult], dict[str, Any]],
        *,
        may_write: bool,
    ) -> Any:
        sql = text_param(params, "sql", longest=MAX_SQL_CHARS)
        bound: Bindings = read_bindings(params.get("params"))
        seconds = self._limits.statement_seconds
        if may_write:
            _require_call_named(asking)
        place = self._database(asking.tenant, asking.plugin)
        transaction = _transaction_id(params)
        doing = self._effect_write(place, asking, params) if may_write and transaction is None else None

        def run(file: GuardedConnection) -> Any:
            answer = told(file.run(sql, bound, may_write=may_write, seconds=seconds, doing=doing))
            # From here, so that the plugin does not wait until the event loop has heard of it.
            return REPLY_SENT if asking.answer_early(answer) else answer

        answer = await self._in_turn(place, transaction, asking, run)
        _effect_noted(place, doing)
        return answer

    async def _in_turn(
        self,
        place: PluginDatabase,
        transaction_id: str | None,
        asking: CapabilityRequest | None,
        work: Callable[[GuardedConnection], T],
    ) -> T:
        if transaction_id is not None and asking is not None:
            return await self._in_transaction(place, transaction_id, asking.instance, work)
        await place.acquire()
        # The turn ends with the work, not with whoever waits for it: a cancelled caller's statement still runs.
        return await self._workers.run(partial(place.with_file, work), after=place.release)

    async def _in_transaction(
        self, place: PluginDatabase, transaction_id: str, instance: str, work: Callable[[GuardedConnection], T]
    ) -> T:
        place.require_transaction(transaction_id, instance)
        return await self._run_shielded(self._step(place, transaction_id, instance, work))

    async def _run_shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of this, which goes on when whoever waits for it does not: a thread has the file until then."""
        return await asyncio.shield(self._loop.create_task(work))

    async def _step(
        self, place: PluginDatabase, transaction_id: str, instance: str, work: Callable[[GuardedConnection], T]
    ) -> T:
        async with place.step:
            transaction = place.require_transaction(transaction_id, instance)
            transaction.stop_timer()
            try:
                return await self._workers.run(partial(place.with_file, work))
            finally:
                if place.file is None or not place.file.in_transaction:
                    place.end_transaction(transaction, "a statement failed so badly that SQLite rolled it back")
                else:
                    self._start_timer(place, transaction)

    async def _begin(self, asking: CapabilityRequest) -> dict[str, Any]:
        place = self._database(asking.tenant, asking.plugin)
        await place.acquire()
        return await self._run_shielded(self._begin_locked(place, asking))

    async def _begin_locked(self, place: PluginDatabase, asking: CapabilityRequest) -> dict[str, Any]:
        try:
            await self._workers.run(partial(place.with_file, GuardedConnection.begin))
        except BaseException:
            place.release()
            raise
        total = self._loop.time() + self._limits.transaction_total
        name = new_id("tx", self._clock, self._random)
        transaction = OpenTransaction(name, asking.instance, total, asking.call_id, asking.atomic)
        place.transaction = transaction
        self._start_timer(place, transaction)
        return {"transaction": transaction.id}

    async def _commit(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        place = self._database(asking.tenant, asking.plugin)
        doing = self._effect_write(place, asking, params)
        ended = await self._end_transaction(
            asking, params, partial(GuardedConnection.commit, doing=doing), "committed", keeps=True
        )
        _effect_noted(place, doing)
        return ended

    async def _end_transaction(
        self,
        asking: CapabilityRequest,
        params: Mapping[str, Any],
        work: Callable[[GuardedConnection], None],
        why: str,
        *,
        keeps: bool = False,
    ) -> dict[str, Any]:
        place = self._database(asking.tenant, asking.plugin)
        transaction_id = text_param(params, "transaction", longest=64)
        await self._run_shielded(self._end_locked(place, transaction_id, asking, work, why, keeps=keeps))
        return {}

    async def _end_locked(
        self,
        place: PluginDatabase,
        transaction_id: str,
        asking: CapabilityRequest,
        work: Callable[[GuardedConnection], None],
        why: str,
        *,
        keeps: bool,
    ) -> None:
        async with place.step:
            transaction = place.require_transaction(transaction_id, asking.instance)
            if keeps and (transaction.atomic or asking.atomic) and transaction.call != asking.call_id:
                raise Conflict("this transaction belongs to another call", code="storage.other_call")
            transaction.stop_timer()
            try:
                await self._workers.run(partial(place.with_file, work))
            except BaseException:
                why = "it could not be committed"
                raise
            finally:
                place.end_transaction(transaction, why)

    async def _abort_transaction(self, place: PluginDatabase, transaction: OpenTransaction, why: str) -> None:
        async with place.step:
            if place.transaction is not transaction:
                return
            with suppress(PaddockError):
                await self._workers.run(partial(place.with_file, GuardedConnection.rollback))
            place.end_transaction(transaction, why)

    def _start_timer(self, place: PluginDatabase, transaction: OpenTransaction) -> None:
        idle = self._loop.time() + self._limits.transaction_idle
        if transaction.ends_at <= idle:
            at, why = transaction.ends_at, f"it lasted longer than {self._limits.transaction_total:g} s"
        else:
            at, why = idle, f"nothing was asked of it for {self._limits.transaction_idle:g} s"
        transaction.timer = self._loop.call_at(at, self._expire, place, transaction, why)

    def _expire(self, place: PluginDatabase, transaction: OpenTransaction, why: str) -> None:
        task = self._loop.create_task(self._abort_transaction(place, transaction, f"{why}, and was rolled back"))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- files ------------------------------------------------------------------------------------------------------

    def _database(self, tenant: Tenant, plugin: PluginName) -> PluginDatabase:
        if self._closed:
            raise StoreUnavailable("the host is closing", code="storage.unavailable")
        key = (tenant, plugin)
        place = self._databases.pop(key, None) or self._new_database(tenant, plugin)
        self._databases[key] = place
        if len(self._databases) > self._limits.open_files:
            self._close_one_idle(place)
        return place

    def _new_database(self, tenant: Tenant, plugin: PluginName) -> PluginDatabase:
        return PluginDatabase(database_file(self._directory, tenant, plugin), self._limits, self._clock.monotonic)

    def _close_one_idle(self, besides: PluginDatabase) -> None:
        unused = next((key for key, one in self._databases.items() if one.idle and one is not besides), None)
        if unused is not None:
            task = self._loop.create_task(self._close(self._databases.pop(unused)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _close(self, place: PluginDatabase) -> None:
        await place.acquire()
        try:
            file, place.file = place.file, None
            if file is not None:
                await self._workers.run(file.close)
        finally:
            place.release()


@asynccontextmanager
async def open_sql_service(
    directory: Path, *, clock: Clock, random: Random, limits: StorageLimits | None = None
) -> AsyncGenerator[SqlService, None]:
    """Storage for as long as the block runs."""
    storage = SqlService(directory, clock=clock, random=random, limits=limits)
    try:
        yield storage
    finally:
        await asyncio.shield(storage.aclose())


def delete_plugin_files(directory: Path, plugin: str) -> int:
    """Remove a plugin's files of all tenants, while no host has them open; gives how many. For one-shot commands."""
    dropped = 0
    for folder in directory.iterdir() if directory.is_dir() else ():
        path = database_file(directory, folder.name, plugin)
        dropped += path.exists()
        for file in database_files(path):
            file.unlink(missing_ok=True)
    return dropped


def _delete_files(place: PluginDatabase) -> None:
    if place.file is not None:
        place.file.close()
        place.file = None
    for file in database_files(place.path):
        file.unlink(missing_ok=True)


def _exec_result(answer: StatementResult) -> dict[str, Any]:
    affected: dict[str, Any] = {"rows_affected": answer.rows_affected}
    return affected | _query_result(answer) if answer.columns else affected


def _query_result(answer: StatementResult) -> dict[str, Any]:
    return {"rows": answer.rows, "columns": answer.columns}


def _require_call_named(asking: CapabilityRequest) -> None:
    """Refuse a change that would be noted nowhere, although it may be that of a call whose recovery is atomic."""
    if asking.call is None and any(spec.recovery == "atomic" for spec in asking.manifest.callables):
        raise effect_records.missing_call_error()


def _effect_noted(place: PluginDatabase, doing: EffectWrite | None) -> None:
    if doing is not None and doing.noted:
        place.looked_through = True
        place.over = [call for call in place.over if call not in doing.over]


def _transaction_id(params: Mapping[str, Any]) -> str | None:
    given = params.get("transaction")
    if given is not None and not isinstance(given, str):
        raise invalid_param("transaction", "must be the text that begin gave")
    return given
