"""What a home's database contains, as far as a backup or a restore has to know."""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

import apsw

from paddock.core.ids import DEFAULT_TENANT
from paddock.store.database import Transaction

DATABASE_COMPANIONS: Final = ("-wal", "-shm", "-journal")
_TABLES: Final = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
_MADE_WITH_IT: Final = ("migrations", "tenants")


def is_empty_database(file: Path) -> bool:
    """Whether a database has nothing that a person or a plugin put there, as after a command that only reads."""
    try:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            names = [str(name) for (name,) in connection.execute(_TABLES)]
            tables = [name.replace('"', '""') for name in names if name not in _MADE_WITH_IT]
            filled = any(connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchall() for name in tables)  # noqa: S608
            tenants = connection.execute("SELECT name FROM tenants").fetchall() if "tenants" in names else []
    except apsw.Error:
        return False  # it may be anything
    return not filled and {str(name) for (name,) in tenants} <= {DEFAULT_TENANT}


def holds_sealed_secrets(tx: Transaction) -> bool:
    """Whether a secret is stored, of which the wrapping key is needed to read it."""
    return tx.one("SELECT 1 AS found FROM secrets WHERE sealed IS NOT NULL LIMIT 1") is not None
