"""Our own files: enough room for them, and nobody else able to read or change them."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from paddock.config.directories import Directories
from paddock.config.owners import become
from paddock.doctor.check import Check, Status
from paddock.doctor.programs import nearest_existing

_MIB = 1 << 20
_GIB = 1 << 30


def check_disk(data: Path) -> Check:
    """Room where the data will live, as an ordinary user may use it."""
    place = nearest_existing(data)
    space = os.statvfs(place)
    return judge_disk(space.f_bavail * space.f_frsize, place)


def judge_disk(free: int, place: Path) -> Check:
    """Less than 100 MiB fails, less than 1 GiB is worth a look."""
    shown = f"{free / _GIB:.1f} GiB" if free >= _GIB else f"{free // _MIB} MiB"
    found = f"{shown} free at {place}"
    if free >= _GIB:
        return Check("disk", Status.OK, found)
    status = Status.WARN if free >= 100 * _MIB else Status.FAIL
    why = "With a full disk nothing can be recorded, and what cannot be recorded is not done."
    return Check("disk", status, found, why, f"du -xh {shlex.quote(str(place))} | sort -h | tail")


def check_permissions(directories: Directories) -> Check:
    """Owner and mode of our directories, `local.toml`, `config.toml` and the database."""
    complaints: list[str] = []
    fixes: list[str] = []
    status = Status.OK
    for directory in directories.all():
        status = _judge(directory, 0o022, "chmod 0700", status, complaints, fixes)
    status = _judge(directories.config_file, 0o022, "chmod go-w", status, complaints, fixes)
    status = _judge(directories.local_file, 0o077, "chmod 0600", status, complaints, fixes)
    for database in sorted(directories.data.glob("*.db*")) if directories.data.is_dir() else ():
        status = _judge(database, 0o077, "chmod 0600", status, complaints, fixes)
    if status is Status.OK:
        there = [path for path in directories.all() if path.exists()]
        found = f"{len(there)} of ours are private to you" if there else "nothing of ours is there yet"
        return Check("permissions", Status.OK, found)
    why = "These hold secrets and decide what plugins may do; only you should read or change them."
    return Check("permissions", status, "; ".join(complaints), why, " && ".join(dict.fromkeys(fixes)))


def _judge(path: Path, forbidden: int, mend: str, status: Status, complaints: list[str], fixes: list[str]) -> Status:
    """Add what is wrong with one path, if anything."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return status
    quoted = shlex.quote(str(path))
    if found.st_uid not in (os.geteuid(), 0):
        complaints.append(f"{path} belongs to user {found.st_uid}")
        as_its_owner = f"{become(found.st_uid)} paddock doctor"
        fixes.append(as_its_owner)
    elif found.st_mode & forbidden:
        complaints.append(f"{path} has mode {stat.S_IMODE(found.st_mode):04o}")
        fixes.append(f"{mend} {quoted}")
    else:
        return status
    return Status.FAIL
