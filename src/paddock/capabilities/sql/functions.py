"""SQL function allowlists, and bounded replacements for functions with quadratic cost.

SQLite cannot be interrupted inside a function: `trim` of a megabyte with a megabyte of other characters runs for
minutes. The replacements reject such arguments and delegate the rest to a connection with the original functions, so
that everything else about them is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import apsw

from paddock.capabilities.sql.limits import MAX_VALUE_BYTES

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false


_MAX_STEPS = 200_000_000  # a fifth of a second
_SHORT_CHARS = 64

# Function → its numbers of arguments; the second argument is the text to search for.
_BOUNDED_FUNCTIONS = {"instr": (2,), "replace": (3,), "trim": (2,), "ltrim": (2,), "rtrim": (2,)}


class TextTooLong(Exception):
    """The arguments of a text function are too long together."""


def install_bounded_functions(connection: apsw.Connection) -> None:
    """Replace the connection's costly built-in functions with bounded ones.

    No result or intermediate value of theirs is larger than a value's maximum size. Where a statement's limit is lower,
    the connection itself rejects the result.
    """
    originals = apsw.Connection(":memory:")
    originals.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    for name, counts in _BOUNDED_FUNCTIONS.items():
        for count in counts:
            placeholders = ", ".join("?" * count)
            connection.create_scalar_function(
                name,
                partial(_bounded_function, partial(originals.execute, f"SELECT {name}({placeholders})"), name),
                count,
                deterministic=True,
                flags=apsw.SQLITE_INNOCUOUS,
            )


def _bounded_function(original: Callable[[tuple[Any, ...]], apsw.Cursor], name: str, *arguments: Any) -> Any:
    text_chars, pattern_chars = _length(arguments[0]), _length(arguments[1])
    if pattern_chars > _SHORT_CHARS and text_chars * pattern_chars > _MAX_STEPS:
        raise TextTooLong(f"{name}() of {text_chars} and {pattern_chars} characters would take too long")
    return original(arguments).get


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes)) else _SHORT_CHARS


_TEXT = """
    char concat concat_ws format glob hex instr length like lower ltrim octet_length printf quote replace rtrim substr
    substring trim unhex unicode unistr unistr_quote upper
"""
_NUMBERS = """
    abs acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 max min mod pi
    pow power radians random randomblob round sign sin sinh sqrt tan tanh trunc zeroblob
"""
_TIMES = "current_date current_time current_timestamp date datetime julianday strftime time timediff unixepoch"
_VALUES = "coalesce if ifnull iif likelihood likely nullif subtype typeof unlikely"
_GROUPS = """
    avg count cume_dist dense_rank first_value group_concat lag last_value lead median nth_value ntile percent_rank
    percentile percentile_cont percentile_disc rank row_number string_agg sum total
"""
# Without json_pretty, which indents by any text to any depth before it checks the length of the result.
_JSON = """
    -> ->> json json_array json_array_insert json_array_length json_error_position json_extract json_group_array
    json_group_object json_insert json_object json_patch json_quote json_remove json_replace json_set
    json_type json_valid jsonb jsonb_array jsonb_array_insert jsonb_extract jsonb_group_array jsonb_group_object
    jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set
"""
_FULL_TEXT = "bm25 fts5_get_locale fts5_insttoken fts5_locale highlight match snippet"
_CONNECTION = "changes last_insert_rowid sqlite_version total_changes"

ALLOWED_FUNCTIONS = frozenset(
    f"{_TEXT} {_NUMBERS} {_TIMES} {_VALUES} {_GROUPS} {_JSON} {_FULL_TEXT} {_CONNECTION}".split()
)
PATTERN_FUNCTIONS = frozenset({"like", "glob"})  # scan the whole text
QUADRATIC_FUNCTIONS = frozenset(
    {"json_patch", "jsonb_patch", "highlight", "snippet"}
)  # quadratic in the length of their arguments
JSON_BUILDERS = frozenset({"json_array", "json_object", "jsonb_array", "jsonb_object"})  # hold all arguments at once
JSON_AGGREGATES = frozenset({"json_group_array", "json_group_object", "jsonb_group_array", "jsonb_group_object"})

_ALTER_TABLE_FUNCTIONS = """
    sqlite_rename_table sqlite_rename_column sqlite_rename_test sqlite_rename_quotefix sqlite_drop_column
    sqlite_drop_constraint sqlite_fail sqlite_add_constraint sqlite_find_constraint
"""
ALTER_TABLE_FUNCTIONS = frozenset(_ALTER_TABLE_FUNCTIONS.split())  # called internally by ALTER TABLE

# Names with the prefix sqlite_ belong to SQLite; a plugin may read those that describe its own tables.
READABLE_INTERNAL_TABLES = frozenset(
    {"sqlite_master", "sqlite_schema", "sqlite_sequence", "sqlite_stat1", "sqlite_stat4"}
)
ALLOWED_MODULES = frozenset({"fts5"})

_BUILT_IN_TABLES = "dbstat carray fts3tokenize fts4aux bytecode tables_used completion generate_series zipfile"
FORBIDDEN_TABLES = frozenset(_BUILT_IN_TABLES.split())  # these expose pages, memory or the machine
