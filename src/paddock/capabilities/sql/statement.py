"""Analysis of a statement before it runs: SQLite compiles it, and does not execute it."""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import re
from contextlib import suppress

import apsw
from msgspec import Struct

from paddock.capabilities.sql.authorizer import SqlAuthorizer
from paddock.capabilities.sql.errors import denied_statement_error
from paddock.capabilities.sql.limits import value_limit
from paddock.capabilities.sql.values import Bindings, unique_column_names
from paddock.core.errors import CallerError

_END_OF_STATEMENT = re.compile(r"(?:\s|;|(?>--[^\n]*)|(?>/\*.*?(?:\*/|\Z)))*\Z", re.DOTALL)

_FULL_TEXT_OPCODES = frozenset({"VOpen", "VUpdate"})


class CompiledStatement(Struct, frozen=True):
    """One statement that the plugin may run."""

    statement: str  # without trailing text
    writes: bool
    defines: bool  # changes the schema
    altering: bool
    accumulates: bool  # may hold more than its values: JSON of many rows, matches of a full-text table
    columns: list[str]  # empty if it returns no rows
    names_bytes: int  # approximate bytes of the names in the JSON of one row
    max_value_bytes: int


def compile_statement(
    connection: apsw.Connection, authorizer: SqlAuthorizer, sql: str, bindings: Bindings
) -> CompiledStatement:
    """Compile the statement under the authorizer.

    Raises:
        Denied: there is a second statement.
        CallerError: there is no statement at all.
        apsw.Error: SQLite cannot compile it, or the authorizer denied an action.
    """
    statements: list[str] = []
    columns: list[str] = []

    def read_columns(cursor: apsw.Cursor, _statement: str, _bound: object) -> bool:
        columns.extend(column[0] for column in cursor.get_description())
        return False  # abort: the columns are known

    def check_single(_cursor: apsw.Cursor, statement: str, _bound: object) -> bool:
        # SQLite itself reports where a statement ends, so no trick with quotes or comments can hide a second one.
        rest = statement if statements else sql.removeprefix(statement)
        if not _END_OF_STATEMENT.match(rest):
            raise denied_statement_error(sql, "a second statement")
        statements.append(statement)
        return True

    try:
        connection.exec_trace = check_single
        instructions = [row[1] for row in connection.execute(sql, bindings, explain=1, can_cache=False)]
        if _END_OF_STATEMENT.match(statements[0] if statements else ""):
            raise CallerError("there is no statement", code="invalid_params", details={"param": "sql"})
        connection.exec_trace = read_columns
        with suppress(apsw.ExecTraceAbort):
            # Bypass the statement cache: cached columns are those of an earlier schema.
            connection.execute(statements[0], bindings, can_cache=False)
    finally:
        connection.exec_trace = None
    names = unique_column_names(columns)
    return CompiledStatement(
        statement=statements[0],
        writes=authorizer.writes,
        defines=authorizer.defines,
        altering=authorizer.altering,
        accumulates=authorizer.aggregates_json or not _FULL_TEXT_OPCODES.isdisjoint(instructions),
        columns=names,
        names_bytes=sum(map(len, names)) + 4 * len(names),
        max_value_bytes=value_limit(
            instructions=len(instructions),
            pattern_calls=authorizer.pattern_calls,
            quadratic_calls=authorizer.quadratic_calls,
            writes_json=authorizer.writes_json,
        ),
    )
