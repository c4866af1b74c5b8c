"""`package-lock.json`: every npm package with its version and the hash of its archive.

It names no registry: each machine uses its own. Entries that cannot be pinned that way (a repository, a link, an
archive at some URL) are rejected. npm never sees the original file, in which it might act on other fields:
`npm.build_package_lock` writes the one it gets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.manifest.registry_package import is_npm_name
from paddock.plugins.environments.lock import (
    MAX_LOCK_BYTES,
    MAX_LOCKED_PACKAGES,
    Ecosystem,
    Lock,
    PinnedPackage,
    invalid_lock_error,
)
from paddock.plugins.package.rules import path_fault

# These hashes are collision resistant; SHA-1 no longer is.
_INTEGRITY = re.compile(r"sha(?:256|384|512)-[A-Za-z0-9+/]{40,100}={0,2}")
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,128}")
_NODE_MODULES = "node_modules/"


def pin_npm_lock(text: str, name: str) -> Lock:
    """Parse the lock that npm wrote for one package, with the resolved version in place of the requested one.

    Raises:
        Invalid: it leaves something unpinned.
    """
    document = _parse_document(text)
    entry = _package_entries(document).get(_NODE_MODULES + name)
    version = cast("dict[str, Any]", entry).get("version") if isinstance(entry, dict) else None
    _package_entries(document)[""]["dependencies"] = {name: version}
    return read_npm_lock(json.dumps(document, indent=1, ensure_ascii=True) + "\n")


def read_npm_lock(text: str) -> Lock:
    """Parse and validate an npm lock.

    Raises:
        Invalid: something in it is not pinned; carries everything that is not.
    """
    document = _parse_document(text)
    entries = _package_entries(document)
    requested = _requested_entries(entries)
    problems: list[Problem] = []
    pins: dict[str, PinnedPackage] = {}
    for path, entry in entries.items():
        if path:
            fault = _entry_fault(path, entries)
            if fault:
                problems.append(Problem(printable(path), *fault))
            else:
                # An aliased package counts under its real name.
                pins[path] = PinnedPackage(entry.get("name", _package_name(path)), entry["version"])
    for name, version in requested.items():
        entry = entries.get(_NODE_MODULES + name)
        requested_entry: dict[str, Any] = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        if requested_entry.get("version") != version:
            problems.append(Problem(printable(name), "is asked for and not pinned", "", "not_pinned"))
        elif requested_entry.get("name", name) != name:
            actual_name = printable(str(requested_entry["name"]))
            message = f"is asked for, and another package would lie there: {actual_name}"
            problems.append(Problem(printable(name), message, f"ask for {actual_name} if you want it", "other_name"))
    if not requested:
        problems.append(Problem("", "names no package", code="empty"))
    if len(pins) > MAX_LOCKED_PACKAGES:
        problems.append(Problem("", f"names more than {MAX_LOCKED_PACKAGES:,} packages", code="too_many"))
    if problems:
        raise invalid_lock_error(Ecosystem.NPM, problems)
    requested_paths = {_NODE_MODULES + name for name in requested}
    paths = sorted(pins, key=lambda path: path not in requested_paths)  # stable sort: the requested packages come first
    return Lock(Ecosystem.NPM, text, tuple(pins[path] for path in paths))


def requested_packages(lock: Lock) -> dict[str, str]:
    """Return the requested packages with their versions; all others are dependencies."""
    return _requested_entries(_package_entries(_parse_document(lock.text)))


def pinned_entries(lock: Lock) -> dict[str, dict[str, Any]]:
    """Return the entries of a validated lock by install path."""
    return {path: entry for path, entry in _package_entries(_parse_document(lock.text)).items() if path}


def has_hash(entry: Mapping[str, Any]) -> bool:
    """Whether an entry pins its own archive."""
    return _INTEGRITY.fullmatch(str(entry.get("integrity", ""))) is not None


def npm_programs(lock: Lock) -> dict[str, str]:
    """Return the programs of the requested packages: name to the script's path in the environment."""
    entries = _package_entries(_parse_document(lock.text))
    programs: dict[str, str] = {}
    for name in _requested_entries(entries):
        scripts = entries[_NODE_MODULES + name].get("bin")
        if isinstance(scripts, str):
            scripts = {name.rpartition("/")[2]: scripts}
        for program, script in cast("dict[str, Any]", scripts or {}).items():
            path = str(script).removeprefix("./")
            if path_fault(path) is None and path_fault(program) is None and "/" not in program:
                programs.setdefault(program, f"{_NODE_MODULES}{name}/{path}")
    return programs


def packages_with_scripts(lock: Lock) -> list[str]:
    """Return the packages that have install scripts."""
    entries = _package_entries(_parse_document(lock.text))
    return sorted({_package_name(path) for path, entry in entries.items() if entry.get("hasInstallScript")})


def _entry_fault(path: str, entries: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return what is wrong with one entry: message, hint, code."""
    value = entries[path]
    if not isinstance(value, dict):
        return "is not an entry", "", "malformed"
    entry = cast("dict[str, Any]", value)
    name = _package_name(path)
    if not path.startswith(_NODE_MODULES) or path_fault(path) or not is_npm_name(name):
        return "is not a place for a package", "", "malformed"
    if not is_npm_name(str(entry.get("name", name))):
        return "has a name that is none", "", "malformed"
    if entry.get("link") or "resolved" in entry:
        return "does not come from a registry", "install it from a directory instead", "elsewhere"
    if not isinstance(entry.get("version"), str) or not _VERSION.fullmatch(entry["version"]):
        return "has no version", "", "not_pinned"
    if not has_hash(entry) and not _is_bundled(path, entries):
        return "has no hash", "", "not_pinned"
    return None


def _is_bundled(path: str, entries: Mapping[str, Any]) -> bool:
    """Whether a package claims to be in the archive of a parent, whose hash then covers it.

    It is only a claim. npm would fetch a package that is not there, so `npm.build_package_lock` gives it an impossible
    hash.
    """
    while isinstance(value := entries.get(path), dict):
        entry = cast("dict[str, Any]", value)
        if has_hash(entry):
            return True
        if entry.get("inBundle") is not True:
            return False
        path = path.rpartition("/" + _NODE_MODULES)[0]
    return False


def _package_name(path: str) -> str:
    return path.rpartition(_NODE_MODULES)[2]


def _parse_document(text: str) -> dict[str, Any]:
    if len(text) > MAX_LOCK_BYTES:
        raise invalid_lock_error(Ecosystem.NPM, [Problem("", "is too long", code="too_long")])
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise invalid_lock_error(Ecosystem.NPM, [Problem("", "is not JSON", code="malformed")]) from None
    packages = cast("dict[str, Any]", value).get("packages") if isinstance(value, dict) else None
    root = cast("dict[str, Any]", packages).get("") if isinstance(packages, dict) else None
    if not isinstance(root, dict):
        raise invalid_lock_error(Ecosystem.NPM, [Problem("packages", "is missing", "use npm 7 or newer", "malformed")])
    return cast("dict[str, Any]", value)


def _package_entries(document: Mapping[str, Any]) -> dict[str, Any]:
    return document["packages"]


def _requested_entries(entries: Mapping[str, Any]) -> dict[str, str]:
    dependencies = entries[""].get("dependencies")
    return cast("dict[str, str]", dependencies) if isinstance(dependencies, dict) else {}
