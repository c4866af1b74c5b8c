"""Locks: the packages of one environment with their exact versions, and the text that pins their hashes."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable
from paddock.manifest.registry_package import canonical_python_name, is_python_pin

MAX_LOCK_BYTES = 8 * 1024 * 1024  # counted in characters; a thousand npm packages take less than one million
MAX_LOCKED_PACKAGES = 5_000
_DIGEST_DOMAIN = "paddock-lock-v1"


class Ecosystem(StrEnum):
    """The package ecosystem, which decides which client installs the packages."""

    PYTHON = "python"
    NPM = "npm"

    @property
    def lock_file(self) -> str:
        """The name of the lock file in a plugin's package."""
        return "requirements.lock" if self is Ecosystem.PYTHON else "package-lock.json"


class PinnedPackage(Struct, frozen=True):
    """One package at one version."""

    name: str
    version: str


class PinnedFile(Struct, frozen=True):
    """The file of one Python package, by its hash, and by its address if that is known. A lock that somebody else wrote
    may allow several files."""

    package: PinnedPackage
    sha256s: tuple[str, ...]
    url: str = ""

    @property
    def requirement(self) -> str:
        """The line that pins it."""
        hashes = "".join(f" --hash=sha256:{sha256}" for sha256 in self.sha256s)
        return f"{self.package.name}=={self.package.version}{hashes}"


@dataclasses.dataclass(frozen=True, slots=True)
class Lock:
    """A validated lock. The first package is the requested one.

    Attributes:
        ecosystem: Whose packages they are.
        text: The text that pins them.
        packages: The packages.
        urls: Where the resolver has just found the files of Python packages, by package; a shortcut and no part of the
            lock.
        digest: The hash of the text.
    """

    ecosystem: Ecosystem
    text: str
    packages: tuple[PinnedPackage, ...]
    urls: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str], compare=False)
    digest: str = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        digest_input = "\n".join((_DIGEST_DOMAIN, self.ecosystem, self.text))
        object.__setattr__(self, "digest", "sha256:" + hashlib.sha256(digest_input.encode()).hexdigest())

    @property
    def dependencies(self) -> int:
        """The number of packages besides the first."""
        return max(len(self.packages) - 1, 0)


def describe_lock_changes(before: Lock, after: Lock) -> Iterator[str]:
    """Yield what an upgrade changes in the packages, one line each."""
    old, new = _versions_by_package(before), _versions_by_package(after)
    for name in sorted(old.keys() | new.keys()):
        old_versions, new_versions = ", ".join(old.get(name, ())), ", ".join(new.get(name, ()))
        if not old_versions:
            yield f"+ {name} {new_versions}"
        elif not new_versions:
            yield f"- {name} {old_versions}"
        elif old_versions != new_versions:
            yield f"{name} {old_versions} → {new_versions}"


def _versions_by_package(lock: Lock) -> dict[str, tuple[str, ...]]:
    """Return the versions of each package; npm may install several of one."""
    versions_by_name: dict[str, set[str]] = {}
    for package in lock.packages:
        # Locks of other tools spell the names of Python packages as their authors do.
        name = canonical_python_name(package.name) if lock.ecosystem is Ecosystem.PYTHON else package.name
        versions_by_name.setdefault(name, set()).add(package.version)
    return {name: tuple(sorted(versions)) for name, versions in versions_by_name.items()}


def invalid_lock_error(ecosystem: Ecosystem, problems: Sequence[Problem]) -> Invalid:
    """Build the error for a lock that does not pin everything."""
    message = f"{ecosystem.lock_file} does not pin what would be installed"
    return Invalid(message, problems[:50], code="environment.bad_lock")


_LOCK_LINE = re.compile(r"(?P<name>[^=\s]+)==(?P<version>\S+)(?P<hashes>(?: --hash=sha256:[0-9a-f]{64}){1,200})")


def write_python_lock(files: Sequence[PinnedFile]) -> Lock:
    """Build the lock for files, in the given order.

    Raises:
        Invalid: a name, version or hash is malformed.
    """
    lock = read_python_lock("".join(f"{file.requirement}\n" for file in files))
    return dataclasses.replace(lock, urls={file.package.name: file.url for file in files})


_PLAIN_URL = re.compile(r"(?:https|http|file)://[!-~]{1,2000}")


def pinned_files(lock: Lock) -> list[PinnedFile]:
    """Return the files that a Python lock pins, with the address of each where that is known."""
    files: list[PinnedFile] = []
    for pinned, line in zip(lock.packages, _lock_lines(lock.text), strict=True):
        url = lock.urls.get(pinned.name, "")
        hashes = tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))
        files.append(PinnedFile(pinned, hashes, url if _PLAIN_URL.fullmatch(url) and len(hashes) == 1 else ""))
    return files


def _lock_lines(text: str) -> list[str]:
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def read_python_lock(text: str) -> Lock:
    """Parse and validate a Python lock.

    Raises:
        Invalid: a line is not a pinned package; carries every such line.
    """
    problems: list[Problem] = []
    pins: list[PinnedPackage] = []
    if len(text) > MAX_LOCK_BYTES:
        raise invalid_lock_error(Ecosystem.PYTHON, [Problem("", "is too long", code="too_long")])
    for number, raw in enumerate(text.splitlines(), 1):
        line = " ".join(raw.split())
        if not line or line.startswith("#"):
            continue
        match = _LOCK_LINE.fullmatch(line)
        if match is None or not is_python_pin(match["name"], match["version"]):
            message = f"{printable(line, 80)} is not a package with its hash"
            problems.append(Problem(f"line {number}", message, "write name==version --hash=sha256:…", "not_pinned"))
        else:
            pins.append(PinnedPackage(match["name"], match["version"]))
    names = [canonical_python_name(pinned.name) for pinned in pins]
    problems += [
        Problem(name, "is there twice", "keep one of them", "twice")
        for name in sorted(set(names))
        if names.count(name) > 1
    ]
    if not pins and not problems:
        problems.append(Problem("", "names no package", code="empty"))
    if len(pins) > MAX_LOCKED_PACKAGES:
        problems.append(Problem("", f"names more than {MAX_LOCKED_PACKAGES:,} packages", code="too_many"))
    if problems:
        raise invalid_lock_error(Ecosystem.PYTHON, problems)
    return Lock(Ecosystem.PYTHON, text, tuple(pins))
