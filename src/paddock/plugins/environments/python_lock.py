"""`requirements.lock`: a line for every Python package, with its version and the hash of the one file that fits here.

Only such lines are read. A requirements file may also name indexes, files and repositories; in a lock they would say
where packages come from behind the back of whoever runs this machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.plugins.environments.lock import LONGEST, MOST_PACKAGES, Ecosystem, Lock, Pinned, refused_lock

_LINE = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?)==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]{0,127})"
    r"(?P<hashes>(?: --hash=sha256:[0-9a-f]{64}){1,200})"
)
_SEPARATORS = re.compile(r"[-_.]+")


def normal_name(name: str) -> str:
    """A package's name as indexes compare it."""
    return _SEPARATORS.sub("-", name).lower()


def write_python_lock(pins: Iterable[tuple[Pinned, str]]) -> Lock:
    """The lock for packages and their hex SHA-256, in the order given.

    Raises:
        Invalid: a name, version or hash is not one.
    """
    lines = [f"{pinned.name}=={pinned.version} --hash=sha256:{sha256}" for pinned, sha256 in pins]
    return read_python_lock("\n".join(lines) + "\n")


def read_python_lock(text: str) -> Lock:
    """
    Raises:
        Invalid: something in it is not a pinned package; carries every such line.
    """
    problems: list[Problem] = []
    found: list[Pinned] = []
    if len(text) > LONGEST:
        raise refused_lock(Ecosystem.PYTHON, [Problem("", "is too long", code="too_long")])
    for number, raw in enumerate(text.splitlines(), 1):
        line = " ".join(raw.split())
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            what = f"{printable(line, 80)} is not a package with its hash"
            problems.append(Problem(f"line {number}", what, "write name==version --hash=sha256:…", "not_pinned"))
        else:
            found.append(Pinned(match["name"], match["version"]))
    names = [normal_name(pinned.name) for pinned in found]
    problems += [
        Problem(name, "is there twice", "keep one of them", "twice")
        for name in sorted(set(names))
        if names.count(name) > 1
    ]
    if not found and not problems:
        problems.append(Problem("", "names no package", code="empty"))
    if len(found) > MOST_PACKAGES:
        problems.append(Problem("", f"names more than {MOST_PACKAGES:,} packages", code="too_many"))
    if problems:
        raise refused_lock(Ecosystem.PYTHON, problems)
    return Lock(Ecosystem.PYTHON, text, tuple(found))
