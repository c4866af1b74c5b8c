"""Whether the embedded file is whole, looked at where the daemon before this one was not stopped but ended.

A process that is killed leaves SQLite's file whole; a machine that loses power while its disk lies about what it has
written may not. A check of the whole file reads all of it: with a million entries in the ledger (700 MB) it took 2.5 to
4.4 seconds, nearly all of them for the ledger. So each table is looked at by itself, the ledger last, and for a second
at most; the last part of the ledger is verified when that is opened.
"""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import logging
import time
from pathlib import Path

import apsw

from paddock.core.errors import HostError

MAX_CHECK_S = 1.0  # seconds
_OPCODES_BETWEEN_CHECKS = 1_000  # of SQLite's machine between two looks at the time
_LARGEST_TABLE = "ledger"

_log = logging.getLogger("paddock.store")


def check_integrity(connection: apsw.Connection, path: Path, *, longest: float = MAX_CHECK_S) -> bool:
    """Refuse a damaged file; False where there was no time for all of it.

    Raises:
        HostError: `store.corrupt`, with what was found first.
        apsw.Error: it cannot be read at all.
    """
    deadline = time.monotonic() + longest
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _OPCODES_BETWEEN_CHECKS)
    try:
        found = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name = ?", (_LARGEST_TABLE,)
        )
        for name in [str(row[0]) for row in found]:
            quoted = name.replace('"', '""')
            said = [str(row[0]) for row in connection.execute(f'PRAGMA quick_check("{quoted}")')]
            if said != ["ok"]:
                raise HostError(
                    f"the store {path} is damaged",
                    code="store.corrupt",
                    hint="move it aside and restore a backup",
                    details={"sqlite": said[0] if said else "", "table": name},
                )
    except apsw.InterruptError:
        _log.info("the store %s was not stopped and is large: not all of it was checked", path)
        return False
    finally:
        connection.set_progress_handler(None)
    return True
