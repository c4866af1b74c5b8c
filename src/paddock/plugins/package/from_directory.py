"""A directory on this machine as a source of package files.

Every step down is an `openat` that follows no link, so a directory swapped for a link while we walk cannot lead us
elsewhere. Links, sockets, pipes and devices are mistakes, not skipped: a plugin that needs them would not work.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from paddock.core.errors import OperatorError
from paddock.plugins.package.extract import PackageEntry
from paddock.plugins.package.rules import (
    DEFAULT_LIMITS,
    SIGNATURE_FILE,
    PackageLimits,
    PackageValidator,
    format_bytes,
    is_excluded,
)
from paddock.plugins.package.tree import PackageTree, TreeFile

_CHUNK_BYTES = 1024 * 1024
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking: a pipe put in the place of a file must not hold us up before fstat unmasks it.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def directory_entries(root: Path, listing: PackageValidator) -> Iterator[PackageEntry]:
    """The files below `root`, each to be read before the next is asked for; mistakes go to `listing`.

    Raises:
        OperatorError: `root` itself cannot be opened.
    """
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise OperatorError(f"cannot open {root}: {error.strerror}", code="source.unreadable") from error
    yield from _walk(descriptor, "", listing)


def directory_tree(root: Path, limits: PackageLimits = DEFAULT_LIMITS) -> PackageTree:
    """The tree that staging this directory would give, without writing anything; what an author signs.

    Raises:
        Invalid: it could not be staged.
    """
    listing = PackageValidator(limits)
    files: list[TreeFile] = []
    total = 0
    for entry in directory_entries(root, listing):
        if listing.has_max_problems or total > limits.total_bytes:
            break
        if not listing.add_file(entry.path, 0) or entry.path == SIGNATURE_FILE:
            continue
        digest, size = hashlib.sha256(), 0
        for chunk in entry.chunks():
            digest.update(chunk)
            size += len(chunk)
            if total + size > limits.total_bytes:
                listing.add_problem("", f"holds more than {format_bytes(limits.total_bytes)}", "package.too_big")
                break
        total += size
        files.append(TreeFile(entry.path, entry.executable, size, digest.hexdigest()))
    if not files:
        listing.add_problem("", "holds no files", "package.empty")
    listing.raise_problems(str(root))
    return PackageTree(tuple(files))


def _walk(directory: int, prefix: str, listing: PackageValidator) -> Iterator[PackageEntry]:
    """Takes over `directory` and closes it. Recursion and open descriptors are bounded by the depth limit."""
    try:
        with os.scandir(directory) as found:
            entries = _list_directory(found, listing)
        for name, is_directory, is_file in entries:
            if listing.has_max_problems:
                return
            path = prefix + name
            if is_directory:
                child = _open(name, _DIRECTORY_FLAGS, directory, path, listing) if listing.add_directory(path) else None
                if child is not None:
                    yield from _walk(child, path + "/", listing)
            elif is_file:
                descriptor = _open(name, _FILE_FLAGS, directory, path, listing)
                if descriptor is not None:
                    yield from _open_entry(descriptor, path, listing)
            else:
                listing.add_problem(
                    path, "is a link or a special file", "package.not_a_file", "packages hold plain files"
                )
    finally:
        os.close(directory)


def _list_directory(found: Iterator[os.DirEntry[str]], listing: PackageValidator) -> list[tuple[str, bool, bool]]:
    most = listing.limits.files + listing.limits.directories
    entries: list[tuple[str, bool, bool]] = []
    for entry in found:
        if is_excluded(entry.name):
            continue
        entries.append((entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False)))
        if len(entries) > most:
            break  # already too many, which the listing will say
    entries.sort()
    return entries


def _open_entry(descriptor: int, path: str, listing: PackageValidator) -> Iterator[PackageEntry]:
    """The open file as an entry, closed when the next one is asked for."""
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            yield PackageEntry(path, bool(found.st_mode & 0o111), lambda: _read_chunks(descriptor))
        else:
            listing.add_problem(path, "is a link or a special file", "package.not_a_file")
    finally:
        os.close(descriptor)


def _open(name: str, flags: int, directory: int, path: str, listing: PackageValidator) -> int | None:
    try:
        return os.open(name, flags, dir_fd=directory)
    except OSError as error:
        listing.add_problem(path, f"cannot be read: {error.strerror}", "package.unreadable")
        return None


def _read_chunks(descriptor: int) -> Iterator[bytes]:
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        yield chunk
