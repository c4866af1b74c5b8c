"""The lock of an embedded store: one daemon at a time, and one process that migrates.

The lock is a `flock` on a file next to the database, so the kernel frees it however the process ends. A daemon holds it
for its whole life and writes its pid into the file for processes that are refused. Commands work beside the daemon
without it, since SQLite serializes all writes; only one that has to migrate takes it, for that moment. The file is
never removed: removing a lock file that another process is opening makes two locks.

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

_RETRY_INTERVAL_S = 0.05  # flock has no timeout of its own
_MAX_NOTE_BYTES = 256


class LockHolder(NamedTuple):
    """The process that has the store, as far as known."""

    pid: int | None
    role: str


class StoreLock:
    """The lock, held from `take` until `release` or the end of the process.

    `unclean_shutdown` says that the previous holder did not release it: it was killed, or the machine lost power.
    """

    def __init__(self, descriptor: int, *, unclean_shutdown: bool = False) -> None:
        self._descriptor: int | None = descriptor
        self.unclean_shutdown = unclean_shutdown

    @classmethod
    def take(cls, directory: Path, role: Role, *, wait: float = 10.0) -> StoreLock:
        """Take the lock of the store in this directory.

        Waits for a command that migrates. A daemon that meets another daemon is refused without waiting: that one keeps
        the lock.

        Raises:
            StoreUnavailable: `store.locked`, naming the holder and what to do.
        """
        path = directory / LOCK_NAME
        descriptor = _open_lock_file(path)
        try:
            _wait_for_lock(descriptor, path, role, deadline=time.monotonic() + wait)
            unclean_shutdown = os.fstat(descriptor).st_size > 0
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "role": role}).encode(), 0)
            with suppress(OSError):
                os.fsync(descriptor)  # so that the note survives a power loss, and the next holder sees it
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, unclean_shutdown=unclean_shutdown)

    def release(self, *, sound: bool = True) -> None:
        """Release the lock. May be called again. Where the store is not `sound`, the next holder checks it again."""
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
    """Try to take the lock at this path; True if no other process holds it. Held for the duration of the block.

    Raises:
        StoreUnavailable: It cannot be opened.
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
    """The holder according to the note; the next holder overwrites what a killed one left."""
    try:
        note = json.loads(os.pread(descriptor, _MAX_NOTE_BYTES, 0))
        pid, role = note["pid"], note["role"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return LockHolder(None, "daemon")
    return LockHolder(pid if isinstance(pid, int) else None, "command" if role == "command" else "daemon")


def _locked_error(path: Path, holder: LockHolder) -> StoreUnavailable:
    holder_text = f"a Paddock {holder.role}" + (f" (pid {holder.pid})" if holder.pid else "")
    if holder.role == "daemon":
        advice = f"stop it first: kill {holder.pid}" if holder.pid else "stop it first"
        hint = f"use the running daemon, or {advice}"
    else:
        hint = "wait for that command to finish, then try again"
    return StoreUnavailable(
        f"the store in {path.parent} is in use by {holder_text}",
        code="store.locked",
        hint=hint,
        details={"pid": holder.pid, "role": holder.role, "lock": str(path)},
    )
