"""Which file names and how many files a package may hold; the same rules for every source.

`Listing` is told every file and directory of a package before anything trusts it. It keeps all mistakes, so that a
person sees them at once, and stops keeping them at `Limits.problems`, so that a hostile package cannot fill memory.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field

from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable

MEGABYTE = 1024 * 1024

SIGNATURE_FILE = "paddock.sig"
"""The detached signature at the root of a package; the one file that the tree digest does not cover."""

_EXCLUDED_NAMES = frozenset({".git", ".venv", ".env", "__pycache__", "__MACOSX", ".DS_Store"})


@dataclass(frozen=True, slots=True)
class PackageLimits:
    """How big a package may be. The ratio counts only archive members larger than `ratio_exempt` bytes: a short
    file of repeated text packs better than 100 to 1 and harms nobody."""

    files: int = 2_000
    directories: int = 2_000
    depth: int = 64
    total_bytes: int = 100 * MEGABYTE
    archive_bytes: int = 100 * MEGABYTE
    ratio: int = 100
    ratio_exempt: int = 64 * 1024
    segment_bytes: int = 255
    path_bytes: int = 1_024
    signature_bytes: int = 16 * 1024
    problems: int = 50


DEFAULT_LIMITS = PackageLimits()


def is_excluded(path: str) -> bool:
    """Whether packages never carry this file.

    Repositories, virtual environments, local secrets, byte code and what desktops drop in folders: not what the author
    wrote for others, and byte code could say something else than the source that people read. Leaving them out of
    every kind of source gives one plugin one digest, whichever way it came.
    """
    return path.endswith(".pyc") or not _EXCLUDED_NAMES.isdisjoint(path.split("/"))


def path_fault(path: str, limits: PackageLimits = DEFAULT_LIMITS) -> str | None:
    """What is wrong with a relative path, or None when it is safe to create below a directory of ours."""
    if not path:
        return "has an empty name"
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    if len(encoded) > limits.path_bytes:
        return f"is longer than {limits.path_bytes} bytes"
    if not path.isprintable() and any(unicodedata.category(character) == "Cc" for character in path):
        return "holds a control character"
    if "\\" in path:
        return "holds a backslash"
    if path.startswith("/"):
        return "is an absolute path"
    if path[1:2] == ":" and path[0].isascii() and path[0].isalpha():
        return "begins with a drive letter"
    segments = path.split("/")
    if len(segments) > limits.depth:
        return f"is nested deeper than {limits.depth} directories"
    for segment in segments:
        if segment == "..":
            return "climbs out of the package with '..'"
        if segment in ("", "."):
            return "has an empty or '.' segment"
        if len(encoded) > limits.segment_bytes and len(segment.encode()) > limits.segment_bytes:
            return f"has a segment longer than {limits.segment_bytes} bytes"
    return None


def _casefold_path(path: str) -> str:
    """What the name becomes on a disk that ignores case and normalises Unicode."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


@dataclass(slots=True)
class PackageValidator:
    """The names and sizes of one package as they become known, and every mistake among them."""

    limits: PackageLimits = DEFAULT_LIMITS
    problems: list[Problem] = field(default_factory=list[Problem])
    files: int = 0
    total: int = 0
    _paths_by_folded: dict[str, str] = field(default_factory=dict[str, str])
    _directories: set[str] = field(default_factory=set[str])

    @property
    def has_max_problems(self) -> bool:
        """Whether enough is known that looking for more mistakes helps nobody."""
        return len(self.problems) >= self.limits.problems or self.files > self.limits.files

    def add_problem(self, path: str, message: str, code: str, hint: str = "") -> None:
        """Note a mistake; beyond the limit it is dropped."""
        if len(self.problems) < self.limits.problems:
            self.problems.append(Problem(printable(path), message, hint=hint, code=code))

    def add_file(self, path: str, size: int) -> bool:
        """Note a file. False when its name cannot be used or it is one too many."""
        if not self._add_path(path):
            return False
        folded = _casefold_path(path)
        known = self._paths_by_folded.get(folded)
        if known is not None:
            message = "is there twice" if known == path else f"is the same name as {printable(known)} on some disks"
            self.add_problem(path, message, "package.collision", "rename one of them")
            return False
        if not self._add_parents(path):
            return False
        self._paths_by_folded[folded] = path
        self.files += 1
        self.total += size
        return self._count_file(path, size)

    def add_directory(self, path: str) -> bool:
        """Note a directory that stands in the package by itself."""
        return self._add_path(path) and self._add_parents(path + "/")

    def raise_problems(self, what: str) -> None:
        """
        Raises:
            Invalid: a mistake was noted; carries all of them.
        """
        if not self.problems:
            return
        count = f"{len(self.problems)} mistakes" if len(self.problems) > 1 else "1 mistake"
        many = " or more" if self.has_max_problems else ""
        raise Invalid(f"{what} is not a safe package: {count}{many}", self.problems, code="package.unsafe")

    def _add_path(self, path: str) -> bool:
        mistake = path_fault(path, self.limits)
        if mistake is not None:
            self.add_problem(path, mistake, "package.unsafe_path")
        return mistake is None

    def _count_file(self, path: str, size: int) -> bool:
        if self.files == self.limits.files + 1:
            self.add_problem("", f"holds more than {self.limits.files:,} files", "package.too_many_files")
        if self.total > self.limits.total_bytes >= self.total - size:
            self.add_problem("", f"holds more than {format_bytes(self.limits.total_bytes)}", "package.too_big")
        if path == SIGNATURE_FILE and size > self.limits.signature_bytes:
            self.add_problem(path, "is too big for a signature", "package.too_big")
            return False
        return self.files <= self.limits.files and self.total <= self.limits.total_bytes

    def _add_parents(self, path: str) -> bool:
        """Note every directory above `path`; False when one clashes with something else."""
        cut = path.rfind("/")
        if cut < 0 or path[:cut] in self._directories:
            return True
        at = path.find("/")
        while at >= 0:
            parent = path[:at]
            if parent not in self._directories:
                known = self._paths_by_folded.get(_casefold_path(parent))
                if known is not None:
                    what = "is both a file and a directory" if known == parent else f"clashes with {printable(known)}"
                    self.add_problem(parent, what, "package.collision", "rename one of them")
                    return False
                self._paths_by_folded[_casefold_path(parent)] = parent
                self._directories.add(parent)
                if len(self._directories) == self.limits.directories + 1:
                    self.add_problem(
                        "", f"holds more than {self.limits.directories:,} directories", "package.too_many_files"
                    )
            at = path.find("/", at + 1)
        return len(self._directories) <= self.limits.directories


def format_bytes(count: int) -> str:
    """A size for people: `100 MB`, `64 KB`, `12 bytes`."""
    if count >= MEGABYTE:
        return f"{count / MEGABYTE:.4g} MB"
    return f"{count / 1024:.4g} KB" if count >= 1024 else f"{count} bytes"
