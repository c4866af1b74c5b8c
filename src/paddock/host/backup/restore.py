"""Restores a home from a backup: everything is extracted and checked beside the home before anything is replaced."""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import tarfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from paddock.config.directories import Directories, create_directories
from paddock.core.action import Action
from paddock.core.errors import Conflict, HostError, NotFound, OperatorError, StoreUnavailable
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
from paddock.host.backup.database_contents import DATABASE_COMPANIONS, holds_sealed_secrets, is_empty_database
from paddock.host.backup.move_journal import Move, MoveJournal
from paddock.host.backup.sparse_file import Region, region_list, regions_of
from paddock.ledger.chain.verifier import ChainFinding
from paddock.ledger.chain.verify import verify_ledger
from paddock.plugins.environments.store import EnvironmentStore
from paddock.store.database import open_direct
from paddock.store.filesystem import OUT_OF_SPACE_ERRNOS, remove_tree, sync_directory, system_error
from paddock.store.lock import LOCK_NAME, StoreLock

_CHUNK_BYTES = 1 << 20
_MAX_NAME_CHARS = 4096


class RestoredHome(Struct, frozen=True):
    """What was restored, what was found about its ledger, where the previous files are, and whether it has secrets."""

    contents: BackupContents
    findings: tuple[ChainFinding, ...]
    replaced: tuple[Path, ...]
    holds_secrets: bool


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
    with _locked_home(directories):
        _remove_interrupted(directories)
        if not replace and (existing := _existing_entries(directories)):
            raise Conflict(
                f"the home is not empty: {existing[0]}",
                code="backup.home_not_empty",
                hint="restore into another PADDOCK_HOME, or move what is there aside",
                action=Action.of("restore.replace", file=str(file)),
            )
        with _open_staging(directories) as staging:
            contents = _extract(file, directories, staging)
            findings, holds_secrets = _check_database(contents, staging)
            EnvironmentStore(staging["data"] / "environments").adopt_copies()
            replaced = _move_into_place(directories, staging)
    return RestoredHome(contents, findings, replaced, holds_secrets)


def undo_interrupted_restore(directories: Directories) -> None:
    """Put back what was in the home before a restore that was killed.

    Raises:
        NotFound: none was.
        StoreUnavailable: one is under way.
        HostError: something cannot be moved.
    """
    with _locked_home(directories):
        if not _remove_interrupted(directories):
            raise NotFound("no restore of this home was interrupted", code="backup.nothing_to_undo")


@contextmanager
def _locked_home(directories: Directories) -> Generator[None]:
    create_directories(directories)
    lock = StoreLock.take(directories.data, "command", wait=0)
    try:
        yield
    except OSError as error:
        if error.errno in OUT_OF_SPACE_ERRNOS:
            raise StoreUnavailable(
                f"there is not enough room to restore the backup into {directories.data}; nothing was changed",
                code="store.full",
                hint="free some space: df -h; or restore into a PADDOCK_HOME on another disk",
            ) from error
        raise system_error(error) from error
    finally:
        lock.release()


def _remove_interrupted(directories: Directories) -> bool:
    """Take back the moves of a restore that was killed, and remove what it had extracted."""
    interrupted = MoveJournal(directories.restore_journal).roll_back()
    for root in sections(directories).values():
        for path in root.glob(f"{STAGED_PREFIX}*"):
            remove_tree(path)
        for path in root.glob(f"{REPLACED_PREFIX}*"):
            with suppress(OSError):
                path.rmdir()  # if nothing is in it any more
    return interrupted


def _existing_entries(directories: Directories) -> list[Path]:
    """Return what the home contains beside empty directories, an empty database, and what a backup leaves out."""
    entries = [path for root in sections(directories).values() for path in _present_entries(directories, root)]
    database = directories.database_file
    parts = {database, *(database.with_name(f"{database.name}{suffix}") for suffix in DATABASE_COMPANIONS)}
    return [] if database in entries and parts.issuperset(entries) and is_empty_database(database) else entries


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
            directory.mkdir(mode=0o700)
        yield staging
    finally:
        for directory in staging.values():
            if directory.exists():
                remove_tree(directory)


def _extract(file: Path, directories: Directories, staging: dict[str, Path]) -> BackupContents:
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
                _require_ordinary(directories, member.name)
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
    except (tarfile.TarError, ValueError):
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
        sync_directory(path)
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


def _require_ordinary(directories: Directories, name: str) -> None:
    """Refuse what a backup leaves out, such as a lock, or a file in the place of one of the home's directories."""
    section, first = name.split("/")[:2]
    if is_left_out(directories, sections(directories)[section] / first):
        raise OperatorError(
            f"{printable(f'{section}/{first}')} cannot be restored here: Paddock itself uses that place",
            code="backup.reserved_place",
            hint="nothing was restored; restore into another PADDOCK_HOME, or into the XDG directories without one",
        )


def _write_file(path: Path, source: BinaryIO, member: tarfile.TarInfo) -> str:
    """Write a file, with the holes that it had, and return the digest of what the archive holds of it."""
    digest = sha256()
    regions = regions_of(member)
    if regions is not None:
        digest.update(region_list(regions))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        for region in [Region(0, member.size)] if regions is None else regions:
            source.seek(region.offset)
            file.seek(region.offset)
            left = region.size
            while left and (chunk := source.read(min(left, _CHUNK_BYTES))):
                digest.update(chunk)
                file.write(chunk)
                left -= len(chunk)
        file.truncate(member.size)
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


def _check_database(contents: BackupContents, staging: dict[str, Path]) -> tuple[tuple[ChainFinding, ...], bool]:
    """Open the database, which brings an older one up to date, and verify the ledger with its checkpoints.

    Returns what was found, and whether secrets may be sealed in it: of one that is elsewhere that is unknown.
    """
    path = staging["data"] / Path(DATABASE_PATH).name
    database = next((entry for entry in contents.entries if entry.path == DATABASE_PATH), None)
    if database is None:
        return (), contents.engine != "sqlite"
    if contents.engine != "sqlite" or database.kind != "file":
        raise damaged_error("its database is not what its list says")
    try:
        with open_direct(path) as database:
            findings = tuple(verify_ledger(database, staging["state"]))
            holds_secrets = database.read(holds_sealed_secrets)
    finally:
        (staging["data"] / LOCK_NAME).unlink(missing_ok=True)  # of the copy; the home has its own
    bad = next((finding for finding in findings if finding.verdict != "sound"), None)
    if bad is not None:
        raise HostError(
            f"the ledger of the backup is {bad.verdict} ({bad.tenant}): {bad.what}",
            code="backup.ledger",
            hint="nothing was restored; use another backup",
        )
    return findings, holds_secrets


def _move_into_place(directories: Directories, staging: dict[str, Path]) -> tuple[Path, ...]:
    """Move the present files aside and the restored ones into their place; all of them, or none."""
    moves: list[Move] = []
    replaced: list[Path] = []
    for name, root in sections(directories).items():
        if present := _present_entries(directories, root):
            aside = _new_directory(root)
            replaced.append(aside)
            moves += [Move(path, aside / path.name) for path in present]
        moves += [Move(path, root / path.name) for path in sorted(staging[name].iterdir())]
    try:
        MoveJournal(directories.restore_journal).perform(moves)
    except BaseException:
        for aside in replaced:
            with suppress(OSError):
                aside.rmdir()
        raise
    return tuple(replaced)


def _new_directory(root: Path) -> Path:
    for number in count(1):
        path = root / f"{REPLACED_PREFIX}{number}"
        if not path.exists():
            path.mkdir(mode=0o700)
            return path
    raise AssertionError("numbers do not end")
