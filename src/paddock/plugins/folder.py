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
from paddock.plugins.entries import Entry
from paddock.plugins.names import DEFAULT_LIMITS, SIGNATURE_FILE, Limits, Listing, left_out, show_bytes
from paddock.plugins.tree import Tree, TreeFile

_CHUNK = 1024 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking: a pipe put in the place of a file must not hold us up before fstat unmasks it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def folder_entries(root: Path, listing: Listing) -> Iterator[Entry]:
    """The files below `root`, each to be read before the next is asked for; mistakes go to `listing`.

    Raises:
        OperatorError: `root` itself cannot be opened.
    """
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise OperatorError(f"cannot open {root}: {error.strerror}", code="source.unreadable") from error
    yield from _walk(descriptor, "", listing)


def folder_tree(root: Path, limits: Limits = DEFAULT_LIMITS) -> Tree:
    """The tree that staging this directory would give, without writing anything; what an author signs.

    Raises:
        Invalid: it could not be staged.
    """
    listing = Listing(limits)
    files: list[TreeFile] = []
    total = 0
    for entry in folder_entries(root, listing):
        if listing.full or total > limits.total_bytes:
            break
        if not listing.file(entry.path, 0) or entry.path == SIGNATURE_FILE:
            continue
        digest, size = hashlib.sha256(), 0
        for chunk in entry.chunks():
            digest.update(chunk)
            size += len(chunk)
            if total + size > limits.total_bytes:
                listing.complain("", f"holds more than {show_bytes(limits.total_bytes)}", "package.too_big")
                break
        total += size
        files.append(TreeFile(entry.path, entry.executable, size, digest.hexdigest()))
    if not files:
        listing.complain("", "holds no files", "package.empty")
    listing.raise_problems(str(root))
    return Tree(tuple(files))


def _walk(directory: int, prefix: str, listing: Listing) -> Iterator[Entry]:
    """Takes over `directory` and closes it. Recursion and open descriptors are bounded by the depth limit."""
    try:
        with os.scandir(directory) as found:
            entries = _bounded(found, listing)
        for name, is_directory, is_file in entries:
            if listing.full:
                return
            path = prefix + name
            if is_directory:
                child = _open(name, _DIRECTORY, directory, path, listing) if listing.directory(path) else None
                if child is not None:
                    yield from _walk(child, path + "/", listing)
            elif is_file:
                descriptor = _open(name, _FILE, directory, path, listing)
                if descriptor is not None:
                    yield from _opened(descriptor, path, listing)
            else:
                listing.complain(path, "is a link or a special file", "package.not_a_file", "packages hold plain files")
    finally:
        os.close(directory)


def _bounded(found: Iterator[os.DirEntry[str]], listing: Listing) -> list[tuple[str, bool, bool]]:
    most = listing.limits.files + listing.limits.directories
    entries: list[tuple[str, bool, bool]] = []
    for entry in found:
        if left_out(entry.name):
            continue
        entries.append((entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False)))
        if len(entries) > most:
            break  # already too many, which the listing will say
    entries.sort()
    return entries


def _opened(descriptor: int, path: str, listing: Listing) -> Iterator[Entry]:
    """The open file as an entry, closed when the next one is asked for."""
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            yield Entry(path, bool(found.st_mode & 0o111), lambda: _read(descriptor))
        else:
            listing.complain(path, "is a link or a special file", "package.not_a_file")
    finally:
        os.close(descriptor)


def _open(name: str, flags: int, directory: int, path: str, listing: Listing) -> int | None:
    try:
        return os.open(name, flags, dir_fd=directory)
    except OSError as error:
        listing.complain(path, f"cannot be read: {error.strerror}", "package.unreadable")
        return None


def _read(descriptor: int) -> Iterator[bytes]:
    while chunk := os.read(descriptor, _CHUNK):
        yield chunk
