"""How much a plugin's SQL may take: of time, of memory, of disk. Every number in one place."""

from __future__ import annotations

from dataclasses import dataclass

import apsw

LONGEST_SQL = 100_000
MOST_PARAMS = 5_000
LARGEST_VALUE = 1 << 20  # one text or blob, in bytes
SMALLEST_LIMIT = 16 << 10  # what one value may always have
MOST_INSTRUCTIONS = 25_000  # of one compiled statement
CHECKED_EVERY = 1_000  # instructions between two looks at the clock
CHECKED_EVERY_OF_HOARDERS = 20  # a few rows, each of which may add the largest value to some JSON, escaped

# A statement can make SQLite hold a value for every instruction that it compiles to, so both are bounded together.
_MEMORY = 256 << 20
# A character can become six in JSON, and the room for the text doubles when it is full. Nothing of that is held to the
# length of a value before all arguments are written.
_ESCAPED = 12
_MOST_ARGUMENTS = 127
# What a LIKE with the worst pattern costs grows with the text it looks through.
_SEARCHED = 8 << 20
_LIKE_PATTERN = 100
# Merging two JSON objects compares every key with every other; highlighting copies the text for every word it finds.
SQUARED = 160_000


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


FIXED = {
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_SQL_LENGTH: LONGEST_SQL * 4,  # bytes; ours are characters
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: MOST_PARAMS,
    apsw.SQLITE_LIMIT_VDBE_OP: MOST_INSTRUCTIONS,
    apsw.SQLITE_LIMIT_COLUMN: 500,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 200,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: _MOST_ARGUMENTS,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: _LIKE_PATTERN,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 50,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def value_limit(*, instructions: int, searches: int, squares: int, writes_json: bool = False) -> int:
    """The largest value that a statement of this size may hold, in bytes."""
    held = max(1, instructions)
    if writes_json:
        held += _ESCAPED * min(_MOST_ARGUMENTS, held)  # there is an instruction at least for every argument
    limit = min(LARGEST_VALUE, _MEMORY // held)
    if searches:
        limit = min(limit, _SEARCHED // searches)
    if squares:
        limit = min(limit, int(SQUARED / squares**0.5))
    return max(limit, SMALLEST_LIMIT)
