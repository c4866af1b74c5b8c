"""An integrity check of the embedded file, run after the previous daemon did not shut down cleanly.

A process that is killed leaves SQLite's file intact; a machine that loses power while its disk misreports what it has
written may not. A check of the whole file reads all of it: with a million entries in the ledger (700 MB) it took 2.5 to
4.4 seconds, nearly all of them for the ledger. So each table is checked by itself, the ledger last, and for a second
at most; the last part of the ledger is verified when it is opened.
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
_OPCODES_BETWEEN_CHECKS = 1_000  # of SQLite's virtual machine between two checks of the time
_LARGEST_TABLE = "ledger"

_log = logging.getLogger("paddock.store")


def check_integrity(connection: apsw.Connection, path: Path, *, max_seconds: float = MAX_CHECK_S) -> bool:
    """Check the file for damage; False where there was no time for all of it.

    Raises:
        HostError: `store.corrupt`, with the first finding.
        apsw.Error: It cannot be read at all.
    """
    deadline = time.monotonic() + max_seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _OPCODES_BETWEEN_CHECKS)
    try:
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name = ?", (_LARGEST_TABLE,)
        )
        for name in [str(row[0]) for row in tables]:
            quoted = name.replace('"', '""')
            findings = [str(row[0]) for row in connection.execute(f'PRAGMA quick_check("{quoted}")')]
            if findings != ["ok"]:
                raise HostError(
                    f"the store {path} is damaged",
                    code="store.corrupt",
                    hint="move it aside and restore a backup",
                    details={"sqlite": findings[0] if findings else "", "table": name},
                )
    except apsw.InterruptError:
        _log.info("the store %s was not stopped and is large: not all of it was checked", path)
        return False
    finally:
        connection.set_progress_handler(None)
    return True
