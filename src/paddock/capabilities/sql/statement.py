"""What can be known of a statement before it runs, by letting SQLite compile it and not run it."""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

import apsw

from paddock.capabilities.sql.authorizer import SqlAuthorizer
from paddock.capabilities.sql.errors import denied_statement_error
from paddock.capabilities.sql.limits import value_limit
from paddock.capabilities.sql.values import Bindings, unique_column_names
from paddock.core.errors import CallerError

_END_OF_STATEMENT = re.compile(r"(?:\s|;|(?>--[^\n]*)|(?>/\*.*?(?:\*/|\Z)))*\Z", re.DOTALL)

_FULL_TEXT_OPCODES = frozenset({"VOpen", "VUpdate"})


@dataclass(frozen=True, slots=True)
class CompiledStatement:
    """One statement that is the plugin's to run."""

    statement: str  # without anything that comes after it
    writes: bool
    defines: bool  # changes the schema
    altering: bool
    accumulates: bool  # may hold more than its values at once: JSON of many rows, what a full-text table found
    columns: list[str]  # of the rows it gives; none where it gives none
    size_of_names: int  # in the JSON of one row, about
    largest_value: int


def compile_statement(
    connection: apsw.Connection, guard: SqlAuthorizer, sql: str, bound: Bindings
) -> CompiledStatement:
    """Compile the statement under the guard's eyes.

    Raises:
        Denied: there is a second statement.
        CallerError: there is no statement at all.
        apsw.Error: SQLite cannot compile it, or the guard refused something.
    """
    only: list[str] = []
    columns: list[str] = []

    def described(cursor: apsw.Cursor, _statement: str, _bound: object) -> bool:
        columns.extend(column[0] for column in cursor.get_description())
        return False  # seen enough

    def begins(_cursor: apsw.Cursor, statement: str, _bound: object) -> bool:
        # SQLite itself says where a statement ends, so no trick with quotes or comments hides a second one.
        rest = statement if only else sql.removeprefix(statement)
        if not _END_OF_STATEMENT.match(rest):
            raise denied_statement_error(sql, "a second statement")
        only.append(statement)
        return True

    try:
        connection.exec_trace = begins
        instructions = [row[1] for row in connection.execute(sql, bound, explain=1, can_cache=False)]
        if _END_OF_STATEMENT.match(only[0] if only else ""):
            raise CallerError("there is no statement", code="invalid_params", details={"param": "sql"})
        connection.exec_trace = described
        with suppress(apsw.ExecTraceAbort):
            # Not one kept from before: its columns are those of the schema that it was compiled for.
            connection.execute(only[0], bound, can_cache=False)
    finally:
        connection.exec_trace = None
    names = unique_column_names(columns)
    return CompiledStatement(
        statement=only[0],
        writes=guard.writes,
        defines=guard.defines,
        altering=guard.altering,
        accumulates=guard.collects or not _FULL_TEXT_OPCODES.isdisjoint(instructions),
        columns=names,
        size_of_names=sum(map(len, names)) + 4 * len(names),
        largest_value=value_limit(
            instructions=len(instructions),
            searches=guard.searches,
            squares=guard.squares,
            writes_json=guard.writes_json,
        ),
    )
