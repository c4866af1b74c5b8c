"""Writes a backup of a home, also while a daemon works on it."""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tarfile
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import apsw
from msgspec import Struct

from paddock.config.directories import Directories
from paddock.core.clock import Clock, format_utc
from paddock.core.errors import Conflict, OperatorError, StoreUnavailable
from paddock.host.backup.archive_format import (
    BLOBS_PREFIX,
    CONTENTS_NAME,
    DATABASE_PATH,
    KEYS_PREFIX,
    BackupContents,
    BackupEntry,
    is_left_out,
    sections,
)
from paddock.host.backup.database_contents import DATABASE_COMPANIONS, holds_sealed_secrets
from paddock.host.backup.home_walk import FoundFile, walk
from paddock.host.backup.sparse_file import Region, SparseContent, copy_sparse, data_regions, is_sparse, sparse_member
from paddock.ledger.chain.verifier import ChainFinding
from paddock.ledger.chain.verify import verify_ledger
from paddock.store.database import embedded_path, open_direct
from paddock.store.filesystem import OUT_OF_SPACE_ERRNOS, remove_tree, sync_directory, system_error
from paddock.store.sqlite import to_paddock_error

_WORK_PREFIX = ".paddock-backup-"
_MEMBER_TYPES = {"file": tarfile.REGTYPE, "directory": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}
_BUSY_MS = 10_000
_NO_LINKS = frozenset((errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK))  # FAT, for example, has none


class CreatedBackup(Struct, frozen=True):
    """What was backed up, what was found about the ledger in it, and whether secrets may be sealed in its database."""

    contents: BackupContents
    findings: tuple[ChainFinding, ...]
    holds_secrets: bool


def create_backup(
    directories: Directories, store: str | Path, file: Path, *, version: str, clock: Clock
) -> CreatedBackup:
    """Copy settings, keys, the ledger's checkpoints, the database, packages and plugin data into one file.

    A database is copied as of one moment, and the ledger in the copy is verified with the checkpoints that were copied.
    If the store is PostgreSQL, its rows and blobs are not included.

    Args:
        directories: The home.
        store: Where its database is.
        file: The backup. It appears when it is complete, readable by its owner only.
        version: The version of Paddock.
        clock: For the date of the backup.

    Raises:
        Conflict: the file exists, or the home changed so much meanwhile that the copy would not fit together.
        OperatorError: the file is inside the home.
        StoreUnavailable: there is not enough room for it; nothing of it is left.
        HostError: something cannot be read or written.
    """
    target = Path(os.path.realpath(file))
    if any(target.is_relative_to(os.path.realpath(section)) for section in directories.all()):
        raise OperatorError(
            f"{file} is inside the home that is backed up", code="backup.inside_home", hint="write it somewhere else"
        )
    if os.path.lexists(file):
        raise Conflict(f"{file} exists already", code="backup.exists", hint="choose another name")
    database = embedded_path(store)
    try:
        with _work_directory(target.parent) as work:
            writer = _BackupWriter(directories, work, database)
            archive = work / "backup.tar"
            with (
                _open_private(archive) as stream,
                tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
            ):
                entries = writer.write_all(tar)
                contents = BackupContents(
                    "postgresql" if database is None else "sqlite",
                    version,
                    format_utc(clock.now()),
                    entries,
                    tuple(writer.skipped),
                )
                listed = contents.to_bytes()
                tar.addfile(_TarMember(BackupEntry(CONTENTS_NAME, "file", 0o600, len(listed))), BytesIO(listed))
            _publish(archive, target)
        sync_directory(target.parent)
    except FileExistsError:
        raise Conflict(f"{file} exists already", code="backup.exists", hint="choose another name") from None
    except StoreUnavailable as error:  # a copied database found no room
        if error.error_code != "store.full":
            raise
        raise _no_room_error(target.parent) from error
    except OSError as error:
        if error.errno in OUT_OF_SPACE_ERRNOS:
            raise _no_room_error(target.parent) from error
        raise system_error(error) from error
    return CreatedBackup(contents, tuple(writer.findings), writer.holds_secrets)


def _no_room_error(folder: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"there is not enough room for the backup in {folder}, and nothing of it was left there",
        code="store.full",
        hint="write it to another disk, or free some space: df -h",
    )


class _BackupWriter:
    def __init__(self, directories: Directories, work: Path, database: Path | None) -> None:
        self.skipped: list[str] = []
        self.findings: list[ChainFinding] = []
        self.holds_secrets = database is None  # of one that is elsewhere that is unknown
        self._directories = directories
        self._work = work
        self._database = database
        self._entries: list[BackupEntry] = []

    def write_all(self, tar: tarfile.TarFile) -> tuple[BackupEntry, ...]:
        blobs: set[str] = set()
        for name, root in sections(self._directories).items():
            if name == "data" and self._database is not None and self._database.exists():
                copy = self._copy_database(self._database)
                blobs = _package_blobs(copy)
                self._add_path(tar, copy, DATABASE_PATH, 0o600)
                with open_direct(copy) as database:  # after it was added: opening brings an older one up to date
                    self.findings += verify_ledger(database, self._work / "state")
                    self.holds_secrets = database.read(holds_sealed_secrets)
                copy.unlink()
            for found in walk(root, name, self._is_wanted, self.skipped.append):
                self._add(tar, found)
        self._require_unchanged_keys()
        self._require_blobs(blobs)
        return tuple(self._entries)

    def _is_wanted(self, path: Path) -> bool:
        return not is_left_out(self._directories, path) and not self._is_database_part(path)

    def _add(self, tar: tarfile.TarFile, found: FoundFile) -> None:
        mode = stat.S_IMODE(found.status.st_mode)
        if stat.S_ISDIR(found.status.st_mode):
            self._add_member(tar, BackupEntry(found.name, "directory", mode))
        elif stat.S_ISLNK(found.status.st_mode):
            with found.errors():
                self._add_member(tar, BackupEntry(found.name, "link", mode, target=found.read_link()))
        elif stat.S_ISREG(found.status.st_mode):
            if found.path.suffix == ".sqlite" and self._is_in_storage(found.path):
                copy = self._copy_database(found.path)
            elif found.of_plugin:  # it may change its length while it is copied, which an archive cannot
                copy = self._work / "copy"
                with found.errors(), found.open() as source, copy.open("xb") as target:
                    copy_sparse(source, target)
            elif _verifies_ledger(found.name):  # kept, to verify the database with what was copied before it
                copy = self._work / found.name
                copy.parent.mkdir(parents=True, exist_ok=True)
                with found.errors(), found.open() as source, copy.open("xb") as target:
                    copy_sparse(source, target)
                if copy.exists():
                    self._add_path(tar, copy, found.name, mode)
                return
            else:
                with found.errors(), found.open() as source:
                    self._add_file(tar, source, found.name, mode)
                return
            if copy.exists():
                self._add_path(tar, copy, found.name, mode)
                copy.unlink()

    def _is_in_storage(self, path: Path) -> bool:
        return path.is_relative_to(self._directories.data / "storage")

    def _is_database_part(self, path: Path) -> bool:
        """Whether a file belongs to a database that is copied as a whole, or to one that is not used any more."""
        databases = (self._database, self._directories.database_file)
        if path in databases:
            return True
        for ending in DATABASE_COMPANIONS:
            if path.name.endswith(ending):
                main = path.with_name(path.name.removesuffix(ending))
                return main in databases or (main.suffix == ".sqlite" and self._is_in_storage(main))
        return False

    def _copy_database(self, path: Path) -> Path:
        """Copy a SQLite database as of one moment, whatever is written meanwhile."""
        copy = self._work / path.name
        source: apsw.Connection | None = None
        try:
            source = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
            source.set_busy_timeout(_BUSY_MS)
            os.mknod(copy, stat.S_IFREG | 0o600)
            destination = apsw.Connection(str(copy))
            with destination.backup("main", source, "main") as backup:
                backup.step(-1)
            destination.pragma("journal_mode", "delete")  # one file; the store sets its own mode when it is opened
            destination.close()
        except apsw.Error as error:
            raise to_paddock_error(error, source, path) from error
        finally:
            if source is not None:
                source.close()
        return copy

    def _add_path(self, tar: tarfile.TarFile, path: Path, name: str, mode: int) -> None:
        with path.open("rb") as source:
            self._add_file(tar, source, name, mode)

    def _add_file(self, tar: tarfile.TarFile, source: BinaryIO, name: str, mode: int) -> None:
        status = os.fstat(source.fileno())
        regions = list(data_regions(source, status.st_size))
        os.lseek(source.fileno(), 0, os.SEEK_SET)
        holes = is_sparse(regions, status.st_size)
        entry = BackupEntry(name, "file", mode, status.st_size)
        info = _TarMember(entry, int(status.st_mtime), regions if holes else None)
        hashed = _HashedReader(SparseContent(source, regions) if holes else source)
        try:
            tar.addfile(info, hashed)
        except OSError as error:
            if error.errno not in OUT_OF_SPACE_ERRNOS and hashed.size < info.size:
                raise _changed_error(f"{name} became shorter") from error
            raise
        self._entries.append(BackupEntry(name, "file", mode, status.st_size, hashed.digest.hexdigest()))

    def _add_member(self, tar: tarfile.TarFile, entry: BackupEntry) -> None:
        tar.addfile(_TarMember(entry))
        self._entries.append(entry)

    def _require_unchanged_keys(self) -> None:
        """Check that no key was replaced since it was copied: it would not open what was copied after it."""
        keys = {entry.path: entry.sha256 for entry in self._entries if entry.path.startswith(KEYS_PREFIX)}
        for name, digest in keys.items():
            path = self._directories.state / name.removeprefix("state/")
            if digest and (not path.is_file() or sha256(path.read_bytes()).hexdigest() != digest):
                raise _changed_error("a key was replaced")

    def _require_blobs(self, blobs: set[str]) -> None:
        """Check that the package of no plugin in the copied database was removed before it could be copied."""
        copied = {entry.path.rpartition("/")[2] for entry in self._entries if entry.path.startswith(BLOBS_PREFIX)}
        missing = {blob for blob in blobs if blob.removeprefix("sha256:") not in copied}
        # What is missing and still listed was lost before; a backup of the rest is better than none.
        if missing and self._database is not None and missing - _package_blobs(self._database):
            raise _changed_error("a plugin was removed")


class _TarMember(tarfile.TarInfo):
    """The header of an entry."""

    def __init__(self, entry: BackupEntry, mtime: int = 0, regions: Sequence[Region] | None = None) -> None:
        super().__init__(entry.path)
        self.type = _MEMBER_TYPES[entry.kind]
        self.mode, self.size, self.linkname, self.mtime = entry.mode, entry.size, entry.target, mtime
        if regions is not None:
            self.name, self.size, self.pax_headers = sparse_member(entry.path, entry.size, regions)


class _HashedReader(BytesIO):
    """Reads a file and computes the digest of what was read."""

    def __init__(self, source: BinaryIO | SparseContent) -> None:
        super().__init__()
        self._source = source
        self.digest = sha256()
        self.size = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = self._source.read(-1 if size is None else size)
        self.digest.update(data)
        self.size += len(data)
        return data


def _verifies_ledger(name: str) -> bool:
    """Whether a file of the state is a checkpoint of the ledger, or a public key that it is verified with."""
    return name.startswith("state/ledger/") or (name.startswith(f"{KEYS_PREFIX}ledger") and name.endswith(".pub"))


def _package_blobs(database: Path) -> set[str]:
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {str(row[0]) for row in connection.execute("SELECT blob FROM plugin_versions")}
    except apsw.SQLError:
        return set()  # a store that no migration has reached yet
    finally:
        connection.close()


def _changed_error(what: str) -> Conflict:
    return Conflict(f"the home changed while it was copied: {what}", code="backup.changed", hint="try again")


@contextmanager
def _work_directory(parent: Path) -> Generator[Path]:
    """Make a private directory for the unfinished backup. Those of commands that were killed are removed first."""
    for other in parent.glob(f"{_WORK_PREFIX}*"):
        _remove_abandoned(other)
    with tempfile.TemporaryDirectory(prefix=_WORK_PREFIX, dir=parent) as work:
        descriptor = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield Path(work)
        finally:
            os.close(descriptor)


def _remove_abandoned(work: Path) -> None:
    """Remove a directory of ours that no command works in: it holds keys."""
    with suppress(OSError):
        descriptor = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(work)
        finally:
            os.close(descriptor)


def _publish(archive: Path, target: Path) -> None:
    """Give the complete backup its name, in one step.

    Raises:
        FileExistsError: there is such a file by now.
    """
    try:
        os.link(archive, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        archive.replace(target)


@contextmanager
def _open_private(path: Path) -> Generator[BinaryIO]:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
