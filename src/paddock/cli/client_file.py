"""A client's settings file, written anew: in one step for every reader, with what it was kept beside it."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path

from paddock.core.errors import Conflict, OperatorError
from paddock.store.durable import sync_directory

KEPT = ".before-paddock"


def replace_text(path: Path, before: str, after: str) -> Path:
    """Write a file anew, and keep what it was; where that is kept.

    The file keeps its mode and its owner, and a link to it stays one. The copy is for its owner alone: such files hold
    keys.

    Raises:
        Conflict: it changed since it was read.
        OperatorError: it cannot be written.
    """
    real = Path(os.path.realpath(path))
    try:
        if real.read_bytes() != before.encode():
            raise Conflict(
                f"{path} changed while you were deciding", code="import.file_changed", hint="run the command again"
            )
        known = real.stat()
        kept = _copy(real, before)
        try:
            _over(real, after, known)
        except BaseException:
            kept.unlink(missing_ok=True)  # it is a copy of what still stands there, with its keys
            raise
        sync_directory(real.parent)
    except OSError as error:
        raise OperatorError(
            f"{path} cannot be written: {error.strerror}",
            code="import.unwritable",
            hint="look at who may write it, or paste the lines yourself",
        ) from None
    return kept


def _copy(real: Path, text: str) -> Path:
    for number in count(1):
        kept = real.with_name(f"{real.name}{KEPT}" + (f"-{number}" if number > 1 else ""))
        with suppress(FileExistsError):
            descriptor = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            _write(descriptor, text)
            return kept
    raise AssertionError("numbers do not end")


def _over(real: Path, text: str, known: os.stat_result) -> None:
    descriptor, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        _write(descriptor, text, known)
        Path(name).replace(real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _write(descriptor: int, text: str, known: os.stat_result | None = None) -> None:
    with open(descriptor, "wb") as file:
        if known is not None:
            os.fchmod(descriptor, known.st_mode & 0o777)
            if (os.geteuid(), os.getegid()) != (known.st_uid, known.st_gid):
                os.fchown(descriptor, known.st_uid, known.st_gid)
        file.write(text.encode())
        file.flush()
        os.fsync(descriptor)
