"""The SQL subset that both engines understand, and the check that a statement keeps to it.

A statement is one SELECT, INSERT, UPDATE, DELETE or WITH, its values bound with `?`. What only one engine would
accept is refused on both, so that a mistake shows in the first test and not on the first PostgreSQL server.

`INDEXED BY name` after a table is for SQLite alone, which has no statistics to choose an index by, and fails where that
index cannot be used. PostgreSQL does not see it.

Where the engines differ silently, write it so that they do not: give every computed column a name (`count(*) AS n`),
compare flags with a number (`enabled = 1`), and use `ON CONFLICT` rather than catching a violation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from paddock.core.errors import HostError

Value = str | int | float | bytes | None

_MAX_INT64 = 2**63 - 1

# Quoted text first, so that a `?` inside quotes is never taken for a placeholder.
_TOKENS = re.compile(
    r"""
    (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" )
  | (?P<comment> --[^\n]* | /\* )
  | (?P<numbered> \?\d+ )
  | (?P<mark> \? )
  | (?P<open> ['"] )
  | (?P<percent> % )
  | (?P<hint> [ ]INDEXED[ ]BY[ ]\w+ )
  | (?P<end> ; )
    """,
    re.VERBOSE,
)
_FIRST_WORD = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)


class Statement(NamedTuple):
    """A checked statement, in the syntax of each engine."""

    sqlite: str
    postgres: str
    placeholder_count: int


@lru_cache(maxsize=1024)
def check_statement(sql: str) -> Statement:
    """Check a statement and translate it for both engines.

    Raises:
        HostError: `store.statement` when it is outside the common subset; a mistake in our own code.
    """
    if _FIRST_WORD.match(sql) is None:
        raise _invalid_statement_error(sql, "a unit of work may only SELECT, INSERT, UPDATE, DELETE or begin WITH")
    body = sql.rstrip().removesuffix(";")
    pieces: list[str] = []
    placeholders = 0
    position = 0
    for token in _TOKENS.finditer(body):
        match token.lastgroup:
            case "mark":
                placeholders += 1
                pieces += body[position : token.start()], "%s"
                position = token.end()
            case "hint":
                pieces.append(body[position : token.start()])
                position = token.end()
            case "quoted":
                if "?" in token[0] or "%" in token[0]:
                    raise _invalid_statement_error(sql, "a literal holds ? or %; bind it with a ? instead")
            case "comment":
                raise _invalid_statement_error(sql, "comments belong beside the code, not in the statement")
            case "numbered":
                raise _invalid_statement_error(sql, "write ? without a number")
            case "open":
                raise _invalid_statement_error(sql, "a quote is never closed")
            case "percent":
                raise _invalid_statement_error(sql, "% means something else to each engine")
            case _:
                raise _invalid_statement_error(sql, "one statement at a time")
    pieces.append(body[position:])
    return Statement(sqlite=body, postgres="".join(pieces), placeholder_count=placeholders)


def bind_values(statement: Statement, params: Sequence[Value]) -> tuple[Value, ...]:
    """The parameters as both engines store them alike.

    Raises:
        HostError: `store.statement` for a wrong count, or a value that one of the engines could not store.
    """
    if len(params) != statement.placeholder_count:
        raise _invalid_statement_error(
            statement.sqlite, f"{statement.placeholder_count} placeholders, {len(params)} values"
        )
    # Nearly all are plain text, None or small numbers, which need no further check; this runs for every value of every
    # row.
    return tuple(
        [
            value
            if (type(value) is str and value.isascii() and "\0" not in value)
            or value is None
            or type(value) is bytes
            or (type(value) is int and -_MAX_INT64 <= value <= _MAX_INT64)
            else _bind_value(statement, value)
            for value in params
        ]
    )


def _bind_value(statement: Statement, value: Value) -> Value:
    match value:
        case bool():
            return int(value)  # PostgreSQL would refuse a boolean for an INTEGER column
        case str():
            # PostgreSQL text cannot contain NUL, and neither engine a lone surrogate.
            if "\0" in value or (not value.isascii() and _has_surrogate(value)):
                raise _invalid_statement_error(statement.sqlite, "a text holds NUL or a lone surrogate")
        case int():
            if not -_MAX_INT64 - 1 <= value <= _MAX_INT64:
                raise _invalid_statement_error(statement.sqlite, "a number does not fit in 64 bits")
        case float() | bytes() | None:
            pass
        case _:  # pyright: ignore[reportUnnecessaryComparison]  # callers may be untyped
            raise _invalid_statement_error(statement.sqlite, f"cannot bind a {type(value).__name__}")
    return value


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _invalid_statement_error(sql: str, reason: str) -> HostError:
    shown = " ".join(sql.split())[:200]
    return HostError(f"the statement was refused: {reason}", code="store.statement", details={"statement": shown})
