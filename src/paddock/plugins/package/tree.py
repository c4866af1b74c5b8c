"""A package as a tree: a sorted list of files, and the one digest that stands for all of them.

The digest covers path, executable bit, size and content of every regular file, and nothing else: no times, no owners,
no empty directories. The detached signature `paddock.sig` at the root is left out, because it signs the digest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from paddock.core.errors import HostError
from paddock.plugins.package.rules import SIGNATURE_FILE, PackageValidator

_DIGEST_DOMAIN = b"paddock-tree-v1\n"
_CHUNK_BYTES = 1024 * 1024


class TreeFile(Struct, frozen=True):
    """One file of a package: its path, whether it is executable, and its content (size and hex SHA-256)."""

    path: str
    executable: bool
    size: int
    sha256: str

    def digest_line(self) -> bytes:
        """Return the file's line in the digest input. The length before the path makes it unambiguous for any path."""
        path = self.path.encode()
        kind = "x" if self.executable else "-"
        return f"{kind} {self.size} {self.sha256} {len(path)}:".encode() + path + b"\n"


@dataclasses.dataclass(frozen=True, slots=True)
class PackageTree:
    """The files of a package, sorted by path, with the digest of the whole."""

    files: tuple[TreeFile, ...]
    digest: str = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        # Code point order is the order of the UTF-8 bytes.
        ordered = tuple(sorted(self.files, key=lambda file: file.path))
        validator = b"".join([_DIGEST_DOMAIN, *(file.digest_line() for file in ordered)])
        object.__setattr__(self, "files", ordered)
        object.__setattr__(self, "digest", "sha256:" + hashlib.sha256(validator).hexdigest())

    @property
    def size(self) -> int:
        """The total bytes of all files."""
        return sum(file.size for file in self.files)

    def to_value(self) -> list[list[Any]]:
        """Return a compact form for JSON: one `[path, executable, size, sha256]` per file."""
        return [[file.path, file.executable, file.size, file.sha256] for file in self.files]

    @classmethod
    def from_value(cls, value: object) -> PackageTree:
        """Parse the form that `to_value` returned.

        Raises:
            HostError: it is malformed; the stored data is damaged.
        """
        if not isinstance(value, list):
            raise HostError("the stored file list of a plugin is not a list", code="store.damaged")
        return cls(tuple(_file_from_row(row) for row in cast("list[object]", value)))


def _file_from_row(row: object) -> TreeFile:
    if isinstance(row, list):
        match cast("list[object]", row):
            case [str() as path, bool() as executable, int() as size, str() as sha256]:
                return TreeFile(path, executable, size, sha256)
            case _:
                pass
    raise HostError("the stored file list of a plugin is damaged", code="store.damaged")


class TreeDiff(Struct, frozen=True):
    """Which files of a tree differ."""

    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.missing or self.added)


class TreeVerification(Struct, frozen=True):
    """Whether a tree on disk still has the expected digest.

    `by_fingerprint` says that only stats were compared. `actual` is the tree found, if the files were read and were all
    regular; `difference` names files only if the expected list was given.
    """

    intact: bool
    by_fingerprint: bool
    actual: PackageTree | None = None
    difference: TreeDiff = TreeDiff()


def diff_trees(expected: PackageTree, actual: PackageTree) -> TreeDiff:
    """Compare the actual files with the expected ones."""
    expected_files = {file.path: file for file in expected.files}
    actual_files = {file.path: file for file in actual.files}
    return TreeDiff(
        changed=tuple(
            path for path, file in expected_files.items() if path in actual_files and actual_files[path] != file
        ),
        missing=tuple(path for path in expected_files if path not in actual_files),
        added=tuple(path for path in actual_files if path not in expected_files),
    )


def scan_tree(root: Path) -> PackageTree:
    """Read every file below `root` and return its tree.

    Raises:
        Invalid: something below is neither a regular file nor a directory, or has a name that is not UTF-8.
        OSError: it cannot be read.
    """
    validator = PackageValidator()
    tree = _scan(root, validator)
    validator.raise_problems(str(root))
    return tree


def fingerprint(root: Path) -> str:
    """Return a cheap substitute for the digest, made of stats alone; it changes if a file is written, replaced or
    touched.

    It is valid on this disk only, and survives a rename of the root. A file rewritten to the same size within one tick
    of the file system's clock (about 4 ms) of its last change looks untouched, so it serves listings; before a plugin's
    code runs, read the files.
    """
    lines: list[str] = []
    pending = [(os.fspath(root), "")]
    while pending:
        directory, prefix = pending.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                info = entry.stat(follow_symlinks=False)
                path = prefix + entry.name
                if stat.S_ISDIR(info.st_mode):
                    pending.append((entry.path, path + "/"))
                lines.append(
                    f"{path}\0{info.st_mode} {info.st_size} {info.st_mtime_ns} {info.st_ctime_ns} {info.st_ino}\n"
                )
    lines.sort()
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def verify_tree(
    root: Path, digest: str, known_fingerprint: str | None = None, expected: PackageTree | None = None
) -> TreeVerification:
    """Whether `root` still holds the tree with `digest`; decided by stats if the fingerprint is the known one.

    Never raises for what it finds: a tree that is gone or unreadable is not intact.
    """
    try:
        if known_fingerprint and fingerprint(root) == known_fingerprint:
            return TreeVerification(intact=True, by_fingerprint=True)
    except OSError:
        pass  # reading the files, below, gives details
    validator = PackageValidator()
    try:
        actual = _scan(root, validator)
    except OSError:
        actual = PackageTree(())
        validator.add_problem("", "cannot be read", "package.unreadable")
    difference = diff_trees(expected, actual) if expected is not None else TreeDiff()
    if validator.problems:
        unexpected = tuple(problem.path for problem in validator.problems if problem.path not in difference.missing)
        changed = tuple(problem.path for problem in validator.problems if problem.path in difference.missing)
        difference = TreeDiff(
            changed=difference.changed + changed,
            missing=tuple(path for path in difference.missing if path not in changed),
            added=difference.added + tuple(path for path in unexpected if path),
        )
        return TreeVerification(intact=False, by_fingerprint=False, difference=difference)
    return TreeVerification(intact=actual.digest == digest, by_fingerprint=False, actual=actual, difference=difference)


def _scan(root: Path, validator: PackageValidator) -> PackageTree:
    files: list[TreeFile] = []
    for path, full in _regular_files(os.fspath(root), validator):
        fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            file_stat = os.fstat(fd)
            if not stat.S_ISREG(file_stat.st_mode):
                validator.add_problem(path, "is not a regular file", "package.not_a_file")
                continue
            size, sha256 = _hash_descriptor(fd)
        finally:
            os.close(fd)
        files.append(TreeFile(path, bool(file_stat.st_mode & 0o111), size, sha256))
    return PackageTree(tuple(files))


def _hash_descriptor(fd: int) -> tuple[int, str]:
    """Return the number of bytes in an open file, and their hex SHA-256."""
    digest = hashlib.sha256()
    size = 0
    while chunk := os.read(fd, _CHUNK_BYTES):
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


def _regular_files(root: str, validator: PackageValidator) -> Iterator[tuple[str, str]]:
    """Yield every regular file below `root` as (path in the package, path on disk); all else is added as a problem."""
    pending = [(root, "")]
    while pending:
        directory, prefix = pending.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                path = prefix + entry.name
                if not entry.name.isascii() and not _is_utf8(entry.name):
                    validator.add_problem(path, "has a name that is not UTF-8", "package.unsafe_path")
                elif entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, path + "/"))
                elif not entry.is_file(follow_symlinks=False):
                    validator.add_problem(path, "is neither a regular file nor a directory", "package.not_a_file")
                elif path != SIGNATURE_FILE:
                    yield path, entry.path


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
