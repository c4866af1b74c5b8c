"""Writes package files to disk: every source goes through this writer, under the same limits.

A source yields `PackageEntry` values. `extract_entries` checks each name again, counts the bytes that really arrive,
hashes them on the way and creates plain files. Links, devices, owners, times and special mode bits cannot pass.

Nothing is fsynced. A tree on disk is a copy of the package in the store: damage by a power cut is detected by its
digest and repaired.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import HostError, Invalid, Problem
from paddock.core.printable import printable
from paddock.plugins.package.rules import SIGNATURE_FILE, PackageLimits, PackageValidator, format_bytes, is_excluded
from paddock.plugins.package.tree import PackageTree, TreeFile


class PackageEntry(Struct, frozen=True):
    """A file to extract. `chunks` reads it; called at most once, and before the next entry is requested."""

    path: str
    executable: bool
    chunks: Callable[[], Iterator[bytes]]


class InstallProgress(Struct, frozen=True):
    """The progress of staging. A callback that raises stops the work, and everything made so far is removed."""

    step: str
    files: int = 0
    size: int = 0


ProgressCallback = Callable[[InstallProgress], None]


def extract_entries(
    entries: Iterable[PackageEntry],
    root: Path,
    validator: PackageValidator,
    label: str,
    progress: ProgressCallback | None = None,
) -> PackageTree:
    """Write every entry below `root`, which must not exist yet, and return the resulting tree.

    `validator` is the source's own validator: problems that the source notes while it is read are raised together with
    those found here. After the first problem nothing more is written, but the rest is still checked.

    Raises:
        Invalid: the package is unsafe or too big.
        HostError: the disk refuses (full, read-only, …).
    """
    base = os.fspath(root)
    files: list[TreeFile] = []
    created = {""}
    total = 0
    _make_directory(base)
    for entry in entries:
        if validator.has_max_problems:
            break
        if is_excluded(entry.path) or not validator.add_file(entry.path, 0) or validator.problems:
            continue
        _make_parents(base, entry.path, created)
        written = _write(base, entry, validator.limits, total)
        total += written.size
        if entry.path != SIGNATURE_FILE:
            files.append(written)
        if progress is not None:
            progress(InstallProgress("copying", len(files), total))
    if not files:
        validator.add_problem("", "holds no files", "package.empty")
    validator.raise_problems(label)
    return PackageTree(tuple(files))


def _write(base: str, entry: PackageEntry, limits: PackageLimits, bytes_before: int) -> TreeFile:
    max_bytes = limits.total_bytes - bytes_before
    if entry.path == SIGNATURE_FILE:
        max_bytes = min(max_bytes, limits.signature_bytes)
    mode = 0o755 if entry.executable else 0o644
    digest = hashlib.sha256()
    size = 0
    fd = _create(f"{base}/{entry.path}", mode)
    try:
        for chunk in entry.chunks():
            size += len(chunk)
            if size > max_bytes:
                raise _size_limit_error(entry.path, max_bytes, limits)
            digest.update(chunk)
            _write_all(fd, chunk)
    finally:
        os.close(fd)
    return TreeFile(entry.path, entry.executable, size, digest.hexdigest())


def _size_limit_error(path: str, max_bytes: int, limits: PackageLimits) -> Invalid:
    if path == SIGNATURE_FILE and max_bytes == limits.signature_bytes:
        problem = Problem(path, "is too big for a signature", code="package.too_big")
    else:
        problem = Problem("", f"holds more than {format_bytes(limits.total_bytes)}", code="package.too_big")
    return Invalid("the package is too big", [problem], code="package.unsafe")


def _create(path: str, mode: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, mode)
        os.fchmod(fd, mode)  # the umask must not decide what the digest covers
    except OSError as error:
        raise _disk_error(path, error) from error
    return fd


def _write_all(fd: int, chunk: bytes) -> None:
    try:
        written = os.write(fd, chunk)
        while written < len(chunk):
            written += os.write(fd, memoryview(chunk)[written:])
    except OSError as error:
        raise _disk_error("a file of the package", error) from error


def _make_parents(base: str, path: str, created: set[str]) -> None:
    parent = path[: max(path.rfind("/"), 0)]
    if parent in created:
        return
    _make_parents(base, parent, created)
    _make_directory(f"{base}/{parent}")
    created.add(parent)


def _make_directory(path: str) -> None:
    try:
        os.mkdir(path, 0o755)  # noqa: PTH102 — the hot loop works with plain strings
        os.chmod(path, 0o755)  # noqa: PTH101, S103 — caged plugins read it as another user
    except OSError as error:
        raise _disk_error(path, error) from error


def _disk_error(path: str, error: OSError) -> HostError:
    return HostError(
        f"cannot write {printable(path)}: {error.strerror}",
        code="staging.disk",
        hint="check free space and permissions",
        action=Action.of("host.check"),
    )
