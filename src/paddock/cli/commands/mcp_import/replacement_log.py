"""Replaces the text of client settings atomically, and records each replacement so that it can be undone."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict

from paddock.core.errors import Conflict, Invalid, OperatorError
from paddock.manifest.client_config import restore_servers, servers_digest
from paddock.manifest.syntax.document import SETTINGS_LIMITS, invalid_file_error
from paddock.store.filesystem import sync_directory

BACKUP_SUFFIX = ".before-paddock"
LOG_NAME = "client-settings.json"
# Non-blocking: opening a pipe without a writer would otherwise wait for ever.
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class Replacement(Struct, frozen=True):
    """A settings file in which Paddock took the place of servers."""

    file: str
    backup: str
    written: str  # the digest of the text that was written
    servers: str  # the digest of its servers alone: clients write other things into the same file
    replaced: list[str]


class ReplacementLog:
    """The replacements that can be undone, newest last."""

    def __init__(self, state: Path) -> None:
        self._path = state / LOG_NAME

    def replace(self, path: Path, before: str, after: str, replaced: list[str]) -> Path:
        """Replace a file's text and return the path of its backup.

        The file keeps its mode and owner, and a symbolic link stays one. The backup is readable by its owner only: such
        files contain keys. Killed at any point, the file has either text, and the old one is never lost.

        Raises:
            Conflict: it changed since it was read.
            OperatorError: it cannot be written.
        """
        real = Path(os.path.realpath(path))
        with _write_errors(path), self._locked():
            _require_unchanged(path, real, before)
            backup = _write_backup(real, before)
            entries = self.read()
            entry = Replacement(
                str(real), str(backup), _digest(after), servers_digest(real.name, after), sorted(replaced)
            )
            try:
                self._write([*entries, entry])  # before the file: a replacement without a record could not be undone
                write_settings(path, before, after)
            except BaseException:
                if not _may_have_text(real, after):  # interrupted after the rename, it is replaced
                    backup.unlink(missing_ok=True)  # a copy of the unchanged file, with its keys
                    with suppress(OSError):  # an entry without a backup is harmless: the file has not changed
                        self._write(entries)
                raise
        return backup

    def undo(self, entry: Replacement) -> Literal["restored", "servers restored", "unchanged"]:
        """Put the servers back as they were. If a client wrote something else into the file meanwhile, that stays.

        Raises:
            Conflict: the servers in it changed since.
            OperatorError: it cannot be read or written.
        """
        path, backup = Path(entry.file), Path(entry.backup)
        with _write_errors(path), self._locked():
            before, now = _read_backup(path, backup), read_settings_text(path)
            after = _text_to_restore(entry, now, before)
            if after != now:
                write_settings(path, now, after)
            self._write([other for other in self.read() if other != entry])
            backup.unlink(missing_ok=True)
        return "unchanged" if after == now else "restored" if after == before else "servers restored"

    def read(self) -> list[Replacement]:
        """Return the replacements, oldest first.

        Raises:
            OperatorError: the record is damaged.
        """
        try:
            values = json.loads(self._path.read_bytes())
            return [Replacement(**value) for value in values]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError):
            raise OperatorError(
                f"{self._path} is damaged, so it is not known what was replaced",
                code="import.log_damaged",
                hint=f"each original is beside its file, as NAME{BACKUP_SUFFIX}; remove {self._path} to go on",
            ) from None

    def _write(self, entries: list[Replacement]) -> None:
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{LOG_NAME}.")
        try:
            _write_file(descriptor, json.dumps([asdict(entry) for entry in entries], indent=2))
            Path(name).replace(self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        sync_directory(self._path.parent)

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Hold the directory, so that two commands do not overwrite each other's entries."""
        descriptor = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def read_settings_text(path: Path) -> str:
    """Read a settings file of bounded size.

    Raises:
        ValueError: it is not text.
        OSError: it cannot be opened, or is not a regular file.
        Invalid: it is too large.
    """
    with os.fdopen(os.open(path, _OPEN_FLAGS), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it is not a regular file", str(path))
        data = file.read(SETTINGS_LIMITS.max_bytes + 1)
    if len(data) > SETTINGS_LIMITS.max_bytes:
        message = f"is larger than {SETTINGS_LIMITS.max_bytes >> 20} MiB"
        raise invalid_file_error(path.name, message, code="too_large")
    return data.decode()


def write_settings(path: Path, before: str, after: str) -> None:
    """Replace a file's text atomically, if it is still what it was.

    Raises:
        Conflict: it changed since it was read.
    """
    real = Path(os.path.realpath(path))
    status = real.stat()
    descriptor, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        _write_file(descriptor, after, status)
        _require_unchanged(path, real, before)  # as late as possible: clients write their settings at any time
        Path(name).replace(real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_directory(real.parent)


def _text_to_restore(entry: Replacement, now: str, before: str) -> str:
    if now == before:
        return now
    if _digest(now) == entry.written:
        return before
    name = Path(entry.file).name
    with suppress(Invalid):
        servers = servers_digest(name, now)
        if servers == servers_digest(name, before):
            return now
        if servers == entry.servers:
            return restore_servers(name, now, before)
    raise Conflict(
        f"the servers in {entry.file} changed since Paddock took their place",
        code="import.changed_since",
        hint=f"compare it with what it was, {entry.backup}, and edit it by hand",
    )


def _read_backup(path: Path, backup: Path) -> str:
    try:
        return read_settings_text(backup)
    except FileNotFoundError:
        raise Conflict(
            f"the original of {path} is gone: {backup}",
            code="import.no_backup",
            hint="edit the file by hand, and add the servers again",
        ) from None


def _may_have_text(real: Path, text: str) -> bool:
    try:
        return real.read_bytes() == text.encode()
    except OSError:
        return True  # unknown, and the original must not be lost


def _require_unchanged(path: Path, real: Path, text: str) -> None:
    if real.read_bytes() != text.encode():
        raise Conflict(
            f"{path} changed while you were deciding", code="import.file_changed", hint="run the command again"
        )


@contextmanager
def _write_errors(path: Path) -> Generator[None]:
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise OperatorError(
            f"{path} cannot be written: {reason}",
            code="import.unwritable",
            hint="look at who may write it, or paste the lines yourself",
        ) from None


def _write_backup(real: Path, text: str) -> Path:
    for number in count(1):
        backup = real.with_name(f"{real.name}{BACKUP_SUFFIX}" + (f"-{number}" if number > 1 else ""))
        with suppress(FileExistsError):
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                _write_file(descriptor, text)
            except BaseException:
                backup.unlink(missing_ok=True)
                raise
            sync_directory(real.parent)
            return backup
    raise AssertionError("numbers do not end")


def _write_file(descriptor: int, text: str, status: os.stat_result | None = None) -> None:
    with open(descriptor, "wb") as file:
        if status is not None:
            os.fchmod(descriptor, status.st_mode & 0o777)
            if (os.geteuid(), os.getegid()) != (status.st_uid, status.st_gid):
                os.fchown(descriptor, status.st_uid, status.st_gid)
        file.write(text.encode())
        file.flush()
        os.fsync(descriptor)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
