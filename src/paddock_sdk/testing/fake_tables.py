"""A plugin's tables in memory, in Python's own SQLite. Access beyond them is refused as the host refuses it.

The host's limits of time and size and its list of functions are not repeated here: what passes here may still be
refused there. `paddock plugin test` runs against the real checks.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Any

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import PluginFault
from paddock_sdk.testing.fake_values import bind_params, to_wire_value, unique_names

STORAGE_DENIED = -32003
BUSY = -32005

_FORBIDDEN_ACTIONS = frozenset(
    {sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT}
)
_FORBIDDEN_FUNCTIONS = frozenset(
    {"load_extension", "fts3_tokenizer", "sqlite_log", "sqlite_compileoption_get", "json_pretty", "fts5", "matchinfo"}
)
_INTERNAL_TABLES = re.compile(r"dbstat|bytecode|tables_used|sqlite_stmt|sqlite_dbpage|pragma_\w+", re.IGNORECASE)
_SETTINGS = re.compile(r"\s*(EXPLAIN\s+(QUERY\s+PLAN\s+)?)?(PRAGMA|VACUUM)\b", re.IGNORECASE)
_ALTERS = re.compile(r"ALTER\b", re.IGNORECASE)
_COMMENTS = re.compile(r"\A(\s|--[^\n]*(\n|\Z)|/\*.*?(\*/|\Z))*", re.DOTALL)
_FORBIDDEN_MESSAGE = re.compile(
    r"not authorized|prohibited|readonly database|unknown database|may not be|reserved for internal|one statement|"
    r"no such module|no such table: (main\.)?(plugin|sqlite)_|no such table: (?!main\.)[^.]+\.|unsafe use",
    re.IGNORECASE,
)


_DEFINITION = re.compile(
    r"\s*CREATE\s+((VIRTUAL\s+)?TABLE|(UNIQUE\s+)?INDEX)\s+IF\s+NOT\s+EXISTS\s+(\w+|\"[\w -]+\")"
    r"\s*(\(|\sON\s|\sUSING\s)",
    re.IGNORECASE,
)


def is_definition(sql: str) -> bool:
    """Whether a statement makes an empty table or an index where there is none, which a call that only reads may do."""
    return _DEFINITION.match(sql) is not None


class FakeTables:
    """One database for the duration of the test.

    Args:
        writable: Whether `storage:write` was granted.
    """

    def __init__(self, *, writable: bool) -> None:
        # Autocommit: transactions are begun and committed explicitly.
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA foreign_keys = ON")
        self._writable = writable
        self._transaction: str | None = None
        self._begun = 0

    def answer(self, operation: str, params: JsonObject) -> JsonObject:
        """Return what the host would answer to `storage.<operation>`.

        Raises:
            PluginFault: the statement is wrong or not allowed.
        """
        match operation:
            case "query":
                self._check_transaction(params)
                rows, columns, _ = self._run(params, may_write=False)
                return {"rows": rows, "columns": columns}
            case "exec":
                self._require_write()
                self._check_transaction(params)
                rows, columns, affected = self._run(params, may_write=True)
                return {"rows_affected": affected} | ({"rows": rows, "columns": columns} if columns else {})
            case "schema":
                self._check_transaction(params)
                select_names = (
                    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'"
                )
                return {"tables": [row["name"] for row in self.rows(f"{select_names} ORDER BY name")]}
            case "begin":
                self._require_write()
                self._check_transaction({})
                self._database.execute("BEGIN IMMEDIATE")
                self._begun += 1
                self._transaction = f"tx_{self._begun}"
                return {"transaction": self._transaction}
            case "commit" | "rollback":
                self._require_write()
                self._check_transaction({"transaction": params.get("transaction", "")})
                self._database.execute(operation.upper())
                self._transaction = None
                return {}
            case _:
                raise PluginFault(f"there is no method storage.{operation}", code=-32601)

    def rows(self, sql: str, params: tuple[Any, ...] = ()) -> list[JsonObject]:
        """Return rows of the tables, for assertions in a test."""
        cursor = self._database.execute(sql, params)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def _require_write(self) -> None:
        if not self._writable:
            raise _refused("storage:write was not granted")

    def _check_transaction(self, params: JsonObject) -> None:
        transaction = params.get("transaction")
        if transaction is None and self._transaction is not None:
            raise PluginFault(
                "a transaction is under way in this plugin's storage for too long: pass it along, or end it first",
                {"code": "storage.busy"},
                code=BUSY,
            )
        if transaction is not None and transaction != self._transaction:
            raise PluginFault(f"there is no transaction {transaction}", {"code": "storage.no_transaction"})

    def _run(self, params: JsonObject, *, may_write: bool) -> tuple[list[JsonObject], list[str], int]:
        sql = _COMMENTS.sub("", params["sql"])
        if _SETTINGS.match(sql):
            raise _refused("settings are the host's")

        values = bind_params(params.get("params"))
        before = self._database.total_changes
        self._database.execute(f"PRAGMA query_only = {'OFF' if may_write else 'ON'}")
        # ALTER TABLE reads internal tables itself, and can do nothing but what it states.
        self._database.set_authorizer(None if _ALTERS.match(sql) else _authorize)
        try:
            cursor = self._database.execute(sql, values)
            columns = unique_names([column[0] for column in cursor.description or ()])
            rows = [{name: to_wire_value(value) for name, value in zip(columns, row, strict=True)} for row in cursor]
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise _fault(error) from None
        finally:
            self._database.set_authorizer(None)
            self._database.execute("PRAGMA query_only = OFF")
        return rows, columns, self._database.total_changes - before


def _authorize(action: int, first: str | None, second: str | None, schema: str | None, _by: str | None) -> int:
    return sqlite3.SQLITE_OK if _allowed(action, first or "", second or "", schema) else sqlite3.SQLITE_DENY


def _allowed(action: int, first: str, second: str, schema: str | None) -> bool:
    if action in _FORBIDDEN_ACTIONS or schema not in (None, "main"):
        return False
    match action:
        case sqlite3.SQLITE_PRAGMA:
            return first == "data_version"  # full-text tables read it themselves
        case sqlite3.SQLITE_READ:
            return not _INTERNAL_TABLES.fullmatch(first)
        case sqlite3.SQLITE_FUNCTION:
            return second not in _FORBIDDEN_FUNCTIONS
        case sqlite3.SQLITE_CREATE_VTABLE:
            return second == "fts5"
        case _:
            return True


def _fault(error: Exception) -> PluginFault:
    if _FORBIDDEN_MESSAGE.search(str(error)):
        return _refused(str(error))
    code = "storage.constraint" if isinstance(error, sqlite3.IntegrityError) else "storage.sql"
    return PluginFault(f"SQLite says: {error}", {"code": code})


def _refused(reason: str) -> PluginFault:
    return PluginFault(
        f"the statement is not allowed: {reason}", {"code": "storage_access_denied"}, code=STORAGE_DENIED
    )
