"""`package-lock.json`: every npm package with its version and the hash of its archive.

It names no registry: whoever builds from it uses their own. What cannot be pinned that way (a repository, a link, an
archive at some address) is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.plugins.environments.lock import LONGEST, MOST_PACKAGES, Ecosystem, Lock, Pinned, refused_lock
from paddock.plugins.names import name_mistake

# A hash of one of these is as good as the file; SHA-1 no longer is.
_INTEGRITY = re.compile(r"sha(?:256|384|512)-[A-Za-z0-9+/]{40,100}={0,2}")
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,128}")
_PLACE = "node_modules/"
NPM_NAME = re.compile(r"(?:@[a-z0-9~-][a-z0-9._~-]{0,100}/)?[A-Za-z0-9~][A-Za-z0-9._~-]{0,200}")


def pin_npm_lock(text: str, name: str) -> Lock:
    """The lock that npm wrote for one package, with the version that it found in the place of the one asked for.

    Raises:
        Invalid: it leaves something open.
    """
    document = _document(text)
    entry = _entries(document).get(_PLACE + name)
    version = cast("dict[str, Any]", entry).get("version") if isinstance(entry, dict) else None
    _entries(document)[""]["dependencies"] = {name: version}
    return read_npm_lock(json.dumps(document, indent=1, ensure_ascii=True) + "\n")


def read_npm_lock(text: str) -> Lock:
    """
    Raises:
        Invalid: something in it is not pinned; carries everything that is not.
    """
    document = _document(text)
    entries = _entries(document)
    wanted = _wanted(entries)
    problems: list[Problem] = []
    found: list[Pinned] = []
    for place, entry in entries.items():
        if place:
            fault = _fault(place, entry)
            if fault:
                problems.append(Problem(printable(place), *fault))
            else:
                found.append(Pinned(place.rpartition(_PLACE)[2], entry["version"]))
    for name, version in wanted.items():
        if entries.get(_PLACE + name, {}).get("version") != version:
            problems.append(Problem(printable(name), "is asked for and not pinned", "", "not_pinned"))
    if not wanted:
        problems.append(Problem("", "names no package", code="empty"))
    if len(found) > MOST_PACKAGES:
        problems.append(Problem("", f"names more than {MOST_PACKAGES:,} packages", code="too_many"))
    if problems:
        raise refused_lock(Ecosystem.NPM, problems)
    found.sort(key=lambda pinned: pinned.name not in wanted)  # stable: those asked for come first
    return Lock(Ecosystem.NPM, text, tuple(found))


def wanted_packages(lock: Lock) -> dict[str, str]:
    """The packages that were asked for, with their versions; the others came along."""
    return _wanted(_entries(_document(lock.text)))


def programs(lock: Lock) -> dict[str, str]:
    """The programs of the packages that were asked for: name to the script's path in the environment."""
    entries = _entries(_document(lock.text))
    found: dict[str, str] = {}
    for name in _wanted(entries):
        scripts = entries[_PLACE + name].get("bin")
        if isinstance(scripts, str):
            scripts = {name.rpartition("/")[2]: scripts}
        for program, script in cast("dict[str, Any]", scripts or {}).items():
            path = str(script).removeprefix("./")
            if name_mistake(path) is None and name_mistake(program) is None and "/" not in program:
                found.setdefault(program, f"{_PLACE}{name}/{path}")
    return found


def with_scripts(lock: Lock) -> list[str]:
    """Packages that would run a program of theirs while they are installed, if they were let."""
    entries = _entries(_document(lock.text))
    return sorted({place.rpartition(_PLACE)[2] for place, one in entries.items() if one.get("hasInstallScript")})


def package_json(lock: Lock) -> str:
    """The `package.json` that belongs to the lock; npm wants both."""
    root: dict[str, Any] = {"name": "paddock-environment", "version": "0.0.0", "private": True}
    return json.dumps(root | {"dependencies": wanted_packages(lock)}, indent=1) + "\n"


def _fault(place: str, entry: Any) -> tuple[str, str, str] | None:
    """What is wrong with one entry: message, hint, code."""
    if not isinstance(entry, dict):
        return "is not an entry", "", "malformed"
    one = cast("dict[str, Any]", entry)
    name = place.rpartition(_PLACE)[2]
    if not place.startswith(_PLACE) or name_mistake(place) or not NPM_NAME.fullmatch(name):
        return "is not a place for a package", "", "malformed"
    if one.get("link") or "resolved" in one:
        return "does not come from a registry", "install it from a directory instead", "elsewhere"
    if not isinstance(one.get("version"), str) or not _VERSION.fullmatch(one["version"]):
        return "has no version", "", "not_pinned"
    # A bundled package lies in the archive of the one above it, whose hash covers it.
    if one.get("inBundle") is not True and not _INTEGRITY.fullmatch(str(one.get("integrity", ""))):
        return "has no hash", "", "not_pinned"
    return None


def _document(text: str) -> dict[str, Any]:
    if len(text) > LONGEST:
        raise refused_lock(Ecosystem.NPM, [Problem("", "is too long", code="too_long")])
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise refused_lock(Ecosystem.NPM, [Problem("", "is not JSON", code="malformed")]) from None
    packages = cast("dict[str, Any]", value).get("packages") if isinstance(value, dict) else None
    root = cast("dict[str, Any]", packages).get("") if isinstance(packages, dict) else None
    if not isinstance(root, dict):
        raise refused_lock(Ecosystem.NPM, [Problem("packages", "is missing", "use npm 7 or newer", "malformed")])
    return cast("dict[str, Any]", value)


def _entries(document: Mapping[str, Any]) -> dict[str, Any]:
    return document["packages"]


def _wanted(entries: Mapping[str, Any]) -> dict[str, str]:
    wanted = entries[""].get("dependencies")
    return cast("dict[str, str]", wanted) if isinstance(wanted, dict) else {}
