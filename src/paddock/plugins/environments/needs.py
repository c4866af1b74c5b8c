"""What a package's files say it needs around it: a lock of its own, or the `requirements.txt` of a Python plugin."""

from __future__ import annotations

import re
from pathlib import Path

from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable
from paddock.manifest.environment_command import LOCK_FILES, environment_program
from paddock.manifest.model import CommandRuntime, Manifest, PythonRuntime
from paddock.plugins.environments.lock import LONGEST, Ecosystem, Lock
from paddock.plugins.environments.rows import read_lock

REQUIREMENTS = "requirements.txt"
_CLAUSE = r"(?:===|==|>=|<=|~=|!=|<|>)\s*[A-Za-z0-9][A-Za-z0-9.!+*_-]*"
# A name, extras, versions, a condition. Options, addresses and files would say where pip looks and what it runs.
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\s*(?:\[[A-Za-z0-9._, -]*\])?"
    rf"\s*(?:\(?{_CLAUSE}(?:\s*,\s*{_CLAUSE})*\)?)?"
    r"\s*(?:;\s*[A-Za-z0-9_.'\"<>=!~() -]+)?"
)
_MOST = 500


def own_lock(root: Path, manifest: Manifest) -> Lock | None:
    """The lock in a package whose command is `environment:PROGRAM`; None for any other.

    Raises:
        Invalid: there is none, or it leaves something open.
    """
    runtime = manifest.runtime
    if not isinstance(runtime, CommandRuntime) or environment_program(runtime.command) is None:
        return None
    for ecosystem in Ecosystem:
        file = root / ecosystem.lock_file
        if file.is_file():
            return read_lock(ecosystem, _text(file))
    problem = Problem(
        "runtime.command[0]", f"there is no {' and no '.join(LOCK_FILES)} beside the manifest", code="no_lock"
    )
    raise Invalid(
        f"{manifest.name} names a program of packages that nothing pins", [problem], code="environment.bad_lock"
    )


def own_requirements(root: Path, manifest: Manifest) -> list[str]:
    """What the `requirements.txt` of a Python plugin asks for.

    Raises:
        Invalid: a line asks for more than packages; carries every such line.
    """
    file = root / REQUIREMENTS
    if not isinstance(manifest.runtime, PythonRuntime) or not file.is_file():
        return []
    wanted: list[str] = []
    problems: list[Problem] = []
    for number, line in enumerate(_text(file).splitlines()[: _MOST * 10], 1):
        text = re.sub(r"(?:^|\s)#.*", "", line).strip()
        if not text:
            continue
        if len(text) < 500 and _REQUIREMENT.fullmatch(text):
            wanted.append(text)
        else:
            hint = "name packages only: no options, files, addresses or repositories"
            problems.append(Problem(f"{REQUIREMENTS}:{number}", printable(text, 80), hint, "not_a_package"))
    if len(wanted) > _MOST:
        problems.append(Problem(REQUIREMENTS, f"asks for more than {_MOST} packages", code="too_many"))
    if problems:
        raise Invalid(f"{REQUIREMENTS} asks for more than packages", problems[:50], code="environment.bad_requirements")
    return wanted


def _text(file: Path) -> str:
    with file.open(encoding="utf-8", errors="replace") as opened:
        return opened.read(LONGEST + 1)
