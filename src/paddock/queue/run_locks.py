"""Whether a run of this home still runs: a file that it has locked, which the kernel lets go of however it ends.

Beats tell of hosts on other machines, after a minute. Of those of its own home a host knows at once, so what a command
had begun that was killed is not under way for ever where no daemon watches.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

_FOLDER = "runs"


class RunLocks:
    """This run among all of its home. One that has no file, or whose file cannot be read, is not known to be gone.

    Args:
        state: The home's folder for what it knows of itself.
    """

    def __init__(self, state: Path) -> None:
        self._folder = state / _FOLDER
        self._held: dict[int, int] = {}

    def acquire(self, epoch: int) -> None:
        """Be there, until `leave` or the end of the process. Without room for the file, only beats tell of this run."""
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            draft = self._folder / f".{epoch}-{os.getpid()}"
            descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            self._held[epoch] = descriptor
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.rename(self._file(epoch))  # locked already: nobody finds it free

    def is_dead(self, epoch: int) -> bool:
        """Whether it is certain that this run is over."""
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
        """All runs of which it is certain that they are over."""
        try:
            names = [file.name for file in self._folder.iterdir()]
        except OSError:
            return []
        return [int(name) for name in names if name.isascii() and name.isdecimal() and self.is_dead(int(name))]

    def release(self, epoch: int, *, known: bool = True) -> None:
        """This run is over, or one that is gone; where that is not `known` to all, its file stays to tell them."""
        if known:
            with suppress(OSError):
                self._file(epoch).unlink(missing_ok=True)
        descriptor = self._held.pop(epoch, None)
        if descriptor is not None:
            os.close(descriptor)

    def _file(self, epoch: int) -> Path:
        return self._folder / str(epoch)
