"""How much a plugin's SQL may take: of time, of memory, of disk. Every number in one place."""

from __future__ import annotations

from dataclasses import dataclass

import apsw

MAX_SQL_CHARS = 100_000
MAX_PARAMS = 5_000
MAX_VALUE_BYTES = 1 << 20  # one text or blob, in bytes
MIN_VALUE_LIMIT_BYTES = 16 << 10  # what one value may always have
MAX_INSTRUCTIONS = 25_000  # of one compiled statement
CHECK_INTERVAL_INSTRUCTIONS = 1_000  # instructions between two looks at the clock
AGGREGATE_CHECK_INTERVAL_INSTRUCTIONS = 20  # a few rows, each of which may add the largest value to some JSON, escaped

# A statement can make SQLite hold a value for every instruction that it compiles to, so both are bounded together.
_MAX_STATEMENT_BYTES = 256 << 20
# A character can become six in JSON, and the room for the text doubles when it is full. Nothing of that is held to the
# length of a value before all arguments are written.
_JSON_ESCAPE_FACTOR = 12
_MAX_ARGUMENTS = 127
# What a LIKE with the worst pattern costs grows with the text it looks through.
_MAX_SEARCHED_BYTES = 8 << 20
_MAX_LIKE_PATTERN_CHARS = 100
# Merging two JSON objects compares every key with every other; highlighting copies the text for every word it finds.
MAX_QUADRATIC_BYTES = 160_000


@dataclass(frozen=True, slots=True)
class StorageLimits:
    """What an operator may want to differ."""

    file_bytes: int = 256 << 20
    statement_seconds: float = 5.0
    wait_seconds: float = 10.0  # for one's turn, while another call or a transaction is under way
    transaction_idle: float = 10.0
    transaction_total: float = 30.0
    result_bytes: int = 3 << 20  # of JSON; an answer is one message of at most 4 MiB
    statement_memory: int = 256 << 20  # of JSON or full text; what else a statement holds is bounded by its values
    heap_bytes: int = 1 << 30  # of SQLite as a whole; what would need more fails, rather than the host
    statement_bytes: int = 512 << 20  # written to disk by one statement, temporary files included
    open_files: int = 64
    waiting_calls: int = 256  # for one file


SQLITE_LIMITS = {
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_SQL_LENGTH: MAX_SQL_CHARS * 4,  # bytes; ours are characters
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


def value_limit(*, instructions: int, searches: int, squares: int, writes_json: bool = False) -> int:
    """The largest value that a statement of this size may hold, in bytes."""
    held = max(1, instructions)
    if writes_json:
        held += _JSON_ESCAPE_FACTOR * min(_MAX_ARGUMENTS, held)  # there is an instruction at least for every argument
    limit = min(MAX_VALUE_BYTES, _MAX_STATEMENT_BYTES // held)
    if searches:
        limit = min(limit, _MAX_SEARCHED_BYTES // searches)
    if squares:
        limit = min(limit, int(MAX_QUADRATIC_BYTES / squares**0.5))
    return max(limit, MIN_VALUE_LIMIT_BYTES)
