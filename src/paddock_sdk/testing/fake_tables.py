"""A plugin's tables in memory, with Python's own SQLite. The real host allows less: its list is not repeated here."""

from __future__ import annotations

import sqlite3
from typing import Any

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import InvalidParams, PluginFault

STORAGE_DENIED = -32003


class FakeTables:
    """One database that lives as long as the test.

    Args:
        writable: Whether `storage:write` was granted.
    """

    def __init__(self, *, writable: bool) -> None:
        # Statements are transactions of their own; begin and commit are said in words.
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._database.row_factory = sqlite3.Row
        self._writable = writable
        self._transaction: str | None = None
        self._begun = 0

    def answer(self, operation: str, params: JsonObject) -> JsonObject:
        """What the host would answer to `storage.<operation>`.

        Raises:
            PluginFault: the statement is wrong or not allowed.
        """
        if params.get("transaction", self._transaction) != self._transaction:
            raise InvalidParams("there is no such transaction")
        try:
            return self._answer(operation, params)
        except sqlite3.Error as error:
            raise PluginFault(str(error), {"code": "storage.sql"}) from None

    def _answer(self, operation: str, params: JsonObject) -> JsonObject:
        match operation:
            case "query":
                found = self._database.execute(params["sql"], params.get("params", []))
                columns = [column[0] for column in found.description or ()]
                return {"rows": [dict(row) for row in found], "columns": columns}
            case "exec":
                if not self._writable:
                    raise PluginFault("storage:write was not granted", code=STORAGE_DENIED)
                done = self._database.execute(params["sql"], params.get("params", []))
                return {"rows_affected": max(0, done.rowcount)}
            case "schema":
                tables = self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
                return {"tables": [row["name"] for row in tables]}
            case "begin":
                return self._begin()
            case "commit" | "rollback":
                self._database.execute(operation.upper())
                self._transaction = None
                return {}
            case _:
                raise PluginFault(f"there is no method storage.{operation}", code=-32601)

    def _begin(self) -> JsonObject:
        if self._transaction is not None:
            raise PluginFault("a transaction is open already", code=-32005)
        self._database.execute("BEGIN IMMEDIATE")
        self._begun += 1
        self._transaction = f"t{self._begun}"
        return {"transaction": self._transaction}

    def rows(self, sql: str, params: tuple[Any, ...] = ()) -> list[JsonObject]:
        """What a test sees in the tables."""
        return [dict(row) for row in self._database.execute(sql, params)]
