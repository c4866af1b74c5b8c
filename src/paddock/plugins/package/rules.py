"""The rules for names, number and size of files in a package; the same for every source.

`PackageValidator` gets every file and directory of a package before anything trusts it. It collects all problems, so
that a person sees them at once, up to `PackageLimits.problems`, so that a hostile package cannot fill memory.
"""

from __future__ import annotations

import re
import unicodedata

from msgspec import Struct, field

from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable

MEGABYTE = 1024 * 1024

SIGNATURE_FILE = "paddock.sig"
"""The detached signature at the root of a package; the only file that the tree digest does not cover."""

# Links to programs, and what npm notes about an installation.
_NPM_LEFTOVERS = re.compile(r"(?:\A|/)node_modules/(?:\.bin|\.cache|\.package-lock\.json)(?:/|\Z)")
_EXCLUDED_NAMES = frozenset({".git", ".venv", ".env", "__pycache__", "__MACOSX", ".DS_Store"})


class PackageLimits(Struct, frozen=True):
    """Limits of a package. The ratio counts only archive members larger than `ratio_exempt` bytes: a short file of
    repeated text packs better than 100 to 1 and does no harm."""

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

    Repositories, virtual environments, local secrets, byte code, npm's links and notes, and files that desktops create:
    the author did not write them for others, and byte code could differ from the source that people read. Excluding
    them from every kind of source gives one plugin one digest, whichever way it came.
    """
    if path.endswith(".pyc") or not _EXCLUDED_NAMES.isdisjoint(path.split("/")):
        return True
    return _NPM_LEFTOVERS.search(path) is not None


def path_fault(path: str, limits: PackageLimits = DEFAULT_LIMITS) -> str | None:
    """Return what is wrong with a relative path, or None if it is safe to create below a directory of ours."""
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
    """Return the name as on a disk that ignores case and normalises Unicode."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


class PackageValidator(Struct):
    """Collects the names and sizes of one package, and every problem among them."""

    limits: PackageLimits = DEFAULT_LIMITS
    problems: list[Problem] = field(default_factory=list[Problem])
    files: int = 0
    total: int = 0
    _paths_by_folded: dict[str, str] = field(default_factory=dict[str, str])
    _directories: set[str] = field(default_factory=set[str])

    @property
    def has_max_problems(self) -> bool:
        """Whether enough is known that looking for more problems helps no one."""
        return len(self.problems) >= self.limits.problems or self.files > self.limits.files

    def add_problem(self, path: str, message: str, code: str, hint: str = "") -> None:
        """Add a problem; beyond the limit it is dropped."""
        if len(self.problems) < self.limits.problems:
            self.problems.append(Problem(printable(path), message, hint=hint, code=code))

    def add_file(self, path: str, size: int) -> bool:
        """Add a file. Returns False if its name cannot be used or it exceeds a limit."""
        if not self._add_path(path):
            return False
        folded = _casefold_path(path)
        existing = self._paths_by_folded.get(folded)
        if existing is not None:
            message = (
                "is there twice" if existing == path else f"is the same name as {printable(existing)} on some disks"
            )
            self.add_problem(path, message, "package.collision", "rename one of them")
            return False
        if not self._add_parents(path):
            return False
        self._paths_by_folded[folded] = path
        self.files += 1
        self.total += size
        return self._count_file(path, size)

    def add_directory(self, path: str) -> bool:
        """Add a directory that stands in the package by itself."""
        return self._add_path(path) and self._add_parents(path + "/")

    def raise_problems(self, label: str) -> None:
        """Raise if there are problems.

        Raises:
            Invalid: carries all of them.
        """
        if not self.problems:
            return
        count = f"{len(self.problems)} mistakes" if len(self.problems) > 1 else "1 mistake"
        more_text = " or more" if self.has_max_problems else ""
        raise Invalid(f"{label} is not a safe package: {count}{more_text}", self.problems, code="package.unsafe")

    def _add_path(self, path: str) -> bool:
        fault = path_fault(path, self.limits)
        if fault is not None:
            self.add_problem(path, fault, "package.unsafe_path")
        return fault is None

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
        """Add every directory above `path`; returns False if one clashes with something else."""
        last_slash = path.rfind("/")
        if last_slash < 0 or path[:last_slash] in self._directories:
            return True
        slash = path.find("/")
        while slash >= 0:
            parent = path[:slash]
            if parent not in self._directories:
                existing = self._paths_by_folded.get(_casefold_path(parent))
                if existing is not None:
                    message = (
                        "is both a file and a directory"
                        if existing == parent
                        else f"clashes with {printable(existing)}"
                    )
                    self.add_problem(parent, message, "package.collision", "rename one of them")
                    return False
                self._paths_by_folded[_casefold_path(parent)] = parent
                self._directories.add(parent)
                if len(self._directories) == self.limits.directories + 1:
                    self.add_problem(
                        "", f"holds more than {self.limits.directories:,} directories", "package.too_many_files"
                    )
            slash = path.find("/", slash + 1)
        return len(self._directories) <= self.limits.directories


def format_bytes(count: int) -> str:
    """Format a size for people: `100 MB`, `64 KB`, `12 bytes`."""
    if count >= MEGABYTE:
        return f"{count / MEGABYTE:.4g} MB"
    return f"{count / 1024:.4g} KB" if count >= 1024 else f"{count} bytes"
