"""Names and versions of packages in a registry: PyPI's by the rules of `packaging`, npm's by our own pattern. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

# `packaging` is imported where it is used: most commands need none of it, and it takes tens of milliseconds to load.
if TYPE_CHECKING:
    from packaging.requirements import Requirement

NPM_NAME_PATTERN = r"(?:@[a-z0-9~-][a-z0-9._~-]{0,100}/)?[A-Za-z0-9~][A-Za-z0-9._~-]{0,200}"
_NPM_NAME = re.compile(NPM_NAME_PATTERN)
_NPM_VERSION_PATTERN = r"[A-Za-z0-9^~<>=*][A-Za-z0-9^~<>=*|.+ -]{0,100}"
_NPM_PACKAGE = re.compile(rf"(?P<name>{NPM_NAME_PATTERN})(?:@(?P<version>{_NPM_VERSION_PATTERN}))?")
_MAX_REQUIREMENT_CHARS = 500
_MAX_NAME_CHARS = 128  # of a name, and of a version


class NpmPackage(NamedTuple):
    """An npm package and the versions of it that were asked for: one, a range, a tag, or any."""

    name: str
    version: str | None


def is_npm_name(text: str) -> bool:
    """Whether a text is the name of an npm package."""
    return _NPM_NAME.fullmatch(text) is not None


def parse_npm_package(text: str) -> NpmPackage | None:
    """Parse `NAME`, `@SCOPE/NAME`, `NAME@1.2.3`, `NAME@latest` or `NAME@^1.2`; None if it is something else."""
    match = _NPM_PACKAGE.fullmatch(text)
    return NpmPackage(match["name"], match["version"]) if match else None


def canonical_python_name(name: str) -> str:
    """Return the name of a Python package as indexes compare it."""
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def is_python_pin(name: str, version: str) -> bool:
    """Whether these are the name of a Python package and one version."""
    from packaging.utils import InvalidName, canonicalize_name
    from packaging.version import InvalidVersion, Version

    try:
        canonicalize_name(name, validate=True)
        Version(version)
    except (InvalidName, InvalidVersion):
        return False
    return (name + version).isascii() and max(len(name), len(version)) <= _MAX_NAME_CHARS


def parse_python_requirement(text: str) -> Requirement | None:
    """Parse the name of a Python package with its extras, versions and condition; None if it is something else.

    `NAME@1.2` means `NAME==1.2`, as uvx reads it. An address after the `@` would decide where uv looks and what it
    runs, so that is no requirement here.
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import InvalidVersion, Version

    if len(text) > _MAX_REQUIREMENT_CHARS or not (text.isascii() and text.isprintable()):
        return None
    name, at, version = text.partition("@")
    try:
        if at:
            Version(version)
        requirement = Requirement(f"{name}=={version.strip()}" if at else text)
    except (InvalidRequirement, InvalidVersion):
        return None
    return requirement if requirement.url is None and len(requirement.name) <= _MAX_NAME_CHARS else None
