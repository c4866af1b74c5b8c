"""Who is the one daemon of an embedded store, and who may change its tables' shape.

The lock is a `flock` on a file beside the database, so the kernel frees it however the process ends. A daemon holds it
for its whole life and leaves its pid in the file for whoever is turned away. Commands work beside the daemon without
it, since SQLite orders everybody's writes; only one that has to migrate takes it, for that moment. The file is never
removed: removing a lock file that someone else is opening makes two locks.

A child made by `fork` alone would keep the lock; every process we start is a fresh program, and those get no copy.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from paddock.core.errors import StoreUnavailable

LOCK_NAME = "paddock.lock"

Role = Literal["command", "daemon"]

_RETRY_INTERVAL_S = 0.05  # seconds between attempts: flock has no timeout of its own
_MAX_NOTE_BYTES = 256


class LockHolder(NamedTuple):
    """The process that has the store, as far as it can be told."""

    pid: int | None
    role: str


class StoreLock:
    """The lock, held from `take` until `release` or the end of the process.

    `left` says that whoever had it before did not let go of it: they were killed, or the machine lost its power.
    """

    def __init__(self, descriptor: int, *, left: bool = False) -> None:
        self._descriptor: int | None = descriptor
        self.unclean_shutdown = left

    @classmethod
    def take(cls, directory: Path, role: Role, *, wait: float = 10.0) -> StoreLock:
        """Take the lock of the store in this directory.

        Waits for a command that migrates. A daemon that meets another daemon is refused without waiting: that one has
        come to stay.

        Raises:
            StoreUnavailable: `store.locked`, naming who holds it and what to do.
        """
        path = directory / LOCK_NAME
        descriptor = _open_lock_file(path)
        try:
            _wait_for_lock(descriptor, path, role, deadline=time.monotonic() + wait)
            left = os.fstat(descriptor).st_size > 0
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "role": role}).encode(), 0)
            with suppress(OSError):
                os.fsync(descriptor)  # so that the note is there after a loss of power, of which it tells the next one
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, left=left)

    def release(self, *, sound: bool = True) -> None:
        """Let go. Doing it twice is harmless. Where the store is not `sound`, the next one is to look again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if sound:
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)


@contextmanager
def try_file_lock(path: Path) -> Generator[bool, None, None]:
    """Whether nobody else holds the lock at this path; if so it is ours for as long as the block runs.

    Raises:
        StoreUnavailable: it cannot be opened.
    """
    descriptor = _open_lock_file(path)
    try:
        yield _try_flock(descriptor)
    finally:
        os.close(descriptor)


def _open_lock_file(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreUnavailable(
            f"the store's lock {path} cannot be opened: {error.strerror}",
            hint=f"it must be an ordinary file of yours: ls -l {path}",
        ) from error


def _wait_for_lock(descriptor: int, path: Path, role: Role, *, deadline: float) -> None:
    while not _try_flock(descriptor):
        holder = _read_holder(descriptor)
        if (role == "daemon" and holder.role == "daemon") or time.monotonic() >= deadline:
            raise _locked_error(path, holder)
        time.sleep(_RETRY_INTERVAL_S)


def _try_flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return False
        raise
    return True


def _read_holder(descriptor: int) -> LockHolder:
    """Who wrote the note; what a killed holder left is overwritten by the next."""
    try:
        note = json.loads(os.pread(descriptor, _MAX_NOTE_BYTES, 0))
        pid, role = note["pid"], note["role"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return LockHolder(None, "daemon")
    return LockHolder(pid if isinstance(pid, int) else None, "command" if role == "command" else "daemon")


def _locked_error(path: Path, holder: LockHolder) -> StoreUnavailable:
    who = f"a Paddock {holder.role}" + (f" (pid {holder.pid})" if holder.pid else "")
    if holder.role == "daemon":
        what = f"stop it first: kill {holder.pid}" if holder.pid else "stop it first"
        hint = f"use the running daemon, or {what}"
    else:
        hint = "wait for that command to finish, then try again"
    return StoreUnavailable(
        f"the store in {path.parent} is in use by {who}",
        code="store.locked",
        hint=hint,
        details={"pid": holder.pid, "role": holder.role, "lock": str(path)},
    )
