"""Schema migrations: numbered SQL files, the same on both engines.

Each file runs in a transaction of its own together with the row that records it, so a crash leaves the database at the
version before or after, never between. Applied files are recorded with a checksum: a file that changed afterwards, or a
database that a newer Paddock has migrated, is refused rather than guessed at.

A table that may be large is not copied in one transaction. Its rows are moved before the file that needs them moved, in
many transactions, each of which leaves the database whole; a migration that was interrupted goes on where it was.

Files are plain SQL with placeholders in braces where the engines differ:

    {text}    text that compares byte by byte on both engines, whatever the server's language
    {bigint}  64-bit numbers
    {blob}    bytes
    {strict}  after the closing bracket of a table: SQLite then checks types as PostgreSQL does
    {if_sqlite}, {if_postgresql}  before a line that one engine alone runs
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol

from paddock import __version__
from paddock.core.errors import HostError, StoreUnavailable
from paddock.store.transaction import Transaction

MIGRATIONS_DIR = Path(__file__).parent / "migrations"

_FILE_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_TYPE_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_CREATE_TABLE_SQL = (
    "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT, checksum TEXT, program TEXT)"
)


def _move_ledger_rows(tx: Transaction) -> bool:
    if tx.one("SELECT 1 AS found FROM ledger_before_33 LIMIT 1") is None:
        return False
    # Imported lazily: every command imports this module, and a store is upgraded once.
    from paddock.store.ledger_rows import move_ledger_rows

    return move_ledger_rows(tx)


def _create_job_engine(tx: ScriptTransaction) -> None:
    """Create what procrastinate needs, from its own package; the versions allowed have this schema."""
    package = find_spec("procrastinate")  # not imported: that takes a while
    if tx.engine == "postgresql" and package is not None and package.origin is not None:
        tx.script((Path(package.origin).parent / "sql" / "schema.sql").read_text(encoding="utf-8"))


_SCHEMAS: Mapping[str, Callable[[ScriptTransaction], None]] = {"procrastinate": _create_job_engine}
"""What creates the schema of a library in the transaction of a migration, before its file, by its name."""
_MOVES: Mapping[str, Callable[[Transaction], bool]] = {"ledger_moved": _move_ledger_rows}
"""What moves rows before a migration, by its name: some of them in each call, until it returns False."""
_ROOM_SHARES: Mapping[str, float] = {"ledger_kinds": 0.4}
"""How much room a migration needs beside the file, as a share of its size, where that is more than a little."""
_SPARE_BYTES = 64 * 1024 * 1024


class Migration(NamedTuple):
    """One migration file."""

    number: int
    name: str
    sql: str
    checksum: str


class AppliedMigration(NamedTuple):
    """A migration that a database has, and the version of the program that applied it."""

    number: int
    name: str
    checksum: str
    program: str


class DiskRoom(NamedTuple):
    """The size of a database, and the room left on its disk."""

    used_bytes: int
    free_bytes: int


class ScriptTransaction(Transaction, Protocol):
    """A transaction that may change the schema too."""

    def script(self, sql: str) -> None:
        """Run statements without parameters."""
        ...


class Migratable(Protocol):
    """What migrating needs of an engine."""

    @property
    def type_names(self) -> Mapping[str, str]:
        """The values of the placeholders."""
        ...

    def has_table(self, name: str) -> bool: ...

    def read_transaction(self) -> AbstractContextManager[Transaction]: ...

    def exclusive_transaction(self) -> AbstractContextManager[ScriptTransaction]:
        """A transaction during which no other process migrates; committed at the end of the block."""
        ...

    def disk_room(self) -> DiskRoom | None:
        """The size of the database and the room that its disk has; None where that cannot be known here."""
        ...


def load_migrations(folder: Path) -> tuple[Migration, ...]:
    """The migrations of a directory, in order.

    Raises:
        HostError: `store.migrations` when a file is misnamed or a number is missing.
    """
    migrations: list[Migration] = []
    for path in sorted(folder.glob("*.sql")):
        match = _FILE_NAME.fullmatch(path.name)
        if match is None or int(match[1]) != len(migrations) + 1:
            raise HostError(
                f"migration {path.name} is out of place",
                code="store.migrations",
                hint=f"the next file is {len(migrations) + 1:04}_what_it_does.sql",
            )
        content = path.read_bytes()
        migrations.append(Migration(int(match[1]), match[2], content.decode(), sha256(content).hexdigest()))
    return tuple(migrations)


def pending_migrations(applied: Sequence[AppliedMigration], known: Sequence[Migration]) -> tuple[Migration, ...]:
    """The migrations that a database still lacks.

    Raises:
        HostError: `store.newer` or `store.migration_changed` when this program must leave the database alone.
    """
    if len(applied) > len(known):
        last = applied[-1]
        raise HostError(
            f"the store is at version {last.number}, made by Paddock {last.program}; "
            f"this is Paddock {__version__}, which knows versions up to {len(known)}",
            code="store.newer",
            hint=f"run Paddock {last.program} or newer",
            details={"store": last.number, "known": len(known)},
        )
    for recorded, shipped in zip(applied, known, strict=False):
        if (recorded.number, recorded.checksum) != (shipped.number, shipped.checksum):
            raise HostError(
                f"migration {shipped.number:04}_{shipped.name} is not the one that made this store",
                code="store.migration_changed",
                hint="reinstall Paddock; a migration is never edited once it has run, a new one is added",
                details={"number": shipped.number, "program": recorded.program},
            )
    return tuple(known[len(applied) :])


def is_current(engine: Migratable, folder: Path = MIGRATIONS_DIR) -> bool:
    """Whether no migration is missing: the common case, which takes no lock."""
    if not engine.has_table("migrations"):
        return False
    with engine.read_transaction() as tx:
        return not pending_migrations(_applied_migrations(tx), load_migrations(folder))


def migrate(engine: Migratable, folder: Path = MIGRATIONS_DIR) -> int:
    """Apply every missing migration and return how many there were."""
    if is_current(engine, folder):
        return 0
    known = load_migrations(folder)
    applied_count = 0
    while True:
        with engine.exclusive_transaction() as tx:
            tx.script(_CREATE_TABLE_SQL)
            # Checked again now that no other process can migrate: one may have been quicker.
            steps = pending_migrations(_applied_migrations(tx), known)
            if not steps:
                return applied_count
            move = _MOVES.get(steps[0].name)
            if move is not None and move(tx):
                continue
            _require_room(engine, steps[0])
            _apply_migration(tx, steps[0], engine.type_names)
        applied_count += 1


def _require_room(engine: Migratable, step: Migration) -> None:
    """Refuse a migration that the disk has no room for, before it changes anything.

    Raises:
        StoreUnavailable: `store.full`, with the room it needs.
    """
    room, share = engine.disk_room(), _ROOM_SHARES.get(step.name)
    if room is None or share is None or room.used_bytes < _SPARE_BYTES:
        return
    needed = int(room.used_bytes * share) + _SPARE_BYTES
    if room.free_bytes < needed:
        raise StoreUnavailable(
            f"this version needs {needed >> 20:,} MiB beside the store to bring it up to date, and "
            f"{room.free_bytes >> 20:,} MiB are free; nothing was changed",
            code="store.full",
            hint="free some space, or run the version before until then",
            details={"needed_bytes": needed, "free_bytes": room.free_bytes},
        )


def _apply_migration(tx: ScriptTransaction, step: Migration, type_names: Mapping[str, str]) -> None:
    if (create := _SCHEMAS.get(step.name)) is not None:
        create(tx)
    tx.script(render_migration(step.sql, type_names))
    tx.execute(
        "INSERT INTO migrations (number, name, checksum, program) VALUES (?, ?, ?, ?)",
        (step.number, step.name, step.checksum, __version__),
    )


def render_migration(sql: str, type_names: Mapping[str, str]) -> str:
    """Fill the placeholders of a migration for one engine.

    Raises:
        HostError: `store.migrations` for an unknown placeholder.
    """

    def fill(placeholder: re.Match[str]) -> str:
        if placeholder[1] not in type_names:
            raise HostError(f"a migration uses {placeholder[0]}, which means nothing", code="store.migrations")
        return type_names[placeholder[1]]

    return _TYPE_PLACEHOLDER.sub(fill, sql)


def _applied_migrations(tx: Transaction) -> list[AppliedMigration]:
    rows = tx.all("SELECT number, name, checksum, program FROM migrations ORDER BY number")
    return [AppliedMigration(**row) for row in rows]
