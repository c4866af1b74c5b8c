"""Bringing a database forward, one numbered file at a time, the same files on both engines.

Each file runs in a transaction of its own together with the row that records it, so a crash leaves the database at
the version before or after, never between. What ran is remembered by checksum: a file that changed afterwards, or a
database that a newer Paddock has moved on, is refused rather than guessed at.

Files are plain SQL with a few words in braces where the engines differ:

    {text}    text that compares byte by byte on both engines, whatever the server's language
    {bigint}  64-bit numbers
    {blob}    bytes
    {strict}  after the closing bracket of a table: SQLite then checks types as PostgreSQL does
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol

from paddock import __version__
from paddock.core.errors import HostError
from paddock.store.transaction import Transaction

MIGRATIONS_DIR = Path(__file__).parent / "migrations"

_FILE_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_TYPE_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_CREATE_TABLE_SQL = (
    "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT, checksum TEXT, program TEXT)"
)


class Migration(NamedTuple):
    """One step forward."""

    number: int
    name: str
    sql: str
    checksum: str


class AppliedMigration(NamedTuple):
    """A step that a database has taken, and the version of the program that took it."""

    number: int
    name: str
    checksum: str
    program: str


class ScriptTransaction(Transaction, Protocol):
    """A transaction that may change the schema too."""

    def script(self, sql: str) -> None:
        """Run statements that bind nothing."""
        ...


class Migratable(Protocol):
    """What migrating asks of an engine."""

    @property
    def type_names(self) -> Mapping[str, str]:
        """What the words in braces stand for."""
        ...

    def has_table(self, name: str) -> bool: ...

    def read_transaction(self) -> AbstractContextManager[Transaction]: ...

    def exclusive_transaction(self) -> AbstractContextManager[ScriptTransaction]:
        """A transaction during which no other process migrates; committed at the end of the block."""
        ...


def load_migrations(folder: Path) -> tuple[Migration, ...]:
    """The migrations of a folder, in order.

    Raises:
        HostError: `store.migrations` when a file is misnamed or a number is missing.
    """
    found: list[Migration] = []
    for path in sorted(folder.glob("*.sql")):
        named = _FILE_NAME.fullmatch(path.name)
        if named is None or int(named[1]) != len(found) + 1:
            raise HostError(
                f"migration {path.name} is out of place",
                code="store.migrations",
                hint=f"the next file is {len(found) + 1:04}_what_it_does.sql",
            )
        content = path.read_bytes()
        found.append(Migration(int(named[1]), named[2], content.decode(), sha256(content).hexdigest()))
    return tuple(found)


def pending_migrations(applied: Sequence[AppliedMigration], known: Sequence[Migration]) -> tuple[Migration, ...]:
    """The steps a database still has to take.

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
    for done, ours in zip(applied, known, strict=False):
        if (done.number, done.checksum) != (ours.number, ours.checksum):
            raise HostError(
                f"migration {ours.number:04}_{ours.name} is not the one that made this store",
                code="store.migration_changed",
                hint="reinstall Paddock; a migration is never edited once it has run, a new one is added",
                details={"number": ours.number, "program": done.program},
            )
    return tuple(known[len(applied) :])


def is_current(engine: Migratable, folder: Path = MIGRATIONS_DIR) -> bool:
    """Whether no step is missing: the everyday case, which takes no lock."""
    if not engine.has_table("migrations"):
        return False
    with engine.read_transaction() as tx:
        return not pending_migrations(_applied_migrations(tx), load_migrations(folder))


def migrate(engine: Migratable, folder: Path = MIGRATIONS_DIR) -> int:
    """Take every step that is missing and return how many there were."""
    if is_current(engine, folder):
        return 0
    known = load_migrations(folder)
    taken = 0
    while True:
        with engine.exclusive_transaction() as tx:
            tx.script(_CREATE_TABLE_SQL)
            # Asked again now that nobody else can migrate: another process may have been quicker.
            steps = pending_migrations(_applied_migrations(tx), known)
            if not steps:
                return taken
            _apply_migration(tx, steps[0], engine.type_names)
        taken += 1


def _apply_migration(tx: ScriptTransaction, step: Migration, words: Mapping[str, str]) -> None:
    tx.script(render_migration(step.sql, words))
    tx.execute(
        "INSERT INTO migrations (number, name, checksum, program) VALUES (?, ?, ?, ?)",
        (step.number, step.name, step.checksum, __version__),
    )


def render_migration(sql: str, words: Mapping[str, str]) -> str:
    """A migration in the spelling of one engine.

    Raises:
        HostError: `store.migrations` for a word in braces that no engine knows.
    """

    def spelled(word: re.Match[str]) -> str:
        if word[1] not in words:
            raise HostError(f"a migration uses {word[0]}, which means nothing", code="store.migrations")
        return words[word[1]]

    return _TYPE_PLACEHOLDER.sub(spelled, sql)


def _applied_migrations(tx: Transaction) -> list[AppliedMigration]:
    rows = tx.all("SELECT number, name, checksum, program FROM migrations ORDER BY number")
    return [AppliedMigration(**row) for row in rows]
