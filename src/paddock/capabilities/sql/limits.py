"""Limits on a plugin's SQL: time, memory, disk. All numbers in one place."""

from __future__ import annotations

import apsw
from msgspec import Struct

MAX_SQL_CHARS = 100_000
MAX_PARAMS = 5_000
MAX_VALUE_BYTES = 1 << 20  # of one text or blob
MIN_VALUE_LIMIT_BYTES = 16 << 10  # the value limit never falls below this
MAX_INSTRUCTIONS = 25_000  # per compiled statement
CHECK_INTERVAL_INSTRUCTIONS = 1_000  # between two checks of the clock
AGGREGATE_CHECK_INTERVAL_INSTRUCTIONS = 20  # a few rows, each of which may append a value of maximum size, escaped

# SQLite can hold a value for every compiled instruction, so the product of both is bounded.
_MAX_STATEMENT_BYTES = 256 << 20
# A character can become six in JSON, and the buffer doubles when it is full. The value limit is only checked once all
# arguments are written.
_JSON_ESCAPE_FACTOR = 12
_MAX_ARGUMENTS = 127
# The cost of a LIKE with the worst pattern grows with the searched text.
_MAX_SEARCHED_BYTES = 8 << 20
_MAX_LIKE_PATTERN_CHARS = 100
# Merging two JSON objects compares every pair of keys; highlighting copies the text for every match.
MAX_QUADRATIC_BYTES = 160_000


class StorageLimits(Struct, frozen=True):
    """Limits that an operator may want to change."""

    file_bytes: int = 256 << 20
    statement_seconds: float = 5.0
    wait_seconds: float = 10.0  # for the lock, while another call or a transaction holds it
    transaction_idle: float = 10.0
    transaction_total: float = 30.0
    result_bytes: int = 3 << 20  # of JSON; a response is one message of at most 4 MiB
    statement_memory: int = 256 << 20  # of JSON or full text; everything else is bounded by the value limit
    heap_bytes: int = 1 << 30  # of SQLite as a whole; allocations beyond it fail, so that the host does not
    statement_bytes: int = 512 << 20  # written to disk by one statement, temporary files included
    open_files: int = 64
    waiting_calls: int = 256  # per file


SQLITE_LIMITS = {
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_SQL_LENGTH: MAX_SQL_CHARS * 4,  # in bytes; MAX_SQL_CHARS is in characters
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: MAX_PARAMS,
    apsw.SQLITE_LIMIT_VDBE_OP: MAX_INSTRUCTIONS,
    apsw.SQLITE_LIMIT_COLUMN: 500,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 200,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: _MAX_ARGUMENTS,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: _MAX_LIKE_PATTERN_CHARS,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 50,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def value_limit(*, instructions: int, pattern_calls: int, quadratic_calls: int, writes_json: bool = False) -> int:
    """Return the largest value, in bytes, that a statement of this size may hold."""
    values = max(1, instructions)
    if writes_json:
        values += _JSON_ESCAPE_FACTOR * min(_MAX_ARGUMENTS, values)  # every argument takes at least one instruction
    limit = min(MAX_VALUE_BYTES, _MAX_STATEMENT_BYTES // values)
    if pattern_calls:
        limit = min(limit, _MAX_SEARCHED_BYTES // pattern_calls)
    if quadratic_calls:
        limit = min(limit, int(MAX_QUADRATIC_BYTES / quadratic_calls**0.5))
    return max(limit, MIN_VALUE_LIMIT_BYTES)
