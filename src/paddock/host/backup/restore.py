"""Restores a home from a backup: everything is extracted and checked beside the home before anything is replaced."""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import tarfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import BinaryIO

from paddock.config.directories import Directories, create_directories
from paddock.core.errors import Conflict, HostError, NotFound, OperatorError
from paddock.core.printable import printable
from paddock.host.backup.archive_format import (
    BLOBS_PREFIX,
    CONTENTS_NAME,
    DATABASE_PATH,
    MAX_CONTENTS_BYTES,
    REPLACED_PREFIX,
    STAGED_PREFIX,
    BackupContents,
    BackupEntry,
    damaged_error,
    is_left_out,
    parse_contents,
    sections,
)
from paddock.ledger.chain.verifier import ChainFinding
from paddock.ledger.chain.verify import verify_ledger
from paddock.plugins.environments.store import EnvironmentStore
from paddock.plugins.store.store import remove_path
from paddock.store.database import open_direct
from paddock.store.filesystem import sync_directory, system_error
from paddock.store.lock import LOCK_NAME, StoreLock

_CHUNK_BYTES = 1 << 20
_MAX_NAME_CHARS = 4096


@dataclass(frozen=True, slots=True)
class RestoredHome:
    """What was restored, what was found about its ledger, and where the previous files are."""

    contents: BackupContents
    findings: tuple[ChainFinding, ...]
    replaced: tuple[Path, ...]


def restore_backup(file: Path, directories: Directories, *, replace: bool) -> RestoredHome:
    """Restore a home from a backup.

    Args:
        file: The backup.
        directories: The home. No daemon may run.
        replace: Whether a home that is not empty may be replaced; its files are moved aside.

    Raises:
        NotFound: there is no such file.
        Conflict: the home is not empty.
        OperatorError: the file is no backup, or damaged, or its ledger is.
        StoreUnavailable: a daemon runs.
        HostError: something cannot be read or written.
    """
    if not file.is_file():
        raise NotFound(f"there is no file {file}", code="backup.no_such_file", hint="is the path spelt right?")
    create_directories(directories)
    lock = StoreLock.take(directories.data, "command", wait=0)
    try:
        if not replace and (existing := _existing_entries(directories)):
            raise Conflict(
                f"the home is not empty: {existing[0]}",
                code="backup.home_not_empty",
                hint="restore into another PADDOCK_HOME, or move what is there aside with --replace",
            )
        with _open_staging(directories) as staging:
            contents = _extract(file, staging)
            findings = _check_database(contents, staging)
            replaced = _move_into_place(directories, staging)
        EnvironmentStore(directories.data / "environments").adopt_copies()
    except OSError as error:
        raise system_error(error) from error
    finally:
        lock.release()
    return RestoredHome(contents, findings, replaced)


def _existing_entries(directories: Directories) -> list[Path]:
    """Return what the home contains beside empty directories and what a backup leaves out."""
    return [path for root in sections(directories).values() for path in _present_entries(directories, root)]


def _present_entries(directories: Directories, root: Path) -> list[Path]:
    return [
        path
        for path in sorted(root.iterdir())
        if not is_left_out(directories, path) and (path.is_symlink() or not path.is_dir() or any(path.iterdir()))
    ]


@contextmanager
def _open_staging(directories: Directories) -> Generator[dict[str, Path]]:
    """Make a directory for each section, in the section itself, so that moving out of it is a rename."""
    staging = {name: root / f"{STAGED_PREFIX}{os.getpid()}" for name, root in sections(directories).items()}
    try:
        for directory in staging.values():
            remove_path(directory)
            directory.mkdir(mode=0o700)
        yield staging
    finally:
        for directory in staging.values():
            remove_path(directory)


def _extract(file: Path, staging: dict[str, Path]) -> BackupContents:
    """Extract every file, and compare all of them with the list at the end."""
    extracted: dict[str, BackupEntry] = {}
    directory_modes: list[tuple[Path, int]] = []
    contents: BackupContents | None = None
    try:
        with tarfile.open(file, "r:") as tar:
            for member in tar:
                if contents is not None:
                    raise damaged_error("something follows its list of files")
                if member.name == CONTENTS_NAME:
                    contents = parse_contents(_read_contents(tar, member))
                    continue
                path = _staged_path(staging, member.name)
                if member.isdir():
                    path.mkdir(mode=0o700)
                    directory_modes.append((path, member.mode & 0o777))
                    extracted[member.name] = BackupEntry(member.name, "directory", member.mode)
                elif member.issym():
                    path.symlink_to(member.linkname)
                    extracted[member.name] = BackupEntry(member.name, "link", member.mode, target=member.linkname)
                elif member.isreg() and (source := tar.extractfile(member)) is not None:
                    digest = _write_file(path, source, member)  # pyright: ignore[reportArgumentType]
                    extracted[member.name] = BackupEntry(member.name, "file", member.mode, member.size, digest)
                else:
                    raise damaged_error(f"{printable(member.name)} is neither a file nor a directory")
    except tarfile.TarError:
        raise OperatorError(
            f"{file} is not a backup, or not all of it", code="backup.damaged", hint="nothing was restored"
        ) from None
    except FileExistsError:
        raise damaged_error("it has two files of the same name") from None
    if contents is None:
        raise damaged_error("its end is missing")
    if wrong := _differing_path(contents, extracted):
        raise damaged_error(f"{printable(wrong)} is not what was backed up")
    for path, mode in reversed(directory_modes):  # children first: a directory may become read-only
        path.chmod(mode)
    return contents


def _read_contents(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    source = tar.extractfile(member) if member.isreg() and member.size <= MAX_CONTENTS_BYTES else None
    if source is None:
        raise damaged_error("its list of files cannot be read")
    return source.read()


def _staged_path(staging: dict[str, Path], name: str) -> Path:
    """Return where a member is extracted: below its section, and never through a symbolic link."""
    section, *parts = name.split("/")
    root = staging.get(section)
    sound = root is not None and parts and len(name) <= _MAX_NAME_CHARS and "\0" not in name
    if not sound or any(part in ("", ".", "..") for part in parts):
        raise damaged_error(f"{printable(name, 200)} is not a path inside a home")
    assert root is not None
    path = root
    for part in parts[:-1]:
        path /= part
        if path.is_symlink() or not path.is_dir():
            raise damaged_error(f"{printable(name, 200)} is below something that is no directory")
    return path / parts[-1]


def _write_file(path: Path, source: BinaryIO, member: tarfile.TarInfo) -> str:
    digest = sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        while chunk := source.read(_CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fchmod(file.fileno(), member.mode & 0o777)
        os.fsync(file.fileno())
    os.utime(path, (member.mtime, member.mtime))
    return digest.hexdigest()


def _differing_path(contents: BackupContents, extracted: dict[str, BackupEntry]) -> str | None:
    listed = {entry.path: entry for entry in contents.entries}
    for path in [*listed, *extracted]:
        if listed.get(path) != extracted.get(path):
            return path
        entry = listed[path]
        if path.startswith(BLOBS_PREFIX) and entry.kind == "file" and path.rpartition("/")[2] != entry.sha256:
            return path
    return None


def _check_database(contents: BackupContents, staging: dict[str, Path]) -> tuple[ChainFinding, ...]:
    """Open the database, which brings an older one up to date, and verify the ledger with its checkpoints."""
    path = staging["data"] / Path(DATABASE_PATH).name
    if contents.engine != "sqlite" or not path.exists():
        return ()
    try:
        with open_direct(path) as database:
            findings = tuple(verify_ledger(database, staging["state"]))
    finally:
        (staging["data"] / LOCK_NAME).unlink(missing_ok=True)  # of the copy; the home has its own
    bad = next((finding for finding in findings if finding.verdict != "sound"), None)
    if bad is not None:
        raise HostError(
            f"the ledger of the backup is {bad.verdict} ({bad.tenant}): {bad.what}",
            code="backup.ledger",
            hint="nothing was restored; use another backup",
        )
    return findings


def _move_into_place(directories: Directories, staging: dict[str, Path]) -> tuple[Path, ...]:
    """Move the present files aside and the restored ones into their place, the database last.

    Killed in between, the home has no database, or not all of its files; the restore can be run again, and what was
    moved aside is still there.
    """
    replaced: list[Path] = []
    order = ("config", "state", "data")
    for name in order:
        root = sections(directories)[name]
        if present := _present_entries(directories, root):
            aside = _new_directory(root)
            replaced.append(aside)
            # The database first: without it nothing opens this half of a home.
            for path in sorted(present, key=lambda one: not one.name.startswith("paddock.db")):
                path.rename(aside / path.name)
    for name in order:
        root = sections(directories)[name]
        for path in sorted(staging[name].iterdir(), key=lambda one: one.name.startswith("paddock.db")):
            target = root / path.name
            if path.is_dir() and target.is_dir():
                target.rmdir()
            path.rename(target)
        sync_directory(root)
    return tuple(replaced)


def _new_directory(root: Path) -> Path:
    for number in count(1):
        path = root / f"{REPLACED_PREFIX}{number}"
        if not path.exists():
            path.mkdir(mode=0o700)
            return path
    raise AssertionError("numbers do not end")
