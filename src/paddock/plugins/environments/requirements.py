"""Reads what a package needs around it: a lock of its own, or the `requirements.txt` of a Python plugin."""

from __future__ import annotations

import re
from pathlib import Path

from paddock.core.errors import Invalid, PluginError, Problem
from paddock.core.printable import printable
from paddock.manifest.command import ENVIRONMENT_PYTHON, LOCK_FILES, environment_program
from paddock.manifest.model import CommandRuntime, Manifest, PythonRuntime
from paddock.manifest.registry_package import parse_python_requirement
from paddock.plugins.environments.lock import MAX_LOCK_BYTES, Ecosystem, Lock
from paddock.plugins.environments.store import Environment, parse_lock

REQUIREMENTS_FILE = "requirements.txt"
_MAX_REQUIREMENTS = 500


def bundled_lock(root: Path, manifest: Manifest) -> Lock | None:
    """Read the lock in a package whose command is `environment:PROGRAM`; None for any other.

    Raises:
        Invalid: there is none, or it leaves something unpinned.
    """
    runtime = manifest.runtime
    if not isinstance(runtime, CommandRuntime) or environment_program(runtime.command) is None:
        return None
    for ecosystem in Ecosystem:
        file = root / ecosystem.lock_file
        if file.is_file():
            return parse_lock(ecosystem, _read_text(file))
    problem = Problem(
        "runtime.command[0]", f"there is no {' and no '.join(LOCK_FILES)} beside the manifest", code="no_lock"
    )
    raise Invalid(
        f"{manifest.name} names a program of packages that nothing pins", [problem], code="environment.bad_lock"
    )


def read_requirements(root: Path, manifest: Manifest) -> list[str]:
    """Read the `requirements.txt` of a Python plugin.

    Raises:
        Invalid: a line is more than a package requirement; carries every such line.
    """
    file = root / REQUIREMENTS_FILE
    if not isinstance(manifest.runtime, PythonRuntime) or not file.is_file():
        return []
    requirements: list[str] = []
    problems: list[Problem] = []
    for number, line in enumerate(_read_text(file).splitlines()[: _MAX_REQUIREMENTS * 10], 1):
        text = re.sub(r"(?:^|\s)#.*", "", line).strip()
        if not text:
            continue
        # Options, URLs and files would decide where uv looks and what it runs.
        requirement = parse_python_requirement(text)
        if requirement is not None:
            requirements.append(str(requirement))
        else:
            hint = "name packages only: no options, files, addresses or repositories"
            problems.append(Problem(f"{REQUIREMENTS_FILE}:{number}", printable(text, 80), hint, "not_a_package"))
    if len(requirements) > _MAX_REQUIREMENTS:
        problems.append(Problem(REQUIREMENTS_FILE, f"asks for more than {_MAX_REQUIREMENTS} packages", code="too_many"))
    if problems:
        raise Invalid(
            f"{REQUIREMENTS_FILE} asks for more than packages", problems[:50], code="environment.bad_requirements"
        )
    return requirements


def _read_text(file: Path) -> str:
    with file.open(encoding="utf-8", errors="replace") as opened:
        return opened.read(MAX_LOCK_BYTES + 1)


def resolve_command(manifest: Manifest, environment: Environment) -> tuple[str, ...]:
    """Return the command line for a manifest whose command is `environment:PROGRAM`.

    `environment:python` is the interpreter of a Python environment, which runs a program of the plugin's own package.
    The cage must show `environment.root`: it contains the script and everything that it loads.

    Raises:
        PluginError: the environment has no such program, or the manifest names none.
    """
    runtime = manifest.runtime
    command = runtime.command if isinstance(runtime, CommandRuntime) else ()
    program = environment_program(command)
    if program == ENVIRONMENT_PYTHON and environment.ecosystem is Ecosystem.PYTHON:
        return (str(environment.python), *command[1:])
    script = environment.programs.get(program or "")
    if program is None or script is None:
        raise PluginError(
            f"the packages of {manifest.name} bring no program {printable(program or '')}",
            code="environment.no_such_program",
            hint=f"they bring: {printable(', '.join(sorted(environment.programs)), 300)}",
        )
    runner = str(environment.python) if environment.ecosystem is Ecosystem.PYTHON else "node"
    return (runner, str(script), *command[1:])
