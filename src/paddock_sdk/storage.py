"""The plugin's own tables, which the host keeps: SQL goes out as a request, rows come back.

A statement by itself is a transaction. Several become one in a block, which is undone if it fails:

    with plugin.storage.transaction() as tables:
        tables.exec("UPDATE account SET money = money - ? WHERE id = ?", [5, "a"])
        tables.exec("UPDATE account SET money = money + ? WHERE id = ?", [5, "b"])

A call whose recovery is `atomic` says in the block what it is going to answer, with `tables.answers(...)`: whoever asks
again after a crash gets that.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple

from paddock_sdk.answer import Answer
from paddock_sdk.call import JsonObject
from paddock_sdk.faults import HostGone, HostRefused
from paddock_sdk.service import Ask, Service


class Rows(NamedTuple):
    """What a query found."""

    rows: list[dict[str, Any]]
    columns: list[str]


class Statements:
    """SQL that goes to the host, each statement an Answer."""

    def __init__(self, service: Service, transaction: JsonObject | None = None) -> None:
        self._service = service
        self._within = transaction or {}
        self.result: JsonObject = {}  # what goes with the commit

    def answers(self, result: Any) -> None:
        """What the call is going to answer, kept with the transaction; for a call whose recovery is `atomic`."""
        self.result = {"result": result}

    def query(self, sql: str, params: Sequence[Any] = ()) -> Answer[Rows]:
        """Read with a SELECT."""
        asked = {"sql": sql, "params": list(params), **self._within}
        return self._service.ask("query", asked, lambda answer: Rows(answer["rows"], answer["columns"]))

    def exec(self, sql: str, params: Sequence[Any] = ()) -> Answer[int]:
        """Write or define tables; gives the number of rows affected."""
        asked = {"sql": sql, "params": list(params), **self._within}
        return self._service.ask("exec", asked, lambda answer: answer["rows_affected"])


class Sql(Service):
    """The tables as a service of `host`: everything can be awaited, or waited for."""

    def query(self, sql: str, params: Sequence[Any] = ()) -> Answer[Rows]:
        """Read with a SELECT."""
        return Statements(self).query(sql, params)

    def exec(self, sql: str, params: Sequence[Any] = ()) -> Answer[int]:
        """Write or define tables; gives the number of rows affected."""
        return Statements(self).exec(sql, params)

    def schema(self) -> Answer[list[str]]:
        """The names of the plugin's tables."""
        return self.ask("schema", {}, lambda answer: answer["tables"])

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Statements, None]:
        """Several statements as one: kept when the block ends, undone when it fails."""
        within = await self.ask("begin", {}, _transaction)
        statements = Statements(self, within)
        try:
            yield statements
        except BaseException:
            self.ask("rollback", within)  # not waited for: whatever failed may be the host itself, or a cancellation
            raise
        await self.ask("commit", {**within, **statements.result})


class Storage:
    """The tables for code that is not async: each method waits for its answer.

    Raises:
        HostRefused: the statement is wrong, or the plugin was not granted it.
    """

    def __init__(self, ask: Ask, namespace: str, transaction: JsonObject | None = None) -> None:
        self._ask = ask
        self._namespace = namespace
        # Whether storage was granted is the host's word: a plugin that is its own program is not told.
        self._service = Service(ask, f"{namespace}.storage", declared=True)
        self._statements = Statements(self._service, transaction)

    def answers(self, result: Any) -> None:
        """What the call is going to answer, kept with the transaction; for a call whose recovery is `atomic`."""
        self._statements.answers(result)

    def query(self, sql: str, params: Sequence[Any] = ()) -> Rows:
        """Read with a SELECT."""
        return self._statements.query(sql, params).wait()

    def exec(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Write or define tables; gives the number of rows affected."""
        return self._statements.exec(sql, params).wait()

    def schema(self) -> list[str]:
        """The names of the plugin's tables."""
        return self._service.ask("schema", {}).wait()["tables"]

    @contextmanager
    def transaction(self) -> Generator[Storage, None, None]:
        """Several statements as one: kept when the block ends, undone when it fails."""
        within = self._service.ask("begin", {}, _transaction).wait()
        tables = Storage(self._ask, self._namespace, within)
        try:
            yield tables
        except BaseException:
            # What went wrong in the block is what the caller has to hear, not that undoing it failed too.
            with suppress(HostRefused, HostGone):
                self._service.ask("rollback", within).wait()
            raise
        self._service.ask("commit", {**within, **tables._statements.result}).wait()


def _transaction(answer: Any) -> JsonObject:
    return {"transaction": answer["transaction"]}
