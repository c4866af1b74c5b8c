"""A disk in memory for SQLite, of which a power cut leaves what was synced and a part of the rest.

Writes are kept in order until their file is synced. Whoever kills the host leaves all of them behind, as a kernel does;
whoever cuts the power leaves any of their sectors. A host that is gone may go on writing: it writes to a copy that
nobody will see.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import apsw

SECTOR = 512
VFS = "simulated"
_ROOT = "/simulated-disk-"


@dataclass(slots=True)
class _File:
    current: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    waiting: list[tuple[int, bytes] | int] = field(default_factory=list[tuple[int, bytes] | int])
    """Since the last sync, in order: what was written where, or the size that it was cut to."""

    def sync(self) -> None:
        self.synced = bytearray(self.current)
        self.waiting.clear()

    def after_power_cut(self, chances: Random, kept: float) -> bytes:
        """What was synced, and of the rest each sector with this probability."""
        content = bytearray(self.synced)
        for one in self.waiting:
            if isinstance(one, int):
                if chances.random() < kept:
                    del content[one:]
                continue
            offset, data = one
            while data:
                size = SECTOR - offset % SECTOR
                if chances.random() < kept:
                    _put(content, offset, data[:size])
                offset, data = offset + size, data[size:]
        return bytes(content)


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class Disk:
    """Files by name.

    Args:
        chances: Decides what fails and what survives.
        files: What is on it, all of it synced.
    """

    def __init__(self, chances: Random, files: Mapping[str, bytes]) -> None:
        self._chances = chances
        self.files = {name: _File(bytearray(content), bytearray(content)) for name, content in files.items()}
        self.full = False  # whether no file can grow
        self.failing = 0.0  # how likely it is that a write or a sync fails
        self.writes = 0  # how often it was asked to write or sync
        self.cut_at: int | None = None  # of these, the one before which the power is cut
        self.on_cut: Callable[[], None] = lambda: None
        self.remains: dict[str, bytes] | None = None  # once the host was cut off from it

    def kill(self) -> None:
        """The host is gone, and what it wrote is in the hands of the kernel."""
        if self.remains is None:
            self.remains = {name: bytes(file.current) for name, file in self.files.items()}

    def cut_power(self) -> None:
        """The whole machine is gone."""
        if self.remains is None:
            kept = self._chances.choice((0.0, 0.5, 0.9))
            self.remains = {name: file.after_power_cut(self._chances, kept) for name, file in self.files.items()}

    # --- what SQLite does with it -------------------------------------------------------------------------------------

    def write(self, name: str, data: bytes, offset: int) -> None:
        self._turn(apsw.SQLITE_IOERR_WRITE)
        file = self.files[name]
        if self.full and self.remains is None and offset + len(data) > len(file.current):
            raise apsw.exception_for(apsw.SQLITE_FULL)
        _put(file.current, offset, data)
        file.waiting.append((offset, data))

    def truncate(self, name: str, size: int) -> None:
        self._turn(apsw.SQLITE_IOERR_TRUNCATE)
        file = self.files[name]
        del file.current[size:]
        file.waiting.append(size)

    def sync(self, name: str) -> None:
        self._turn(apsw.SQLITE_IOERR_FSYNC)
        self.files[name].sync()

    def _turn(self, code: int) -> None:
        if self.remains is not None:
            return
        self.writes += 1
        if self.cut_at is not None and self.writes >= self.cut_at:
            self.cut_power()
            self.on_cut()
        elif self.failing and self._chances.random() < self.failing:
            raise apsw.exception_for(code)


class _Open(apsw.VFSFile):
    """A file of a disk that SQLite has open. There is one connection to each, so nobody has to be locked out."""

    def __init__(self, disk: Disk, name: str) -> None:  # the base opens a file of the machine, which there is none of
        self._disk = disk
        self._name = name

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        return bytes(self._disk.files[self._name].current[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.write(self._name, bytes(data), offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.truncate(self._name, newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        del flags
        self._disk.sync(self._name)

    def xFileSize(self) -> int:  # noqa: N802
        return len(self._disk.files[self._name].current)

    def xLock(self, level: int) -> None:  # noqa: N802
        del level

    def xUnlock(self, level: int) -> None:  # noqa: N802
        del level

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802
        del op, ptr
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return SECTOR

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE  # as the one of Linux says

    def xClose(self) -> None:  # noqa: N802
        pass

    def excepthook(self, kind: Any, error: Any, trace: Any) -> None:
        """SQLite went on without what failed, as it may: after a checkpoint for instance."""


class Disks(apsw.VFS):
    """Where SQLite finds them: `path` names a file of one. All other files are those of the machine."""

    def __init__(self) -> None:
        super().__init__(VFS, base="", makedefault=True)
        self._disks: list[Disk] = []

    def path(self, disk: Disk, name: str) -> Path:
        if disk not in self._disks:
            self._disks.append(disk)
        return Path(f"{_ROOT}{self._disks.index(disk)}/{name}")

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802
        found = self._found(name)
        if found is None:
            return super().xOpen(name, flags)
        disk, own = found
        if own not in disk.files:
            if not flags[0] & apsw.SQLITE_OPEN_CREATE:
                raise apsw.exception_for(apsw.SQLITE_CANTOPEN)
            disk.files[own] = _File()
        flags[1] = flags[0]
        return _Open(disk, own)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        found = self._found(filename)
        if found is None:
            return super().xDelete(filename, syncdir)
        disk, own = found
        if disk.files.pop(own, None) is None:
            raise apsw.exception_for(apsw.SQLITE_IOERR_DELETE_NOENT)
        return None

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        found = self._found(pathname)
        return super().xAccess(pathname, flags) if found is None else found[1] in found[0].files

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name if str(name).startswith(_ROOT) else super().xFullPathname(name)

    def xGetLastError(self) -> tuple[int, str]:  # noqa: N802
        # The base returns errno, which some earlier system call of this process may have left at "no space".
        return 0, ""

    def _found(self, name: Any) -> tuple[Disk, str] | None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None or not str(path).startswith(_ROOT):
            return None
        number, _, own = str(path).removeprefix(_ROOT).partition("/")
        return self._disks[int(number)], own

    def excepthook(self, kind: Any, error: Any, trace: Any) -> None:
        """As for a file."""


@contextmanager
def disks() -> Generator[Disks, None, None]:
    """Have SQLite look there first while the block runs."""
    made = Disks()
    try:
        yield made
    finally:
        made.unregister()
