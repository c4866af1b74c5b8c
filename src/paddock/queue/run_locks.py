"""Detects dead runs of this home: each run locks a file, and the kernel releases the lock however the run ends.

A host recognises dead runs of its own home at once, so that work of a killed command does not stay in progress for ever
where no daemon runs. On PostgreSQL, heartbeats reveal those of other homes.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

_FOLDER = "runs"


class RunLocks:
    """The lock files of this home's runs. A run without a readable file does not count as dead.

    Args:
        state: The home's state directory.
    """

    def __init__(self, state: Path) -> None:
        self._folder = state / _FOLDER
        self._held: dict[int, int] = {}

    def acquire(self, epoch: int) -> None:
        """Lock the file of this run until `release` or the end of the process.

        Raises:
            OSError: It could not be made or locked. On PostgreSQL, silence tells that such a run is over; on the
                embedded engine nothing does, unless it is a daemon and the next one starts.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        draft = self._folder / f".{epoch}-{os.getpid()}"
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.rename(self._file(epoch))  # locked before it is visible, so it never looks dead
        except OSError:
            os.close(descriptor)
            draft.unlink(missing_ok=True)
            raise
        self._held[epoch] = descriptor

    def is_dead(self, epoch: int) -> bool:
        """Whether this run is certainly over."""
        if epoch in self._held:
            return False
        try:
            descriptor = os.open(self._file(epoch), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        else:
            return True
        finally:
            os.close(descriptor)

    def dead_epochs(self) -> list[int]:
        """Return all runs that are certainly over."""
        try:
            names = [file.name for file in self._folder.iterdir()]
        except OSError:
            return []
        return [int(name) for name in names if name.isascii() and name.isdecimal() and self.is_dead(int(name))]

    def release(self, epoch: int, *, recorded: bool = True) -> None:
        """Release the lock of a run that is over. Its file stays as evidence unless that is `recorded`."""
        if recorded:
            with suppress(OSError):
                self._file(epoch).unlink(missing_ok=True)
        descriptor = self._held.pop(epoch, None)
        if descriptor is not None:
            os.close(descriptor)

    def _file(self, epoch: int) -> Path:
        return self._folder / str(epoch)
