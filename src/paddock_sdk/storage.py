"""The plugin's own tables, stored by the host: SQL goes out as a request, rows come back.

A single statement is its own transaction. Several become one in a block, which is rolled back if it fails:

    with plugin.storage.transaction() as tables:
        tables.exec("UPDATE account SET money = money - ? WHERE id = ?", [5, "a"])
        tables.exec("UPDATE account SET money = money + ? WHERE id = ?", [5, "b"])

A call with recovery `atomic` states its result inside the block, with `tables.answers(...)`: a repeated call after a
crash returns that result.
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
    """The result of a query."""

    rows: list[dict[str, Any]]
    columns: list[str]


class Statements:
    """Sends SQL to the host; each statement returns an Answer."""

    def __init__(self, service: Service, transaction: JsonObject | None = None) -> None:
        self._service = service
        self._transaction = transaction or {}
        self.result: JsonObject = {}  # sent with the commit

    def answers(self, result: Any) -> None:
        """Store the call's result with the transaction; for a call with recovery `atomic`."""
        self.result = {"result": result}

    def query(self, sql: str, params: Sequence[Any] = ()) -> Answer[Rows]:
        """Run a SELECT."""
        request = {"sql": sql, "params": list(params), **self._transaction}
        return self._service.ask("query", request, lambda answer: Rows(answer["rows"], answer["columns"]))

    def exec(self, sql: str, params: Sequence[Any] = ()) -> Answer[int]:
        """Change data or define tables; returns the number of affected rows."""
        request = {"sql": sql, "params": list(params), **self._transaction}
        return self._service.ask("exec", request, lambda answer: answer["rows_affected"])


class Sql(Service):
    """The tables as the service `host.sql`: every result can be awaited, or waited for."""

    def query(self, sql: str, params: Sequence[Any] = ()) -> Answer[Rows]:
        """Run a SELECT."""
        return Statements(self).query(sql, params)

    def exec(self, sql: str, params: Sequence[Any] = ()) -> Answer[int]:
        """Change data or define tables; returns the number of affected rows."""
        return Statements(self).exec(sql, params)

    def schema(self) -> Answer[list[str]]:
        """Return the names of the plugin's tables."""
        return self.ask("schema", {}, lambda answer: answer["tables"])

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Statements, None]:
        """Run several statements in one transaction: committed when the block ends, rolled back when it fails."""
        transaction = await self.ask("begin", {}, _transaction)
        statements = Statements(self, transaction)
        try:
            yield statements
        except BaseException:
            self.ask("rollback", transaction)  # not awaited: the failure may be the host itself, or a cancellation
            raise
        await self.ask("commit", {**transaction, **statements.result})


class Storage:
    """The tables for synchronous code: each method waits for its result.

    Raises:
        HostRefused: the statement is wrong, or the plugin lacks the capability.
    """

    def __init__(self, ask: Ask, namespace: str, transaction: JsonObject | None = None) -> None:
        self._ask = ask
        self._namespace = namespace
        # The host checks the grant: a plugin that is its own program does not know its grants.
        self._service = Service(ask, f"{namespace}.storage", declared=True)
        self._statements = Statements(self._service, transaction)

    def answers(self, result: Any) -> None:
        """Store the call's result with the transaction; for a call with recovery `atomic`."""
        self._statements.answers(result)

    def query(self, sql: str, params: Sequence[Any] = ()) -> Rows:
        """Run a SELECT."""
        return self._statements.query(sql, params).wait()

    def exec(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Change data or define tables; returns the number of affected rows."""
        return self._statements.exec(sql, params).wait()

    def schema(self) -> list[str]:
        """Return the names of the plugin's tables."""
        return self._service.ask("schema", {}).wait()["tables"]

    @contextmanager
    def transaction(self) -> Generator[Storage, None, None]:
        """Run several statements in one transaction: committed when the block ends, rolled back when it fails."""
        transaction = self._service.ask("begin", {}, _transaction).wait()
        tables = Storage(self._ask, self._namespace, transaction)
        try:
            yield tables
        except BaseException:
            # The caller must see the error of the block, not that of a failed rollback.
            with suppress(HostRefused, HostGone):
                self._service.ask("rollback", transaction).wait()
            raise
        self._service.ask("commit", {**transaction, **tables._statements.result}).wait()


def _transaction(answer: Any) -> JsonObject:
    return {"transaction": answer["transaction"]}
