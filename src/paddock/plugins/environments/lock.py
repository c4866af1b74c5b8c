"""What a lock is: the packages of one environment, each with its exact version, and the text that pins their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from paddock.core.errors import Invalid, Problem

LONGEST = 8 * 1024 * 1024  # characters; a thousand npm packages take less than one million
MOST_PACKAGES = 5_000
_DOMAIN = "paddock-lock-v1"


class Ecosystem(StrEnum):
    """Whose packages they are, and so which program installs them."""

    PYTHON = "python"
    NPM = "npm"

    @property
    def lock_file(self) -> str:
        """What the lock is called in a plugin's package."""
        return "requirements.lock" if self is Ecosystem.PYTHON else "package-lock.json"


@dataclass(frozen=True, slots=True)
class Pinned:
    """One package at one version."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Lock:
    """A checked lock. The first package is the one that was asked for."""

    ecosystem: Ecosystem
    text: str
    packages: tuple[Pinned, ...]
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        whole = "\n".join((_DOMAIN, self.ecosystem, self.text))
        object.__setattr__(self, "digest", "sha256:" + hashlib.sha256(whole.encode()).hexdigest())

    @property
    def dependencies(self) -> int:
        """How many packages come along with the first."""
        return max(len(self.packages) - 1, 0)


def changes(before: Lock, after: Lock) -> Iterator[str]:
    """What an upgrade does to the packages, a line each."""
    old, new = _versions(before.packages), _versions(after.packages)
    for name in sorted(old.keys() | new.keys()):
        was, becomes = ", ".join(old.get(name, ())), ", ".join(new.get(name, ()))
        if not was:
            yield f"+ {name} {becomes}"
        elif not becomes:
            yield f"- {name} {was}"
        elif was != becomes:
            yield f"{name} {was} → {becomes}"


def _versions(packages: Sequence[Pinned]) -> dict[str, tuple[str, ...]]:
    """The versions of each package; npm may install several of one."""
    found: dict[str, set[str]] = {}
    for package in packages:
        found.setdefault(package.name, set()).add(package.version)
    return {name: tuple(sorted(versions)) for name, versions in found.items()}


def refused_lock(ecosystem: Ecosystem, problems: Sequence[Problem]) -> Invalid:
    """The error for a lock that does not pin everything."""
    what = f"{ecosystem.lock_file} does not pin what would be installed"
    return Invalid(what, problems[:50], code="environment.bad_lock")
