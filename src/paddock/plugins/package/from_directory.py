"""Reads package files from a directory on this machine.

Every step down is an `openat` that follows no link, so a directory swapped for a link during the walk cannot lead
elsewhere. Links, sockets, pipes and devices are problems, not skipped: a plugin that needs them would not work.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

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
_NPM_NOTES = "node_modules/.package-lock.json"
_MAX_NOTES_BYTES = 16 * 1024 * 1024
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking: a pipe in place of a file must not block us before fstat reveals it.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def directory_entries(root: Path, validator: PackageValidator) -> Iterator[PackageEntry]:
    """Yield the files below `root`, each to be read before the next is requested; problems go to `validator`.

    Raises:
        OperatorError: `root` itself cannot be opened.
    """
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise OperatorError(f"cannot open {root}: {error.strerror}", code="source.unreadable") from error
    yield from _walk(fd, "", validator, development_packages(root))


def development_packages(root: Path) -> frozenset[str]:
    """Return the folders of npm packages that are only needed to build the plugin, such as a compiler.

    npm notes them when it installs them. They are no part of the package: the installed plugin runs without them.
    """
    try:
        fd = os.open(root / _NPM_NOTES, _FILE_FLAGS)
    except OSError:
        return frozenset()
    try:
        with os.fdopen(fd, "rb") as file:
            notes: Any = json.loads(file.read(_MAX_NOTES_BYTES))
    except (OSError, ValueError, RecursionError):
        return frozenset()
    packages: Any = cast("dict[str, Any]", notes).get("packages") if isinstance(notes, dict) else None
    if not isinstance(packages, dict):
        return frozenset()
    entries = cast("dict[str, Any]", packages).items()
    return frozenset(
        path for path, entry in entries if isinstance(entry, dict) and cast("dict[str, Any]", entry).get("dev") is True
    )


def directory_tree(root: Path, limits: PackageLimits = DEFAULT_LIMITS) -> PackageTree:
    """Return the tree that staging this directory would give, without writing anything; an author signs it.

    Raises:
        Invalid: it could not be staged.
    """
    validator = PackageValidator(limits)
    files: list[TreeFile] = []
    total = 0
    for entry in directory_entries(root, validator):
        if validator.has_max_problems or total > limits.total_bytes:
            break
        if not validator.add_file(entry.path, 0) or entry.path == SIGNATURE_FILE:
            continue
        digest, size = hashlib.sha256(), 0
        for chunk in entry.chunks():
            digest.update(chunk)
            size += len(chunk)
            if total + size > limits.total_bytes:
                validator.add_problem("", f"holds more than {format_bytes(limits.total_bytes)}", "package.too_big")
                break
        total += size
        files.append(TreeFile(entry.path, entry.executable, size, digest.hexdigest()))
    if not files:
        validator.add_problem("", "holds no files", "package.empty")
    validator.raise_problems(str(root))
    return PackageTree(tuple(files))


def _walk(directory: int, prefix: str, validator: PackageValidator, left_out: frozenset[str]) -> Iterator[PackageEntry]:
    """Walk `directory`, a descriptor that this closes. The depth limit bounds recursion and open descriptors."""
    try:
        with os.scandir(directory) as scan:
            entries = _list_directory(scan, prefix, validator, left_out)
        for name, is_directory, is_file in entries:
            if validator.has_max_problems:
                return
            path = prefix + name
            if is_directory:
                child = (
                    _open(name, _DIRECTORY_FLAGS, directory, path, validator) if validator.add_directory(path) else None
                )
                if child is not None:
                    yield from _walk(child, path + "/", validator, left_out)
            elif is_file:
                fd = _open(name, _FILE_FLAGS, directory, path, validator)
                if fd is not None:
                    yield from _open_entry(fd, path, validator)
            else:
                validator.add_problem(
                    path, "is a link or a special file", "package.not_a_file", "packages hold plain files"
                )
    finally:
        os.close(directory)


def _list_directory(
    scan: Iterator[os.DirEntry[str]], prefix: str, validator: PackageValidator, left_out: frozenset[str]
) -> list[tuple[str, bool, bool]]:
    max_entries = validator.limits.files + validator.limits.directories
    entries: list[tuple[str, bool, bool]] = []
    for entry in scan:
        path = prefix + entry.name
        if is_excluded(path) or path in left_out:
            continue
        entries.append((entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False)))
        if len(entries) > max_entries:
            break  # already too many, which the validator will report
    entries.sort()
    return entries


def _open_entry(fd: int, path: str, validator: PackageValidator) -> Iterator[PackageEntry]:
    """Yield the open file as an entry, and close it when the next one is requested."""
    try:
        file_stat = os.fstat(fd)
        if stat.S_ISREG(file_stat.st_mode):
            yield PackageEntry(path, bool(file_stat.st_mode & 0o111), lambda: _read_chunks(fd))
        else:
            validator.add_problem(path, "is a link or a special file", "package.not_a_file")
    finally:
        os.close(fd)


def _open(name: str, flags: int, directory: int, path: str, validator: PackageValidator) -> int | None:
    try:
        return os.open(name, flags, dir_fd=directory)
    except OSError as error:
        validator.add_problem(path, f"cannot be read: {error.strerror}", "package.unreadable")
        return None


def _read_chunks(fd: int) -> Iterator[bytes]:
    while chunk := os.read(fd, _CHUNK_BYTES):
        yield chunk
