"""The one writer: whatever a package came from, its files reach the disk here and under the same limits.

A source gives `Entry` values; `write_entries` checks each name again, counts the bytes that really arrive, hashes them
on their way and creates plain files. Links, devices, owners, times and special mode bits have no way through.

Nothing is fsynced. A tree on disk is a copy of the package kept in the store: what a power cut damages is found by its
digest and written again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from paddock.core.errors import HostError, Invalid, Problem
from paddock.core.printable import printable
from paddock.plugins.package.rules import SIGNATURE_FILE, PackageLimits, PackageValidator, format_bytes, is_excluded
from paddock.plugins.package.tree import PackageTree, TreeFile


@dataclass(frozen=True, slots=True)
class PackageEntry:
    """A file on its way in. `chunks` reads it; called at most once, and before the next entry is asked for."""

    path: str
    executable: bool
    chunks: Callable[[], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class InstallProgress:
    """How far staging has come. A receiver that raises stops the work, and everything made so far is removed."""

    step: str
    files: int = 0
    size: int = 0


ProgressCallback = Callable[[InstallProgress], None]


def extract_entries(
    entries: Iterable[PackageEntry],
    root: Path,
    listing: PackageValidator,
    what: str,
    progress: ProgressCallback | None = None,
) -> PackageTree:
    """Write every entry below `root`, which must not be there yet, and give the tree they make.

    `listing` is the source's own: mistakes that the source notes while it is read are raised together with those
    found here. After the first mistake nothing more is written, but the rest is still looked at.

    Raises:
        Invalid: the package is unsafe or too big.
        HostError: the disk refuses (full, read-only, …).
    """
    base = os.fspath(root)
    files: list[TreeFile] = []
    made = {""}
    total = 0
    _make_directory(base)
    for entry in entries:
        if listing.has_max_problems:
            break
        if is_excluded(entry.path) or not listing.add_file(entry.path, 0) or listing.problems:
            continue
        _make_parents(base, entry.path, made)
        written = _write(base, entry, listing.limits, total)
        total += written.size
        if entry.path != SIGNATURE_FILE:
            files.append(written)
        if progress is not None:
            progress(InstallProgress("copying", len(files), total))
    if not files:
        listing.add_problem("", "holds no files", "package.empty")
    listing.raise_problems(what)
    return PackageTree(tuple(files))


def _write(base: str, entry: PackageEntry, limits: PackageLimits, before: int) -> TreeFile:
    allowed = limits.total_bytes - before
    if entry.path == SIGNATURE_FILE:
        allowed = min(allowed, limits.signature_bytes)
    mode = 0o755 if entry.executable else 0o644
    digest = hashlib.sha256()
    size = 0
    descriptor = _create(f"{base}/{entry.path}", mode)
    try:
        for chunk in entry.chunks():
            size += len(chunk)
            if size > allowed:
                raise _size_limit_error(entry.path, allowed, limits)
            digest.update(chunk)
            _write_all(descriptor, chunk)
    finally:
        os.close(descriptor)
    return TreeFile(entry.path, entry.executable, size, digest.hexdigest())


def _size_limit_error(path: str, allowed: int, limits: PackageLimits) -> Invalid:
    if path == SIGNATURE_FILE and allowed == limits.signature_bytes:
        problem = Problem(path, "is too big for a signature", code="package.too_big")
    else:
        problem = Problem("", f"holds more than {format_bytes(limits.total_bytes)}", code="package.too_big")
    return Invalid("the package is too big", [problem], code="package.unsafe")


def _create(path: str, mode: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, mode)
        os.fchmod(descriptor, mode)  # the umask must not decide what the digest covers
    except OSError as error:
        raise _disk_error(path, error) from error
    return descriptor


def _write_all(descriptor: int, chunk: bytes) -> None:
    try:
        written = os.write(descriptor, chunk)
        while written < len(chunk):
            written += os.write(descriptor, memoryview(chunk)[written:])
    except OSError as error:
        raise _disk_error("a file of the package", error) from error


def _make_parents(base: str, path: str, made: set[str]) -> None:
    parent = path[: max(path.rfind("/"), 0)]
    if parent in made:
        return
    _make_parents(base, parent, made)
    _make_directory(f"{base}/{parent}")
    made.add(parent)


def _make_directory(path: str) -> None:
    try:
        os.mkdir(path, 0o755)  # noqa: PTH102 — the hot loop works with plain strings
        os.chmod(path, 0o755)  # noqa: PTH101, S103 — caged plugins read it as another user
    except OSError as error:
        raise _disk_error(path, error) from error


def _disk_error(what: str, error: OSError) -> HostError:
    return HostError(
        f"cannot write {printable(what)}: {error.strerror}",
        code="staging.disk",
        hint="check free space and permissions (paddock doctor)",
    )
