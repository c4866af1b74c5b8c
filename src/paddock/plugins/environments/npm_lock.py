"""`package-lock.json`: every npm package with its version and the hash of its archive.

It names no registry: whoever builds from it uses their own. What cannot be pinned that way (a repository, a link, an
archive at some address) is refused. Whatever else npm finds in such a file, and would act on, it does not get to see:
`npm_project` writes what it gets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.plugins.environments.lock import (
    MAX_LOCK_BYTES,
    MAX_LOCKED_PACKAGES,
    Ecosystem,
    Lock,
    PinnedPackage,
    invalid_lock_error,
)
from paddock.plugins.package.rules import path_fault

# A hash of one of these is as good as the file; SHA-1 no longer is.
_INTEGRITY = re.compile(r"sha(?:256|384|512)-[A-Za-z0-9+/]{40,100}={0,2}")
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,128}")
_NODE_MODULES = "node_modules/"
NPM_NAME = re.compile(r"(?:@[a-z0-9~-][a-z0-9._~-]{0,100}/)?[A-Za-z0-9~][A-Za-z0-9._~-]{0,200}")


def pin_npm_lock(text: str, name: str) -> Lock:
    """The lock that npm wrote for one package, with the version that it found in the place of the one asked for.

    Raises:
        Invalid: it leaves something open.
    """
    document = _parse_document(text)
    entry = _package_entries(document).get(_NODE_MODULES + name)
    version = cast("dict[str, Any]", entry).get("version") if isinstance(entry, dict) else None
    _package_entries(document)[""]["dependencies"] = {name: version}
    return read_npm_lock(json.dumps(document, indent=1, ensure_ascii=True) + "\n")


def read_npm_lock(text: str) -> Lock:
    """
    Raises:
        Invalid: something in it is not pinned; carries everything that is not.
    """
    document = _parse_document(text)
    entries = _package_entries(document)
    wanted = _requested_entries(entries)
    problems: list[Problem] = []
    found: dict[str, PinnedPackage] = {}
    for place, entry in entries.items():
        if place:
            fault = _entry_fault(place, entries)
            if fault:
                problems.append(Problem(printable(place), *fault))
            else:
                # Some packages are known by another name to those that need them; the true one counts.
                found[place] = PinnedPackage(entry.get("name", _package_name(place)), entry["version"])
    for name, version in wanted.items():
        entry = entries.get(_NODE_MODULES + name)
        asked: dict[str, Any] = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        if asked.get("version") != version:
            problems.append(Problem(printable(name), "is asked for and not pinned", "", "not_pinned"))
        elif asked.get("name", name) != name:
            other = printable(str(asked["name"]))
            what = f"is asked for, and another package would lie there: {other}"
            problems.append(Problem(printable(name), what, f"ask for {other} if you want it", "other_name"))
    if not wanted:
        problems.append(Problem("", "names no package", code="empty"))
    if len(found) > MAX_LOCKED_PACKAGES:
        problems.append(Problem("", f"names more than {MAX_LOCKED_PACKAGES:,} packages", code="too_many"))
    if problems:
        raise invalid_lock_error(Ecosystem.NPM, problems)
    asked_for = {_NODE_MODULES + name for name in wanted}
    places = sorted(found, key=lambda place: place not in asked_for)  # stable: those asked for come first
    return Lock(Ecosystem.NPM, text, tuple(found[place] for place in places))


def requested_packages(lock: Lock) -> dict[str, str]:
    """The packages that were asked for, with their versions; the others came along."""
    return _requested_entries(_package_entries(_parse_document(lock.text)))


def pinned_entries(lock: Lock) -> dict[str, dict[str, Any]]:
    """What a checked lock says of each package, by the place where it will lie."""
    return {place: entry for place, entry in _package_entries(_parse_document(lock.text)).items() if place}


def has_hash(entry: Mapping[str, Any]) -> bool:
    """Whether an entry pins its archive by itself."""
    return _INTEGRITY.fullmatch(str(entry.get("integrity", ""))) is not None


def npm_programs(lock: Lock) -> dict[str, str]:
    """The programs of the packages that were asked for: name to the script's path in the environment."""
    entries = _package_entries(_parse_document(lock.text))
    found: dict[str, str] = {}
    for name in _requested_entries(entries):
        scripts = entries[_NODE_MODULES + name].get("bin")
        if isinstance(scripts, str):
            scripts = {name.rpartition("/")[2]: scripts}
        for program, script in cast("dict[str, Any]", scripts or {}).items():
            path = str(script).removeprefix("./")
            if path_fault(path) is None and path_fault(program) is None and "/" not in program:
                found.setdefault(program, f"{_NODE_MODULES}{name}/{path}")
    return found


def packages_with_scripts(lock: Lock) -> list[str]:
    """Packages that would run a program of theirs while they are installed, if they were let."""
    entries = _package_entries(_parse_document(lock.text))
    return sorted({_package_name(place) for place, one in entries.items() if one.get("hasInstallScript")})


def _entry_fault(place: str, entries: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """What is wrong with one entry: message, hint, code."""
    entry = entries[place]
    if not isinstance(entry, dict):
        return "is not an entry", "", "malformed"
    one = cast("dict[str, Any]", entry)
    name = _package_name(place)
    if not place.startswith(_NODE_MODULES) or path_fault(place) or not NPM_NAME.fullmatch(name):
        return "is not a place for a package", "", "malformed"
    if not NPM_NAME.fullmatch(str(one.get("name", name))):
        return "has a name that is none", "", "malformed"
    if one.get("link") or "resolved" in one:
        return "does not come from a registry", "install it from a directory instead", "elsewhere"
    if not isinstance(one.get("version"), str) or not _VERSION.fullmatch(one["version"]):
        return "has no version", "", "not_pinned"
    if not has_hash(one) and not _is_bundled(place, entries):
        return "has no hash", "", "not_pinned"
    return None


def _is_bundled(place: str, entries: Mapping[str, Any]) -> bool:
    """Whether a package is said to lie in the archive of one above it, whose hash then covers it.

    It is only said so. npm would fetch one that does not lie there, so `npm_project` sees to it that npm cannot.
    """
    while isinstance(entry := entries.get(place), dict):
        one = cast("dict[str, Any]", entry)
        if has_hash(one):
            return True
        if one.get("inBundle") is not True:
            return False
        place = place.rpartition("/" + _NODE_MODULES)[0]
    return False


def _package_name(place: str) -> str:
    return place.rpartition(_NODE_MODULES)[2]


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
    wanted = entries[""].get("dependencies")
    return cast("dict[str, str]", wanted) if isinstance(wanted, dict) else {}
