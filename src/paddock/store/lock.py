"""Who may have the embedded store open: one daemon, or any number of one-shot commands.

The lock is a `flock` on a file beside the database, so the kernel frees it however the process ends. Commands hold it
shared and let SQLite order their writes; a daemon holds it exclusively and leaves its pid and role in the file for
whoever is turned away. The file is never removed: removing a lock file that someone else is opening makes two locks.

A child made by `fork` alone would keep the lock; every process we start is a fresh program, and those get no copy.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from pathlib import Path
from typing import Literal, NamedTuple

from paddock.core.errors import StoreUnavailable

LOCK_NAME = "paddock.lock"

Role = Literal["command", "daemon"]

_PAUSE = 0.05  # seconds between attempts: flock has no timeout of its own
_LONGEST_NOTE = 256


class Holder(NamedTuple):
    """The process that has the store, as far as it can be told."""

    pid: int | None
    role: str


class StoreLock:
    """The lock, held from `take` until `release` or the end of the process."""

    def __init__(self, descriptor: int, *, exclusive: bool) -> None:
        self._descriptor: int | None = descriptor
        self._exclusive = exclusive

    @classmethod
    def take(cls, directory: Path, role: Role, *, wait: float = 10.0) -> StoreLock:
        """Take the lock of the store in this directory.

        Waits for a running command to finish. Only a daemon that meets another daemon is refused without waiting:
        that one has come to stay.

        Raises:
            StoreUnavailable: `store.locked`, naming who holds it and what to do.
        """
        path = directory / LOCK_NAME
        exclusive = role == "daemon"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreUnavailable(
                f"the store's lock {path} cannot be opened: {error.strerror}",
                hint=f"it must be an ordinary file of yours: ls -l {path}",
            ) from error
        try:
            _wait_for(descriptor, path, exclusive=exclusive, deadline=time.monotonic() + wait)
            if exclusive:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "role": role}).encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, exclusive=exclusive)

    def release(self) -> None:
        """Let go. Doing it twice is harmless."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if self._exclusive:
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)


def _wait_for(descriptor: int, path: Path, *, exclusive: bool, deadline: float) -> None:
    while not _try(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH):
        # Whoever stands in the way of a shared lock is a daemon; of an exclusive one, perhaps only commands.
        daemon_there = not (exclusive and _shared_only(descriptor))
        if (exclusive and daemon_there) or time.monotonic() >= deadline:
            raise _locked(path, _holder(descriptor, path, daemon_there))
        time.sleep(_PAUSE)


def _try(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return False
        raise
    return True


def _shared_only(descriptor: int) -> bool:
    """Whether the others hold it shared, that is: only commands stand in the way."""
    if not _try(descriptor, fcntl.LOCK_SH):
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


def _holder(descriptor: int, path: Path, daemon_there: bool) -> Holder:
    if daemon_there:
        # Only an exclusive holder writes the note; what a killed one left is overwritten by the next.
        try:
            note = json.loads(os.pread(descriptor, _LONGEST_NOTE, 0))
            pid = note["pid"]
        except (ValueError, TypeError, KeyError, RecursionError):
            pid = None
        return Holder(pid if isinstance(pid, int) else None, "daemon")
    return Holder(_pid_from_kernel(path), "command")


def _pid_from_kernel(path: Path) -> int | None:
    """One pid that the kernel lists as holding a flock on this file."""
    inode = str(path.stat().st_ino)
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        # 1: FLOCK  ADVISORY  READ 4242 fe:00:131 0 EOF
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
            pid = int(fields[4])
            if pid not in (0, os.getpid()):
                return pid
    return None


def _locked(path: Path, holder: Holder) -> StoreUnavailable:
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
