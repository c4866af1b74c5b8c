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

from paddock.capabilities.asking import Asking
from paddock.capabilities.door import Handler
from paddock.capabilities.params import text, wrong
from paddock.capabilities.storage import notes
from paddock.capabilities.storage.guarded_file import Answer, GuardedFile
from paddock.capabilities.storage.limits import LONGEST_SQL, StorageLimits
from paddock.capabilities.storage.names import file_of, files_of, full_name
from paddock.capabilities.storage.notes import Doing, Done
from paddock.capabilities.storage.place import OpenTransaction, Place
from paddock.capabilities.storage.values import Bindings, bindings
from paddock.capabilities.storage.workers import Workers
from paddock.core.clock import Clock, Random
from paddock.core.errors import Conflict, HostError, PaddockError, StoreUnavailable
from paddock.core.ids import CallId, PluginName, Tenant, new_id
from paddock.rpc.peer import SENT

T = TypeVar("T")

_THREADS = 32  # a file uses at most one at a time


class Storage:
    """Every plugin's tables below one directory. Expects one event loop."""

    def __init__(self, directory: Path, *, clock: Clock, random: Random, limits: StorageLimits | None = None) -> None:
        self._directory = directory.absolute()
        self._clock = clock
        self._random = random
        self._limits = limits or StorageLimits()
        self._loop = asyncio.get_running_loop()
        self._workers = Workers(_THREADS)
        if not apsw.hard_heap_limit(-1):
            apsw.hard_heap_limit(self._limits.heap_bytes)
        self._places: dict[tuple[str, str], Place] = {}  # by tenant and plugin, the least recently used first
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def handlers(self) -> dict[str, Handler]:
        return {
            "storage.exec": self.exec,
            "storage.query": self.query,
            "storage.schema": self.schema,
            "storage.begin": self.begin,
            "storage.commit": self.commit,
            "storage.rollback": self.rollback,
        }

    # --- what plugins ask for ---------------------------------------------------------------------------------------

    async def exec(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run one statement, wholly or not at all. Errors are those of `GuardedFile.run`, and `Busy`."""
        return await self._statement(asking, params, _executed, may_write=True)

    async def query(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run one statement that only reads."""
        return await self._statement(asking, params, _queried, may_write=False)

    async def schema(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """The names of the plugin's tables and views."""
        place = self._place(asking.tenant, asking.plugin)
        return {"tables": await self._in_turn(place, _transaction_id(params), asking, GuardedFile.tables)}

    async def begin(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a transaction. It is rolled back when it idles, when it lasts too long, and when its process ends."""
        del params
        _require_named(asking)
        # Finished even when whoever asks goes away meanwhile: the turn must not be lost.
        return await asyncio.shield(self._loop.create_task(self._begin(asking)))

    async def commit(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Make a transaction's changes durable. When that fails, nothing of it was kept."""
        _require_named(asking)
        return await asyncio.shield(self._loop.create_task(self._commit(asking, params)))

    async def rollback(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        """Take a transaction's changes back."""
        ended = self._end(asking, params, GuardedFile.rollback, "rolled back")
        return await asyncio.shield(self._loop.create_task(ended))

    # --- notes of what calls have done ------------------------------------------------------------------------------

    async def end_call(
        self, tenant: Tenant, plugin: PluginName, call: CallId, fence: int, *, started_at: str
    ) -> Done | None:
        """What a call whose recovery is atomic has noted. One that has noted nothing changes nothing from here on.

        Raises:
            Busy: its transaction may still be open, or others are.
            PaddockError: it cannot be known now.
        """
        now = self._clock.now().isoformat()

        def work(file: GuardedFile) -> Done | None:
            return file.end_call(call, fence, started_at=started_at, now=now)

        return await self._in_turn(self._place(tenant, plugin), None, None, work)

    def let_go(self, tenant: Tenant, plugin: PluginName, call: CallId) -> None:
        """What became of a call is known elsewhere: its note goes with the next that is made."""
        place = self._places.get((tenant, plugin))
        if place is not None and len(place.over) < notes.MOST_OVER:
            place.over.append(call)

    def _doing(self, place: Place, asking: Asking, params: Mapping[str, Any]) -> Doing | None:
        if not asking.atomic:
            return None
        if asking.call is None or asking.call_id is None or asking.call.fence is None:
            raise HostError("a call without a record changes tables", code="effect.stale")
        result = notes.written(params["result"]) if "result" in params else None
        now = self._clock.now()
        oldest = None if place.looked_through else (now - notes.KEPT).isoformat()
        return Doing(asking.call_id, asking.call.fence, result, now.isoformat(), oldest, tuple(place.over))

    # --- for the host -----------------------------------------------------------------------------------------------

    async def ended(self, tenant: Tenant, plugin: PluginName, instance: str = "") -> None:
        """A process of the plugin is gone: roll back the transaction that it left open."""
        place = self._places.get((tenant, plugin))
        left = place.transaction if place else None
        if place is not None and left is not None and left.instance == instance:
            await self._give_up(place, left, "the process that began it ended")

    async def tables(self, tenant: Tenant, plugin: PluginName) -> tuple[str, ...]:
        """The plugin's tables by their full names, for people; none where it never stored anything."""
        place = self._place(tenant, plugin)
        if not place.path.exists():
            return ()
        found = await self._in_turn(place, None, None, GuardedFile.tables)
        return tuple(full_name(plugin, table) for table in found)

    async def drop(self, tenant: Tenant, plugin: PluginName) -> tuple[str, ...]:
        """Drop everything of one plugin, which must not run any more; gives the full names of its tables."""
        place = self._place(tenant, plugin)
        if place.transaction is not None:
            await self._give_up(place, place.transaction, "the plugin is being uninstalled")
        try:
            dropped = await self.tables(tenant, plugin)
        except PaddockError:
            dropped = ()  # damaged, perhaps; it goes all the same
        await place.take_turn()
        try:
            await self._workers.run(lambda: _remove(place))
        finally:
            place.end_turn()
            self._places.pop((tenant, plugin), None)
        return dropped

    async def forget(self, plugin: PluginName) -> None:
        """Drop everything of one plugin, of all tenants that have it open here. For uninstalling."""
        for tenant in [tenant for tenant, name in self._places if name == plugin]:
            await self.drop(Tenant(tenant), plugin)

    async def aclose(self) -> None:
        """Roll back what is open, and let go of every file."""
        self._closed = True
        await asyncio.gather(*(self._shut(place) for place in self._places.values()))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._workers.close()

    async def _shut(self, place: Place) -> None:
        if place.transaction is not None:
            await self._give_up(place, place.transaction, "the host is closing")
        with suppress(PaddockError):  # a statement that does not end is left to end with the process
            await self._close(place)

    # --- turns ------------------------------------------------------------------------------------------------------

    async def _statement(
        self, asking: Asking, params: Mapping[str, Any], told: Callable[[Answer], dict[str, Any]], *, may_write: bool
    ) -> Any:
        sql = text(params, "sql", longest=LONGEST_SQL)
        bound: Bindings = bindings(params.get("params"))
        seconds = self._limits.statement_seconds
        if may_write:
            _require_named(asking)
        place = self._place(asking.tenant, asking.plugin)
        transaction = _transaction_id(params)
        doing = self._doing(place, asking, params) if may_write and transaction is None else None

        def run(file: GuardedFile) -> Any:
            answer = told(file.run(sql, bound, may_write=may_write, seconds=seconds, doing=doing))
            # From here, so that the plugin does not wait until the event loop has heard of it.
            return SENT if asking.early(answer) else answer

        answer = await self._in_turn(place, transaction, asking, run)
        _noted(place, doing)
        return answer

    async def _in_turn(
        self, place: Place, transaction_id: str | None, asking: Asking | None, work: Callable[[GuardedFile], T]
    ) -> T:
        if transaction_id is not None and asking is not None:
            return await self._in_transaction(place, transaction_id, asking.instance, work)
        await place.take_turn()
        # The turn ends with the work, not with whoever waits for it: a cancelled caller's statement still runs.
        return await self._workers.run(partial(place.with_file, work), after=place.end_turn)

    async def _in_transaction(
        self, place: Place, transaction_id: str, instance: str, work: Callable[[GuardedFile], T]
    ) -> T:
        place.current(transaction_id, instance)
        return await self._to_its_end(self._step(place, transaction_id, instance, work))

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of this, which goes on when whoever waits for it does not: a thread has the file until then."""
        return await asyncio.shield(self._loop.create_task(work))

    async def _step(self, place: Place, transaction_id: str, instance: str, work: Callable[[GuardedFile], T]) -> T:
        async with place.step:
            transaction = place.current(transaction_id, instance)
            transaction.stop_timer()
            try:
                return await self._workers.run(partial(place.with_file, work))
            finally:
                if place.file is None or not place.file.in_transaction:
                    place.end_transaction(transaction, "a statement failed so badly that SQLite rolled it back")
                else:
                    self._start_timer(place, transaction)

    async def _begin(self, asking: Asking) -> dict[str, Any]:
        place = self._place(asking.tenant, asking.plugin)
        await place.take_turn()
        return await self._to_its_end(self._begun(place, asking))

    async def _begun(self, place: Place, asking: Asking) -> dict[str, Any]:
        try:
            await self._workers.run(partial(place.with_file, GuardedFile.begin))
        except BaseException:
            place.end_turn()
            raise
        total = self._loop.time() + self._limits.transaction_total
        name = new_id("tx", self._clock, self._random)
        transaction = OpenTransaction(name, asking.instance, total, asking.call_id, asking.atomic)
        place.transaction = transaction
        self._start_timer(place, transaction)
        return {"transaction": transaction.id}

    async def _commit(self, asking: Asking, params: Mapping[str, Any]) -> dict[str, Any]:
        place = self._place(asking.tenant, asking.plugin)
        doing = self._doing(place, asking, params)
        ended = await self._end(asking, params, partial(GuardedFile.commit, doing=doing), "committed", keeps=True)
        _noted(place, doing)
        return ended

    async def _end(
        self,
        asking: Asking,
        params: Mapping[str, Any],
        work: Callable[[GuardedFile], None],
        why: str,
        *,
        keeps: bool = False,
    ) -> dict[str, Any]:
        place = self._place(asking.tenant, asking.plugin)
        transaction_id = text(params, "transaction", longest=64)
        await self._to_its_end(self._ended(place, transaction_id, asking, work, why, keeps=keeps))
        return {}

    async def _ended(
        self,
        place: Place,
        transaction_id: str,
        asking: Asking,
        work: Callable[[GuardedFile], None],
        why: str,
        *,
        keeps: bool,
    ) -> None:
        async with place.step:
            transaction = place.current(transaction_id, asking.instance)
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

    async def _give_up(self, place: Place, transaction: OpenTransaction, why: str) -> None:
        async with place.step:
            if place.transaction is not transaction:
                return
            with suppress(PaddockError):
                await self._workers.run(partial(place.with_file, GuardedFile.rollback))
            place.end_transaction(transaction, why)

    def _start_timer(self, place: Place, transaction: OpenTransaction) -> None:
        idle = self._loop.time() + self._limits.transaction_idle
        if transaction.ends_at <= idle:
            at, why = transaction.ends_at, f"it lasted longer than {self._limits.transaction_total:g} s"
        else:
            at, why = idle, f"nothing was asked of it for {self._limits.transaction_idle:g} s"
        transaction.timer = self._loop.call_at(at, self._expire, place, transaction, why)

    def _expire(self, place: Place, transaction: OpenTransaction, why: str) -> None:
        task = self._loop.create_task(self._give_up(place, transaction, f"{why}, and was rolled back"))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- files ------------------------------------------------------------------------------------------------------

    def _place(self, tenant: Tenant, plugin: PluginName) -> Place:
        if self._closed:
            raise StoreUnavailable("the host is closing", code="storage.unavailable")
        key = (tenant, plugin)
        place = self._places.pop(key, None) or self._new_place(tenant, plugin)
        self._places[key] = place
        if len(self._places) > self._limits.open_files:
            self._close_one_idle(place)
        return place

    def _new_place(self, tenant: Tenant, plugin: PluginName) -> Place:
        return Place(file_of(self._directory, tenant, plugin), self._limits, self._clock.monotonic)

    def _close_one_idle(self, besides: Place) -> None:
        unused = next((key for key, one in self._places.items() if one.idle and one is not besides), None)
        if unused is not None:
            task = self._loop.create_task(self._close(self._places.pop(unused)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _close(self, place: Place) -> None:
        await place.take_turn()
        try:
            file, place.file = place.file, None
            if file is not None:
                await self._workers.run(file.close)
        finally:
            place.end_turn()


@asynccontextmanager
async def open_storage(
    directory: Path, *, clock: Clock, random: Random, limits: StorageLimits | None = None
) -> AsyncGenerator[Storage, None]:
    """Storage for as long as the block runs."""
    storage = Storage(directory, clock=clock, random=random, limits=limits)
    try:
        yield storage
    finally:
        await asyncio.shield(storage.aclose())


def drop_files(directory: Path, plugin: str) -> int:
    """Remove a plugin's files of all tenants, while no host has them open; gives how many. For one-shot commands."""
    dropped = 0
    for folder in directory.iterdir() if directory.is_dir() else ():
        path = file_of(directory, folder.name, plugin)
        dropped += path.exists()
        for file in files_of(path):
            file.unlink(missing_ok=True)
    return dropped


def _remove(place: Place) -> None:
    if place.file is not None:
        place.file.close()
        place.file = None
    for file in files_of(place.path):
        file.unlink(missing_ok=True)


def _executed(answer: Answer) -> dict[str, Any]:
    affected: dict[str, Any] = {"rows_affected": answer.rows_affected}
    return affected | _queried(answer) if answer.columns else affected


def _queried(answer: Answer) -> dict[str, Any]:
    return {"rows": answer.rows, "columns": answer.columns}


def _require_named(asking: Asking) -> None:
    """Refuse a change that would be noted nowhere, although it may be that of a call whose recovery is atomic."""
    if asking.call is None and any(spec.recovery == "atomic" for spec in asking.manifest.callables):
        raise notes.unnamed()


def _noted(place: Place, doing: Doing | None) -> None:
    if doing is not None and doing.noted:
        place.looked_through = True
        place.over = [call for call in place.over if call not in doing.over]


def _transaction_id(params: Mapping[str, Any]) -> str | None:
    given = params.get("transaction")
    if given is not None and not isinstance(given, str):
        raise wrong("transaction", "must be the text that begin gave")
    return given
